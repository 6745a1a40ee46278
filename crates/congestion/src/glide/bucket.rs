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
