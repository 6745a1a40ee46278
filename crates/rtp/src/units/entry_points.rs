use std::time::{Duration, Instant};

use crate::payload::Entry;

/// Time without an IDR picture after which a source counts as one that sends none. Most encoders send
/// one every second or two.
const PATIENCE: Duration = Duration::from_secs(6);

/// Time since the last IDR picture after which a source counts as one that sends no more. Viewers can
/// begin with an IDR picture as long as a hub usually keeps it.
const PATIENCE_BEHIND_ONE: Duration = Duration::from_secs(20);

/// Time since the last IDR picture after which parameter sets alone mean a start. Smart codecs space IDR
/// pictures by half a minute, and may repeat their sets in between.
const PATIENCE_WITH_SETS: Duration = Duration::from_secs(60);

/// Decides with which units of a track a stream can begin.
///
/// Encoders with intra refresh, and some cameras, send one IDR picture at their start, or none, and
/// recovery points later. Some send parameter sets alone where others send recovery points.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EntryPoints {
    /// Arrival of the first unit, or of the latest keyframe.
    since: Option<Instant>,
    has_keyframes: bool,
    /// Whether the source sends recovery points, or frames that need no others.
    has_points: bool,
    /// Whether parameter sets were in front of the latest unit. In front of each they mean nothing.
    was_described: bool,
}

impl EntryPoints {
    /// Takes the next unit. Returns whether a stream can begin with it.
    pub(super) fn admit(&mut self, entry: Entry, received: Instant) -> bool {
        let since = *self.since.get_or_insert(received);
        let waited = received.saturating_duration_since(since);
        let is_described = entry == Entry::Described;
        let was_described = std::mem::replace(&mut self.was_described, is_described);
        let patience = |behind_keyframe| match self.has_keyframes {
            true => behind_keyframe,
            false => PATIENCE,
        };
        match entry {
            Entry::None => false,
            Entry::Described => {
                !(self.has_points || was_described) && waited >= patience(PATIENCE_WITH_SETS)
            }
            Entry::Gradual | Entry::Intra => {
                let admits = waited >= patience(PATIENCE_BEHIND_ONE);
                self.has_points = true;
                admits
            }
            Entry::Keyframe => {
                self.since = Some(received);
                self.has_keyframes = true;
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units of one track that arrive in the course of a minute or two.
    struct Source {
        start: Instant,
        points: EntryPoints,
    }

    impl Source {
        fn new() -> Self {
            Self {
                start: Instant::now(),
                points: EntryPoints::default(),
            }
        }

        fn admits(&mut self, entry: Entry, s: u64) -> bool {
            self.points
                .admit(entry, self.start + Duration::from_secs(s))
        }
    }

    #[test]
    fn a_recovery_point_is_a_start_where_no_keyframes_come() {
        let mut source = Source::new();
        let mut admit = |entry, s| source.admits(entry, s);
        assert!(!admit(Entry::None, 0));
        assert!(!admit(Entry::Intra, 5) && admit(Entry::Intra, 6));
        assert!(admit(Entry::Gradual, 7) && !admit(Entry::None, 8));
        assert!(admit(Entry::Keyframe, 9), "an IDR picture after all");
        assert!(!admit(Entry::Gradual, 10) && !admit(Entry::Intra, 28));
        assert!(admit(Entry::Gradual, 29));
    }

    /// x265 with intra refresh sends one IRAP picture, and parameter sets without recovery points later.
    #[test]
    fn parameter_sets_are_a_start_where_nothing_else_comes() {
        let mut source = Source::new();
        let mut admit = |entry, s| source.admits(entry, s);
        assert!(!admit(Entry::None, 0) && !admit(Entry::Described, 5));
        assert!(!admit(Entry::None, 6) && admit(Entry::Described, 7));
        assert!(admit(Entry::Keyframe, 8) && !admit(Entry::Described, 40));
        assert!(!admit(Entry::None, 68) && admit(Entry::Described, 69));
        assert!(!admit(Entry::Described, 70), "in front of each unit");
        let mut source = Source::new();
        let mut admit = |entry, s| source.admits(entry, s);
        assert!(!admit(Entry::Gradual, 0) && !admit(Entry::Described, 7));
        assert!(admit(Entry::Gradual, 8), "recovery points are there");
    }
}
