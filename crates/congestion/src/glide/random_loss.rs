//! Random loss: the share of packets that the path loses whatever is sent.

use super::constants;
use super::loss_count::LossCount;

/// Statistics of loss in periods without suspicion of a policer.
#[derive(Clone, Copy, Debug)]
pub(super) struct RandomLoss {
    /// Constants of random loss.
    constants: constants::RandomLoss,
    /// Packets sent, with older ones counting less.
    packets: f64,
    /// Packets lost, with older ones counting less.
    lost: f64,
    /// Bursts of loss, with older ones counting less.
    bursts: f64,
}

impl RandomLoss {
    /// Returns statistics of nothing.
    pub(super) const fn new(constants: constants::RandomLoss) -> Self {
        Self {
            constants,
            packets: 0.0,
            lost: 0.0,
            bursts: 0.0,
        }
    }

    /// Adds a count that showed only random loss. `mtu`: size of datagrams, in bytes.
    pub(super) fn learn(&mut self, count: &LossCount, mtu: f64) {
        self.packets += (count.delivered + count.lost) / mtu;
        self.lost += count.lost / mtu;
        self.bursts += f64::from(count.bursts);
        if self.packets > self.constants.memory {
            self.packets /= 2.0;
            self.lost /= 2.0;
            self.bursts /= 2.0;
        }
    }

    /// Returns the share of packets lost, 0 to 1.
    pub(super) fn floor(&self) -> f64 {
        (self.lost / self.packets.max(self.constants.packets_min)).min(self.constants.most)
    }

    /// Whether chance explains the bursts of loss in a count. `mtu`: size of datagrams, in
    /// bytes.
    pub(super) fn explains(&self, count: &LossCount, mtu: f64) -> bool {
        let share =
            (self.bursts / self.packets.max(self.constants.packets_min)).min(self.constants.most);
        let expected = share * (count.delivered + count.lost) / mtu;
        f64::from(count.bursts) < expected + self.constants.deviations * expected.sqrt() + 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Size of datagrams, in bytes.
    const MTU: f64 = 1200.0;

    fn count(packets: f64, bursts: u32) -> LossCount {
        let mut count = LossCount::new(Instant::now());
        count.lost = f64::from(bursts) * MTU;
        count.delivered = packets * MTU - count.lost;
        count.bursts = bursts;
        count
    }

    #[test]
    fn a_cluster_of_random_loss_is_explained_and_a_policer_is_not() {
        let mut background = RandomLoss::new(constants::RandomLoss::DEFAULT);
        assert!(!background.explains(&count(40.0, 4), MTU), "nothing known");
        background.learn(&count(2000.0, 40), MTU);
        assert!((background.floor() - 0.02).abs() < 1e-9);
        assert!(background.explains(&count(92.0, 7), MTU));
        assert!(!background.explains(&count(92.0, 20), MTU));
    }

    #[test]
    fn the_past_is_forgotten_and_much_loss_is_never_chance() {
        let mut background = RandomLoss::new(constants::RandomLoss::DEFAULT);
        for _ in 0..10 {
            background.learn(&count(1000.0, 300), MTU);
        }
        assert!(background.floor() <= constants::RandomLoss::DEFAULT.most);
        for _ in 0..30 {
            background.learn(&count(1000.0, 0), MTU);
        }
        assert!(background.floor() < 0.001, "{background:?}");
    }
}
