use std::time::{Duration, Instant};

use crate::payload::Entry;

/// Time without an IDR picture after which a source counts as one that sends none. Most encoders send
/// one every second or two.
const PATIENCE: Duration = Duration::from_secs(6);

/// Time since the last IDR picture after which a source counts as one that sends no more. Viewers can
/// begin with an IDR picture as long as a hub usually keeps it.
const PATIENCE_BEHIND_ONE: Duration = Duration::from_secs(20);

/// Decides with which units of a track a stream can begin.
///
/// Encoders with intra refresh, and some cameras, send one IDR picture at their start, or none, and
/// recovery points later.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EntryPoints {
    /// Arrival of the first unit, or of the latest keyframe.
    since: Option<Instant>,
    has_keyframes: bool,
}

impl EntryPoints {
    /// Takes the next unit. Returns whether a stream can begin with it.
    pub(super) fn admit(&mut self, entry: Entry, received: Instant) -> bool {
        let since = *self.since.get_or_insert(received);
        let patience = match self.has_keyframes {
            true => PATIENCE_BEHIND_ONE,
            false => PATIENCE,
        };
        match entry {
            Entry::None => false,
            Entry::Gradual | Entry::Intra => received.saturating_duration_since(since) >= patience,
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

    #[test]
    fn a_recovery_point_is_a_start_where_no_keyframes_come() {
        let start = Instant::now();
        let mut points = EntryPoints::default();
        let mut admit = |entry, s| points.admit(entry, start + Duration::from_secs(s));
        assert!(!admit(Entry::None, 0));
        assert!(!admit(Entry::Intra, 5) && admit(Entry::Intra, 6));
        assert!(admit(Entry::Gradual, 7) && !admit(Entry::None, 8));
        assert!(admit(Entry::Keyframe, 9), "an IDR picture after all");
        assert!(!admit(Entry::Gradual, 10) && !admit(Entry::Intra, 28));
        assert!(admit(Entry::Gradual, 29));
    }
}
