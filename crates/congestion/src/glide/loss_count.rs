//! Counts packets and losses over a period.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::constants::LossTest;

/// Detects whether lost packets were consecutive.
///
/// A policer drops single packets here and there, a fading radio several in a row: chance
/// shows in the number of bursts.
#[derive(Clone, Debug, Default)]
pub(super) struct BurstDetector {
    /// When recently arrived packets were sent.
    arrived: VecDeque<Instant>,
    /// When the newest lost packet was sent.
    lost: Option<Instant>,
}

/// Arrived packets that are remembered; few are needed, as losses are detected by later
/// packets.
const ARRIVED_MAX: usize = 64;

impl BurstDetector {
    /// Records the arrival of a packet sent at `sent`.
    pub(super) fn on_arrived(&mut self, sent: Instant) {
        self.arrived.push_back(sent);
        if self.arrived.len() > ARRIVED_MAX {
            self.arrived.pop_front();
        }
    }

    /// Records that packets up to the one sent at `sent` are lost. Returns whether this is
    /// a new burst: something arrived that was sent between them and those lost before.
    pub(super) fn on_lost(&mut self, sent: Instant) -> bool {
        let before = self.lost.replace(sent);
        let between = |before: Instant| {
            let mut arrived = self.arrived.iter();
            arrived.any(|arrived| (before..sent).contains(arrived))
        };
        before.is_none_or(between)
    }
}

/// Counts of packets since some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossCount {
    /// When the count began.
    pub(super) began: Instant,
    /// Bytes delivered within the count.
    pub(super) delivered: f64,
    /// Bytes lost within the count.
    pub(super) lost: f64,
    /// Bursts of loss: consecutive lost packets count once.
    pub(super) bursts: u32,
    /// Round trips within the count.
    pub(super) rounds: u32,
    /// Longest queueing delay of the counted packets.
    pub(super) queue_max: Duration,
    /// Shortest queueing delay at the time of a loss.
    pub(super) queue_at_loss: Option<Duration>,
}

impl LossCount {
    /// Returns an empty count.
    pub(super) const fn new(began: Instant) -> Self {
        Self {
            began,
            delivered: 0.0,
            lost: 0.0,
            bursts: 0,
            rounds: 0,
            queue_max: Duration::ZERO,
            queue_at_loss: None,
        }
    }

    /// Adds another count to this one.
    pub(super) fn add(&mut self, other: &Self) {
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.bursts += other.bursts;
    }

    /// Returns the ratio of lost bytes to all bytes, 0 to 1.
    pub(super) fn loss_ratio(&self) -> f64 {
        let all = self.delivered + self.lost;
        if all > 0.0 { self.lost / all } else { 0.0 }
    }

    /// Returns the longest queueing delay if all loss came when the queue was about that
    /// long, so that its end dropped the packets.
    ///
    /// `noise`: mean deviation of round trips.
    pub(super) fn full_queue(&self, noise: Duration, test: &LossTest) -> Option<Duration> {
        let at_loss = self.queue_at_loss?;
        let full =
            at_loss >= test.full_min + noise * 2 && at_loss >= self.queue_max.mul_f64(test.full);
        full.then_some(self.queue_max)
    }

    /// Returns the time since the count began.
    pub(super) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    /// Returns the delivery rate, in bytes/s.
    pub(super) fn rate(&self, now: Instant) -> f64 {
        self.delivered / self.elapsed(now).as_secs_f64().max(1e-3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether losses around the first of `arrivals` are two bursts.
    fn is_remembered(arrivals: u64) -> bool {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut detector = BurstDetector::default();
        assert!(detector.on_lost(at(0)), "the first loss is a burst");
        detector.on_arrived(at(1));
        for later in 1..arrivals {
            detector.on_arrived(at(10 + later));
        }
        detector.on_lost(at(2))
    }

    #[test]
    fn losses_are_two_bursts_if_a_packet_between_them_arrived_among_the_last_64() {
        assert!(is_remembered(1));
        assert!(is_remembered(64));
        assert!(!is_remembered(65));
    }

    #[test]
    fn counts_are_added() {
        let now = Instant::now();
        let count = |delivered, lost, bursts| LossCount {
            delivered,
            lost,
            bursts,
            ..LossCount::new(now)
        };
        let mut sum = count(900.0, 100.0, 2);
        sum.add(&count(2_000.0, 1_000.0, 3));
        assert_eq!((sum.bursts, sum.rounds), (5, 0));
        assert!((sum.loss_ratio() - 1_100.0 / 4_000.0).abs() < 1e-12);
        assert!((sum.rate(now + Duration::from_secs(2)) - 1_450.0).abs() < 1e-9);
    }
}
