use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Seconds of the rate that a bucket holds at most: what was delivered before the rate
/// fell looks like a burst, too.
const BURST_MAX: f64 = 0.5;
/// Time between two points.
const STEP: Duration = Duration::from_millis(40);
const POINTS_MAX: usize = 128;

/// What was delivered lately, remembered to find the burst by.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    points: VecDeque<Delivered>,
    /// Bytes delivered in all.
    delivered: f64,
}

/// How much had been delivered at a time.
#[derive(Clone, Copy, Debug)]
struct Delivered {
    at: Instant,
    bytes: f64,
}

impl History {
    /// `bytes` more were delivered.
    pub(super) fn record(&mut self, now: Instant, bytes: f64) {
        self.delivered += bytes;
        let last = self.points.back();
        if last.is_none_or(|last| now.saturating_duration_since(last.at) >= STEP) {
            self.points.push_back(Delivered {
                at: now,
                bytes: self.delivered,
            });
            if self.points.len() > POINTS_MAX {
                self.points.pop_front();
            }
        }
    }

    /// The most that arrived above `rate` lately: the bucket held at least that.
    pub(super) fn burst(&self, rate: f64) -> f64 {
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
        burst.min(BURST_MAX * rate)
    }
}
