use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time between two points of the history.
const STEP: Duration = Duration::from_millis(40);
/// Most points of the history.
const POINTS_MAX: usize = 128;

/// The bytes that were delivered lately, to estimate a policer's burst from.
#[derive(Clone, Debug, Default)]
pub(super) struct DeliveryHistory {
    /// Points of the history, oldest first.
    points: VecDeque<DeliveryPoint>,
    /// Bytes delivered since the beginning.
    delivered: f64,
}

/// Bytes delivered at a point in time.
#[derive(Clone, Copy, Debug)]
struct DeliveryPoint {
    /// Time at which the bytes were delivered.
    at: Instant,
    /// Bytes delivered since the beginning.
    bytes: f64,
}

impl DeliveryHistory {
    /// Records that `bytes` more were delivered.
    pub(super) fn record(&mut self, now: Instant, bytes: f64) {
        self.delivered += bytes;
        let last = self.points.back();
        if last.is_none_or(|last| now.saturating_duration_since(last.at) >= STEP) {
            self.points.push_back(DeliveryPoint {
                at: now,
                bytes: self.delivered,
            });
            if self.points.len() > POINTS_MAX {
                self.points.pop_front();
            }
        }
    }

    /// Returns the most bytes that arrived above `rate` (bytes/s) lately: the bucket held
    /// at least that. `burst_max`: most seconds at the rate that a bucket holds.
    pub(super) fn burst(&self, rate: f64, burst_max: f64) -> f64 {
        let mut least = f64::INFINITY;
        let mut burst = 0.0_f64;
        let Some(first) = self.points.front() else {
            return 0.0;
        };
        for it in &self.points {
            let above = it.bytes - rate * it.at.saturating_duration_since(first.at).as_secs_f64();
            least = least.min(above);
            burst = burst.max(above - least);
        }
        burst.min(burst_max * rate)
    }
}
