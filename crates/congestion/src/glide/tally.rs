//! Packets counted over a stretch of time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Whether packets that were lost were lost in a row.
///
/// A policer drops one here and one there, a fading radio several in a row: chance
/// is in the number of bursts.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    /// When packets left that arrived, lately.
    arrived: VecDeque<Instant>,
    lost: Option<Instant>,
}

/// Losses are found by later packets: not many.
const ARRIVED_KEPT: usize = 64;

impl Rows {
    pub(super) fn on_arrived(&mut self, sent: Instant) {
        self.arrived.push_back(sent);
        if self.arrived.len() > ARRIVED_KEPT {
            self.arrived.pop_front();
        }
    }

    /// Packets up to the one that left at `sent` are lost: whether anything arrived
    /// of what left between them and those lost before.
    pub(super) fn on_lost(&mut self, sent: Instant) -> bool {
        let before = self.lost.replace(sent);
        let between = |before: Instant| {
            let mut arrived = self.arrived.iter();
            arrived.any(|arrived| (before..sent).contains(arrived))
        };
        before.is_none_or(between)
    }
}

/// A queue is at its end within this share of its longest: acknowledgements come a
/// little after the loss.
const FULL: f64 = 0.7;
/// What is shorter cannot be told from an empty one.
const FULL_MIN: Duration = Duration::from_millis(3);

/// What became of the packets since some moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tally {
    pub(super) began: Instant,
    pub(super) delivered: f64,
    pub(super) lost: f64,
    /// Bursts of loss: packets that were lost in a row count once.
    pub(super) bursts: u32,
    pub(super) rounds: u32,
    /// The longest queue that anything met.
    pub(super) queue_max: Duration,
    /// The shortest queue at the time of a loss.
    pub(super) queue_at_loss: Option<Duration>,
}

impl Tally {
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

    /// Counts what another did, too.
    pub(super) fn add(&mut self, other: &Self) {
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.bursts += other.bursts;
    }

    /// Lost of all, 0 to 1.
    pub(super) fn loss_ratio(&self) -> f64 {
        let all = self.delivered + self.lost;
        if all > 0.0 { self.lost / all } else { 0.0 }
    }

    /// All loss came when the queue was about as long as it ever got: it was the end of
    /// the queue that dropped. How long the queue was then.
    /// `noise`: mean deviation of round trips.
    pub(super) fn full_queue(&self, noise: Duration) -> Option<Duration> {
        let at_loss = self.queue_at_loss?;
        let full = at_loss >= FULL_MIN + noise * 2 && at_loss >= self.queue_max.mul_f64(FULL);
        full.then_some(self.queue_max)
    }

    pub(super) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    /// Bytes a second that arrived.
    pub(super) fn rate(&self, now: Instant) -> f64 {
        self.delivered / self.elapsed(now).as_secs_f64().max(1e-3)
    }
}
