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
/// Mean of the delays that hides no queue, and how many times as far as the mean the delays reach.
const USUAL: Duration = Duration::from_millis(17);
const PEAKS: u32 = 5;
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

    /// Returns the length by which the queue seems longer at times than it is.
    pub(super) fn beyond_queue(self) -> Duration {
        self.0.saturating_sub(USUAL) * PEAKS
    }

    /// Returns whether the jitter is so large that trains say too little.
    pub(super) fn is_large(self) -> bool {
        self.0 >= JITTER_MIN
    }
}

#[cfg(test)]
mod tests {
    use glassline_media::Bitrate;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_queue_seems_longer_by_large_jitter_only() {
        for (queue_ms, standing_ms, beyond_ms) in
            [(12, 0, 0), (20, 0, 14), (60, 40, 0), (40, 0, 114)]
        {
            let signs = PathSigns {
                newest: 9,
                train: None,
                burst: None,
                carried: Bitrate::from_bps(500_000),
                has_gap: false,
                standing: standing_ms * MS,
                queue: queue_ms * MS,
                packets: 30,
                lost: 0,
                lost_runs: 0,
                queue_at_losses: Duration::ZERO,
            };
            let mut jitter = Jitter::default();
            (0..200).for_each(|_| jitter.note(&signs));
            let found = jitter.beyond_queue();
            assert!(
                found.abs_diff(beyond_ms * MS) < 2 * MS,
                "{queue_ms} ms: {found:?}"
            );
        }
    }
}
