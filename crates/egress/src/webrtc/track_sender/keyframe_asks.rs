//! How often one viewer asks the source for a keyframe.

use std::time::{Duration, Instant};

/// Shortest interval between requests of a viewer that misses something.
const INTERVAL: Duration = Duration::from_millis(500);

/// Shortest interval between requests of a viewer that skips frames because its path is too slow. A
/// keyframe is the largest frame of all: more of them would leave less of the path for the frames between,
/// and all viewers get them.
const INTERVAL_SLOW: Duration = Duration::from_secs(4);

/// Time after a skip for which a viewer counts as slow.
const SLOW: Duration = Duration::from_secs(8);

/// The requests of one viewer for keyframes of a track.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyframeAsks {
    asked: Option<Instant>,
    /// Time of the latest skip, and of the latest request after a skip.
    skipped: Option<Instant>,
    asked_slow: Option<Instant>,
}

impl KeyframeAsks {
    /// Notes that frames were skipped because the viewer is too slow.
    pub(super) const fn note_skip(&mut self, now: Instant) {
        self.skipped = Some(now);
    }

    /// Returns whether the viewer may ask for a keyframe at `now`, which it then does.
    pub(super) fn ask(&mut self, now: Instant) -> bool {
        let is_within = |at: Instant, span| now.saturating_duration_since(at) < span;
        let is_slow = self.skipped.is_some_and(|at| is_within(at, SLOW));
        let is_soon = |at: Option<Instant>, span| at.is_some_and(|at| is_within(at, span));
        let asked_slow = self.asked_slow.filter(|_| is_slow);
        let may = !is_soon(self.asked, INTERVAL) && !is_soon(asked_slow, INTERVAL_SLOW);
        if may {
            self.asked = Some(now);
            if is_slow {
                self.asked_slow = Some(now);
            }
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_after_a_skip_waits_for_none_before() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut asks = KeyframeAsks::default();
        assert!(asks.ask(at(0)));
        asks.note_skip(at(1_000));
        assert!(asks.ask(at(1_000)));
        asks.note_skip(at(2_500));
        assert!(!asks.ask(at(2_500)) && asks.ask(at(5_000)));
    }

    #[test]
    fn a_slow_viewer_asks_each_four_seconds_and_others_twice_a_second() {
        let start = Instant::now();
        let count = |is_slow: bool| {
            let mut asks = KeyframeAsks::default();
            let times = (0..20_000)
                .step_by(33)
                .map(|ms| start + Duration::from_millis(ms));
            times
                .filter(|now| {
                    if is_slow {
                        asks.note_skip(*now);
                    }
                    asks.ask(*now)
                })
                .count()
        };
        assert_eq!(count(true), 5);
        assert!((38..=40).contains(&count(false)));
    }
}
