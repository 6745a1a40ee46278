//! Pace of a flood: a token bucket with a tenth of a second of depth.

use std::time::{Duration, Instant};

/// Longest time whose events are caught up at once after a pause.
const DEPTH_S: f64 = 0.1;

/// Releases events at a rate.
#[derive(Debug)]
pub(super) struct Pacer {
    per_second: f64,
    refilled: Instant,
    tokens: f64,
}

impl Pacer {
    /// A pacer without tokens at `now`.
    pub(super) fn new(per_second: u32, now: Instant) -> Self {
        Self {
            per_second: f64::from(per_second),
            refilled: now,
            tokens: 0.0,
        }
    }

    /// Takes the events that are due at `now`, at most `limit`.
    pub(super) fn take(&mut self, now: Instant, limit: usize) -> usize {
        let passed: Duration = now.saturating_duration_since(self.refilled);
        self.refilled = now;
        let tokens = self.tokens + passed.as_secs_f64() * self.per_second;
        self.tokens = tokens.min((self.per_second * DEPTH_S).max(1.0));
        let due = (self.tokens as usize).min(limit);
        self.tokens -= due as f64;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_at_the_rate_and_a_pause_is_not_caught_up() {
        let now = Instant::now();
        let mut pacer = Pacer::new(1000, now);
        assert_eq!(pacer.take(now, 10), 0);
        let at = |ms| now + Duration::from_millis(ms);
        assert_eq!(pacer.take(at(20), 100), 20);
        assert_eq!(pacer.take(at(40), 5), 5, "no more than wanted");
        assert_eq!(pacer.take(at(40), 100), 15);
        assert_eq!(pacer.take(at(9000), 1000), 100);
    }
}
