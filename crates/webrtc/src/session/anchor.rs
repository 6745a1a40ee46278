//! The relation between RTP timestamps and the clock, from which sender reports extrapolate.

use std::time::{Duration, Instant};

/// States that an RTP timestamp belongs to an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    pub(super) timestamp: u32,
    pub(super) at: Instant,
}

impl Anchor {
    /// Returns the RTP timestamp at `now`, which may be before or after the anchor.
    #[expect(clippy::cast_possible_truncation, reason = "RTP time wraps at 32 bits")]
    pub(super) fn extrapolate(&self, now: Instant, clock_rate: u32) -> u32 {
        let ticks = |elapsed: Duration| {
            ((elapsed.as_nanos() * u128::from(clock_rate) + 500_000_000) / 1_000_000_000) as u32
        };
        match now.checked_duration_since(self.at) {
            Some(later) => self.timestamp.wrapping_add(ticks(later)),
            None => self.timestamp.wrapping_sub(ticks(self.at - now)),
        }
    }
}
