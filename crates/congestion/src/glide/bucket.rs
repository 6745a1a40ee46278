//! A policer's token bucket, as estimated by the sender.

use std::time::Instant;

/// Rate and burst of a policer, and what is left of the burst.
///
/// A drop-tail queue drops by the same rule (its free room are the tokens), so the same
/// model serves for buffers shorter than any queue that we would keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// Rate at which tokens come, in bytes/s.
    pub(super) rate: f64,
    /// Capacity of the bucket, in bytes, as far as is known.
    pub(super) burst: f64,
    /// Tokens when they were last counted, in bytes; below zero what was sent too much.
    tokens: f64,
    /// When the tokens were last counted.
    counted: Instant,
}

impl Bucket {
    /// Returns an empty bucket.
    pub(super) const fn new(rate: f64, burst: f64, now: Instant) -> Self {
        Self {
            rate,
            burst,
            tokens: 0.0,
            counted: now,
        }
    }

    /// Updates the tokens to `now`, and returns them in bytes.
    pub(super) fn fill(&mut self, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(self.counted).as_secs_f64();
        self.counted = now;
        self.tokens = (self.tokens + seconds * self.rate).min(self.burst);
        self.tokens
    }

    /// Takes tokens for `bytes` that were sent.
    pub(super) fn take(&mut self, now: Instant, bytes: f64) {
        self.fill(now);
        // The tokens cannot be far below zero: what was sent then was dropped.
        self.tokens = (self.tokens - bytes).max(-self.burst);
    }

    /// Returns the tokens when they were last counted, in bytes.
    pub(super) const fn tokens(&self) -> f64 {
        self.tokens
    }

    /// Records that the policer dropped something, so the bucket was empty.
    pub(super) fn drop_seen(&mut self) {
        if self.tokens > 0.0 {
            // Tokens were expected: the burst is smaller by those.
            self.burst = (self.burst - self.tokens).max(0.0);
        }
        self.tokens = self.tokens.min(0.0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn tokens_come_at_the_rate_up_to_the_burst_and_are_taken() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut bucket = Bucket::new(1_000.0, 500.0, start);
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found}");
        near(bucket.fill(at(100)), 100.0);
        near(bucket.fill(at(300)), 300.0);
        near(bucket.fill(at(10_000)), 500.0);
        bucket.take(at(10_000), 200.0);
        near(bucket.tokens(), 300.0);
        bucket.take(at(10_100), 250.0);
        near(bucket.tokens(), 150.0);
        bucket.take(at(10_100), 5_000.0);
        near(bucket.tokens(), -500.0);
    }

    #[test]
    fn a_drop_where_tokens_were_expected_shortens_the_burst_by_them() {
        let start = Instant::now();
        let mut bucket = Bucket::new(1_000.0, 500.0, start);
        bucket.fill(start + Duration::from_millis(200));
        bucket.drop_seen();
        assert!((bucket.burst - 300.0).abs() < 1e-6, "{bucket:?}");
        assert!(bucket.tokens().abs() < 1e-6, "{bucket:?}");
        bucket.take(start + Duration::from_millis(200), 100.0);
        bucket.drop_seen();
        assert!((bucket.burst - 300.0).abs() < 1e-6, "none were expected");
        assert!((bucket.tokens() + 100.0).abs() < 1e-6, "{bucket:?}");
    }
}
