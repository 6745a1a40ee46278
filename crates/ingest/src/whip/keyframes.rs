//! When a publisher is asked for a keyframe.

use std::time::{Duration, Instant};

/// Shortest interval between two requests. One keyframe answers everybody who waits; a request is
/// repeated only because it may have been lost.
const INTERVAL: Duration = Duration::from_secs(1);

/// Longest time in which a publisher that heeds requests makes a keyframe.
const ANSWER: Duration = Duration::from_secs(1);

/// The wish for a keyframe, whoever has it.
#[derive(Debug, Default)]
pub(super) struct KeyframeRequests {
    is_wanted: bool,
    requested: Option<Instant>,
    /// The first request of the present wait.
    asked: Option<Instant>,
    /// Whether the last request that was answered was answered soon.
    is_heeded: Option<bool>,
}

impl KeyframeRequests {
    /// Notes that a keyframe is wanted.
    pub(super) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Returns whether a keyframe is wanted.
    pub(super) const fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Forgets that a keyframe is wanted: none comes, since the layer is paused.
    pub(super) fn withdraw(&mut self) {
        (self.is_wanted, self.asked) = (false, None);
    }

    /// Notes that a keyframe came.
    pub(super) fn answered(&mut self, now: Instant) {
        self.is_wanted = false;
        if let Some(asked) = self.asked.take() {
            self.is_heeded = Some(now.saturating_duration_since(asked) <= ANSWER);
        }
    }

    /// Returns whether the publisher makes keyframes when asked; `None` before the first request
    /// was answered or overdue.
    pub(super) fn is_heeded(&self, now: Instant) -> Option<bool> {
        let overdue = |asked| now.saturating_duration_since(asked) > ANSWER;
        match self.asked {
            Some(asked) if overdue(asked) => Some(false),
            _ => self.is_heeded,
        }
    }

    /// Returns whether a keyframe is to be requested now.
    pub(super) fn poll(&mut self, now: Instant) -> bool {
        let is_due = self.is_wanted && self.next().is_none_or(|at| at <= now);
        if is_due {
            self.requested = Some(now);
            self.asked.get_or_insert(now);
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
        requests.answered(at(1100));
        assert_eq!(requests.deadline(), None);
        assert!(!requests.poll(at(5000)));
        requests.want();
        assert!(requests.poll(at(5000)));
    }

    #[test]
    fn a_publisher_heeds_requests_if_its_keyframe_comes_soon_after_the_first() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut requests = KeyframeRequests::default();
        requests.answered(start);
        assert_eq!(requests.is_heeded(start), None, "nobody asked");
        requests.want();
        assert!(requests.poll(start));
        assert_eq!(requests.is_heeded(at(900)), None, "it has time");
        requests.answered(at(90));
        assert_eq!(requests.is_heeded(at(5000)), Some(true));
        requests.want();
        assert!(requests.poll(at(6000)));
        assert_eq!(requests.is_heeded(at(6900)), Some(true));
        assert!(requests.poll(at(7000)), "again");
        assert_eq!(requests.is_heeded(at(7001)), Some(false), "it is overdue");
        requests.answered(at(7100));
        assert_eq!(requests.is_heeded(at(9000)), Some(false), "by its interval");
    }
}
