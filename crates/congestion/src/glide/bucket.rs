//! A token bucket as seen from the sender.

use std::time::Instant;

/// Rate and burst of a policer, and what is left of the burst.
///
/// A drop-tail queue drops by the same rule (its free room are the tokens), so the
/// same model serves for buffers shorter than any queue we would keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// Bytes a second.
    pub(super) rate: f64,
    /// Bytes that may come at once, as far as we know.
    pub(super) burst: f64,
    tokens: f64,
    counted: Instant,
}

impl Bucket {
    /// An empty one.
    pub(super) const fn new(rate: f64, burst: f64, now: Instant) -> Self {
        Self {
            rate,
            burst,
            tokens: 0.0,
            counted: now,
        }
    }

    /// Tokens at `now`, in bytes.
    pub(super) fn fill(&mut self, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(self.counted).as_secs_f64();
        self.counted = now;
        self.tokens = (self.tokens + seconds * self.rate).min(self.burst);
        self.tokens
    }

    pub(super) fn take(&mut self, now: Instant, bytes: f64) {
        self.fill(now);
        // Deeper than empty is not known: what was sent then was dropped.
        self.tokens = (self.tokens - bytes).max(-self.burst);
    }

    pub(super) const fn tokens(&self) -> f64 {
        self.tokens
    }

    /// It dropped something: there was nothing left.
    pub(super) fn drop_seen(&mut self) {
        if self.tokens > 0.0 {
            // We thought there was: the burst is smaller by that.
            self.burst = (self.burst - self.tokens).max(0.0);
        }
        self.tokens = self.tokens.min(0.0);
    }
}
