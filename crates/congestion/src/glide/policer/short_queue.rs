//! A queue that is full before it is as long as wanted.

use std::time::{Duration, Instant};

use super::{Phase, Policer};

/// A queue shorter than the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortQueue {
    /// Queueing delay to aim at.
    queue: Duration,
    /// When to try a longer queue.
    until: Instant,
    /// Attempts at a longer queue that failed.
    failures: u32,
}

impl Policer {
    /// Notes that the end of a queue of this length dropped packets: a part of it is for
    /// us. This is BBRv3's long-term bound (§5.5.10, `inflight_longterm`), as a time. `rate`: bytes/s
    /// that the path carried meanwhile.
    pub(super) fn shorten(&mut self, queue: Duration, rate: f64, now: Instant) {
        self.measured = Some(rate);
        let failures = self.short.map_or(0, |short| short.failures + 1);
        let wait = self.policed.rest_short * (1 << failures.min(3));
        self.short = Some(ShortQueue {
            queue: queue.mul_f64(self.policed.short_share),
            until: now + wait,
            failures,
        });
        self.enter(Phase::Free, now);
    }

    /// Tries a longer queue if it is time, because the path may have changed.
    pub(super) fn try_longer(&mut self, now: Instant) {
        if let Some(short) = &mut self.short
            && now >= short.until
        {
            short.queue = short.queue.mul_f64(1.5);
            short.until = now + self.policed.rest_short;
            if short.queue > self.policed.short_max {
                self.short = None;
            }
        }
    }

    /// Returns the longest queueing delay that the flow may aim at.
    pub(in super::super) fn queue_limit(&self) -> Option<Duration> {
        self.short.map(|short| short.queue)
    }
}
