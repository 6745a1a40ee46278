//! The state of a [`Policer`]: how many tokens its bucket holds.

use super::{Nanos, Policer};

/// A bucket's tokens, in bits times 10⁹ so that no rate loses any to rounding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    policer: Policer,
    tokens: u128,
    counted: Nanos,
}

const BIT: u128 = 1_000_000_000;

impl Bucket {
    /// A full bucket at `now`.
    pub(super) fn full(policer: Policer, now: Nanos) -> Self {
        Self {
            policer,
            tokens: size(policer),
            counted: now,
        }
    }

    pub(super) fn policer(&self) -> Policer {
        self.policer
    }

    /// Whether `bytes` may pass at `now`, which must not go back; takes their
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

fn size(policer: Policer) -> u128 {
    u128::from(policer.burst_bytes) * 8 * BIT
}
