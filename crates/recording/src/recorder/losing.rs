//! A loss that has not ended.

use std::time::{Duration, Instant};

use crate::disk::Failure;

/// Time after a failure of a disk from which a new file is tried.
const PAUSE: Duration = Duration::from_secs(1);

/// Frames that are not recorded, and why.
#[derive(Clone, Debug)]
pub(super) struct Losing {
    pub(super) failure: Failure,
    /// Wall-clock time of the end of what is recorded, since 1970.
    pub(super) from: Duration,
    /// Wall-clock time up to which the loss was counted.
    counted: Duration,
    /// Instant from which a new file is tried.
    retry_at: Instant,
    /// Whether a keyframe was asked for, to go on with.
    pub(super) has_asked: bool,
}

impl Losing {
    pub(super) fn new(failure: Failure, from: Duration, now: Instant) -> Self {
        let retry_at = if failure.is_refusal() {
            now + PAUSE
        } else {
            now
        };
        Self {
            failure,
            from,
            counted: from,
            retry_at,
            has_asked: false,
        }
    }

    /// Returns the loss after a further failure.
    pub(super) fn again(&self, failure: Failure, now: Instant) -> Self {
        Self {
            counted: self.counted,
            ..Self::new(failure, self.from, now)
        }
    }

    /// Returns whether a new file may be tried at `now`.
    pub(super) fn may_retry(&self, now: Instant) -> bool {
        now >= self.retry_at
    }

    /// Returns the time that is lost beyond what was counted, up to `to`.
    pub(super) fn count_to(&mut self, to: Duration) -> Duration {
        let more = to.saturating_sub(self.counted);
        self.counted = self.counted.max(to);
        more
    }
}
