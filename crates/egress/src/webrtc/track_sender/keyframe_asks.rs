//! How often one viewer asks the source for a keyframe, and whether the source heeds that.

use std::time::{Duration, Instant};

/// Shortest interval between requests of a viewer that misses something.
const INTERVAL: Duration = Duration::from_millis(500);

/// Doublings of that interval while a viewer skips frames because its path is too slow. A keyframe is the
/// largest frame of all: more of them would leave less of the path for the frames between, and all viewers
/// get them. The first ones come sooner, since a path that stood for a moment may lose a keyframe, too.
const DOUBLINGS_MAX: u32 = 3;

/// Time after a skip for which a viewer counts as slow.
const SLOW: Duration = Duration::from_secs(8);

/// Time after a request within which a source that heeds requests sends a keyframe.
const ANSWER: Duration = Duration::from_secs(1);

/// The requests of one viewer for keyframes of a track, and the keyframes that come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyframeAsks {
    asked: Option<Instant>,
    /// Time of the latest skip, and of the latest request after a skip.
    skipped: Option<Instant>,
    asked_slow: Option<Instant>,
    /// Number of requests since the viewer became slow.
    slow_asks: u32,
    /// Time of the latest keyframe, and the time from the one before.
    keyframe: Option<Instant>,
    interval: Option<Duration>,
    /// Time of the first request since then.
    unanswered: Option<Instant>,
    /// Whether the requests before that keyframe were of no effect.
    is_unheeded: bool,
    /// Whether the viewer asked too soon after the request before, and has got no keyframe since.
    is_owed: bool,
}

impl KeyframeAsks {
    /// Notes that frames were skipped because the viewer is too slow.
    pub(super) const fn note_skip(&mut self, now: Instant) {
        self.skipped = Some(now);
    }

    /// Notes that a keyframe has come, and how long after the one before.
    pub(super) fn note_keyframe(&mut self, now: Instant) {
        self.is_owed = false;
        let before = self.keyframe.replace(now);
        self.interval = before.map(|at| now.saturating_duration_since(at));
        if let Some(asked) = self.unanswered.take() {
            self.is_unheeded = now.saturating_duration_since(asked) > ANSWER;
        }
    }

    /// Takes the viewer's own request at `now`. Returns whether the source is asked now. A browser repeats a
    /// request after three seconds only, so one that comes too soon is made up for later.
    pub(super) fn ask_for_viewer(&mut self, now: Instant) -> bool {
        let may = self.ask(now);
        self.is_owed = !may;
        may
    }

    /// Returns whether a request of the viewer is still to be passed on.
    pub(super) const fn is_owed(&self) -> bool {
        self.is_owed
    }

    /// Returns the time between keyframes of a source that heeds no requests; `None` of others.
    pub(super) fn unheeded_interval(&self) -> Option<Duration> {
        self.interval.filter(|_| self.is_unheeded)
    }

    /// Returns whether the viewer may ask for a keyframe at `now`, which it then does.
    pub(super) fn ask(&mut self, now: Instant) -> bool {
        let is_within = |at: Instant, span| now.saturating_duration_since(at) < span;
        let is_slow = self.skipped.is_some_and(|at| is_within(at, SLOW));
        let is_soon = |at: Option<Instant>, span| at.is_some_and(|at| is_within(at, span));
        if !is_slow {
            (self.asked_slow, self.slow_asks) = (None, 0);
        }
        let interval_slow = INTERVAL * 2_u32.pow(self.slow_asks.min(DOUBLINGS_MAX));
        let may = !is_soon(self.asked, INTERVAL) && !is_soon(self.asked_slow, interval_slow);
        if may {
            self.is_owed = false;
            self.asked = Some(now);
            self.unanswered.get_or_insert(now);
            if is_slow {
                self.asked_slow = Some(now);
                self.slow_asks = self.slow_asks.saturating_add(1);
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
        asks.note_skip(at(1_900));
        assert!(!asks.ask(at(1_900)) && asks.ask(at(2_000)));
        asks.note_skip(at(3_900));
        assert!(!asks.ask(at(3_900)) && asks.ask(at(4_000)));
        assert!(!asks.ask(at(7_900)) && asks.ask(at(8_000)));
        assert!(
            asks.ask(at(12_500)) && asks.ask(at(13_000)),
            "it skips nothing"
        );
    }

    #[test]
    fn a_request_that_comes_too_soon_is_made_up_for_unless_a_keyframe_comes() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut asks = KeyframeAsks::default();
        assert!(asks.ask(at(0)) && !asks.is_owed());
        asks.note_keyframe(at(100));
        assert!(!asks.ask_for_viewer(at(400)) && asks.is_owed());
        assert!(!asks.ask(at(433)) && asks.is_owed());
        assert!(asks.ask(at(500)) && !asks.is_owed());
        assert!(!asks.ask_for_viewer(at(600)) && asks.is_owed());
        asks.note_keyframe(at(650));
        assert!(!asks.is_owed());
    }

    #[test]
    fn a_source_that_heeds_no_request_is_known_by_its_next_keyframe() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut asks = KeyframeAsks::default();
        asks.note_keyframe(at(0));
        asks.note_keyframe(at(10_000));
        assert_eq!(asks.unheeded_interval(), None, "nobody asked");
        assert!(asks.ask(at(11_000)) && asks.ask(at(19_900)));
        asks.note_keyframe(at(20_000));
        let found = asks.unheeded_interval();
        assert_eq!(found, Some(Duration::from_secs(10)));
        assert!(asks.ask(at(25_000)));
        asks.note_keyframe(at(25_100));
        assert_eq!(asks.unheeded_interval(), None);
    }

    #[test]
    fn a_viewer_that_stays_slow_asks_each_four_seconds_and_others_twice_a_second() {
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
        assert_eq!(count(true), 7);
        assert!((38..=40).contains(&count(false)));
    }
}
