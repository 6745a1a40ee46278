//! Whether packets are delayed by something that is no queue.
//!
//! ```text
//! mean delay   ▆▅▇▆▅▇▆▅    a queue delays all packets of a moment, jitter only some
//! least delay  ▁▁▂▁▁▁▂▁
//! ```
//!
//! Trains seem slow behind jitter, as packets that left apart arrive together and others far from each other.
//! Packets that left together still arrive at the rate of the link.

use std::time::Duration;

use glassline_congestion::PathSigns;

/// Least delay from which on a queue stands.
const QUEUE_MIN: Duration = Duration::from_millis(30);
/// Mean of the delays beyond the least one from which on trains say too little.
const JITTER_MIN: Duration = Duration::from_millis(25);
/// Share of the latest delay in the mean, one in so many: some three seconds of feedback.
const SMOOTHED_ONE_IN: u32 = 32;

/// The jitter of a viewer's path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Jitter(Duration);

impl Jitter {
    /// Takes the signs of the latest feedback.
    pub(super) fn note(&mut self, signs: &PathSigns) {
        let beyond = match signs.standing < QUEUE_MIN {
            true => signs.queue.saturating_sub(signs.standing),
            false => Duration::ZERO,
        };
        self.0 = self.0 - self.0 / SMOOTHED_ONE_IN + beyond / SMOOTHED_ONE_IN;
    }

    /// Returns whether the jitter is so large that trains say too little.
    pub(super) fn is_large(self) -> bool {
        self.0 >= JITTER_MIN
    }
}
