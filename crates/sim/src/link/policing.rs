//! The state of a [`Policer`]: the tokens in its bucket.

use super::{Nanos, Policer};

/// The token bucket of a policer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// Rate and capacity of the bucket.
    policer: Policer,
    /// Tokens in bits times 10⁹, so that no rate loses any to rounding.
    tokens: u128,
    /// When the tokens were last counted.
    counted: Nanos,
}

/// Tokens of one bit.
const BIT: u128 = 1_000_000_000;

impl Bucket {
    /// Returns a bucket that is full at `now`.
    pub(super) fn full(policer: Policer, now: Nanos) -> Self {
        Self {
            policer,
            tokens: size(policer),
            counted: now,
        }
    }

    /// Returns rate and capacity of the bucket.
    pub(super) fn policer(&self) -> Policer {
        self.policer
    }

    /// Decides whether `bytes` may pass at `now`, which must not go back, and takes their
    /// tokens if so.
    pub(super) fn passes(&mut self, now: Nanos, bytes: usize) -> bool {
        let gained = u128::from(now - self.counted) * u128::from(self.policer.rate.bps());
        self.counted = now;
        self.tokens = (self.tokens + gained).min(size(self.policer));
        let needed = bytes as u128 * 8 * BIT;
        if needed > self.tokens {
            return false;
        }
        self.tokens -= needed;
        true
    }
}

/// Returns the capacity of the bucket, in tokens.
fn size(policer: Policer) -> u128 {
    u128::from(policer.burst_bytes) * 8 * BIT
}
