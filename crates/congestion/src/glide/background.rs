//! Loss that comes whatever one does.

use super::tally::Tally;

/// Packets after which the past counts half: some ten seconds at 3 Mbit/s.
const MEMORY: f64 = 3000.0;
/// Fewer packets give no share.
const PACKETS_MIN: f64 = 300.0;
/// No more than this is put down to chance: radio links that lose more are rare, and a
/// policer that was cleared by mistake must be asked about again.
const MOST: f64 = 0.08;
/// Standard deviations of a Poisson number that chance does not reach: once in a
/// thousand, and counts begin whenever one likes.
const DEVIATIONS: f64 = 3.0;

/// What loss there was while nothing was held against the path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Background {
    packets: f64,
    lost: f64,
    bursts: f64,
}

impl Background {
    /// This was no sign of anything.
    pub(super) fn learn(&mut self, tally: &Tally, mtu: f64) {
        self.packets += (tally.delivered + tally.lost) / mtu;
        self.lost += tally.lost / mtu;
        self.bursts += f64::from(tally.bursts);
        if self.packets > MEMORY {
            self.packets /= 2.0;
            self.lost /= 2.0;
            self.bursts /= 2.0;
        }
    }

    /// Share of packets lost, 0 to 1.
    pub(super) fn floor(&self) -> f64 {
        (self.lost / self.packets.max(PACKETS_MIN)).min(MOST)
    }

    /// Chance makes so many bursts of loss in so many packets.
    pub(super) fn explains(&self, tally: &Tally, mtu: f64) -> bool {
        let share = (self.bursts / self.packets.max(PACKETS_MIN)).min(MOST);
        let expected = share * (tally.delivered + tally.lost) / mtu;
        f64::from(tally.bursts) < expected + DEVIATIONS * expected.sqrt() + 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn tally(packets: f64, bursts: u32) -> Tally {
        let mut tally = Tally::new(Instant::now());
        tally.lost = f64::from(bursts);
        tally.delivered = packets - tally.lost;
        tally.bursts = bursts;
        tally
    }

    #[test]
    fn a_cluster_of_random_loss_is_explained_and_a_policer_is_not() {
        let mut background = Background::default();
        assert!(!background.explains(&tally(40.0, 4), 1.0), "nothing known");
        background.learn(&tally(2000.0, 40), 1.0);
        assert!((background.floor() - 0.02).abs() < 1e-9);
        assert!(background.explains(&tally(92.0, 7), 1.0));
        assert!(!background.explains(&tally(92.0, 20), 1.0));
    }

    #[test]
    fn the_past_is_forgotten_and_much_loss_is_never_chance() {
        let mut background = Background::default();
        for _ in 0..10 {
            background.learn(&tally(1000.0, 300), 1.0);
        }
        assert!(background.floor() <= MOST);
        for _ in 0..30 {
            background.learn(&tally(1000.0, 0), 1.0);
        }
        assert!(background.floor() < 0.001, "{background:?}");
    }
}
