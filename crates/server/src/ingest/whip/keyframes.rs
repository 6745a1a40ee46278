//! When a publisher is asked for a keyframe.

use std::time::{Duration, Instant};

/// Shortest interval between two requests. One keyframe answers everybody who waits; a request is
/// repeated only because it may have been lost.
const INTERVAL: Duration = Duration::from_secs(1);

/// The wish for a keyframe, whoever has it.
#[derive(Debug, Default)]
pub(super) struct KeyframeRequests {
    is_wanted: bool,
    requested: Option<Instant>,
}

impl KeyframeRequests {
    /// Notes that a keyframe is wanted.
    pub(super) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Notes that a keyframe came.
    pub(super) fn answered(&mut self) {
        self.is_wanted = false;
    }

    /// Returns whether a keyframe is to be requested now.
    pub(super) fn poll(&mut self, now: Instant) -> bool {
        let is_due = self.is_wanted && self.next().is_none_or(|at| at <= now);
        if is_due {
            self.requested = Some(now);
        }
        is_due
    }

    /// Returns when [`poll`](Self::poll) may return true, if a keyframe is wanted.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.next().filter(|_| self.is_wanted)
    }

    fn next(&self) -> Option<Instant> {
        Some(self.requested? + INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wait_for_a_keyframe_is_one_request_a_second() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut requests = KeyframeRequests::default();
        assert!(!requests.poll(start), "nobody wants one");
        requests.want();
        assert!(requests.poll(start));
        for ms in 1..1000 {
            requests.want();
            assert!(!requests.poll(at(ms)), "{ms}");
        }
        assert_eq!(requests.deadline(), Some(at(1000)));
        assert!(requests.poll(at(1000)), "the request may be lost");
        requests.answered();
        assert_eq!(requests.deadline(), None);
        assert!(!requests.poll(at(5000)));
        requests.want();
        assert!(requests.poll(at(5000)));
    }
}
