//! What round trips show of the queue.

use std::time::{Duration, Instant};

use crate::RoundTrips;
use crate::filter::{Largest, Least, Windowed};

use super::constants;

/// The path's queue, measured by round trips.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// Constants of the measurement.
    constants: constants::Queue,
    /// Smallest round-trip time within the window.
    least: Windowed<Duration, Least>,
    /// Standing round trip: the smallest of half a smoothed one.
    standing: Windowed<Duration, Least>,
    /// Largest round trip of the swing.
    largest: Windowed<Duration, Largest>,
    /// Latest sample of the round-trip time.
    latest: Duration,
    /// Smoothed round-trip time of the path (RFC 6298 §2).
    smoothed: Duration,
    /// When the queue was nearly empty last.
    emptied: Option<Instant>,
}

impl Queue {
    /// Returns the state before the first round trip.
    pub(super) const fn new(constants: constants::Queue) -> Self {
        Self {
            constants,
            least: Windowed::new(constants.least_window),
            standing: Windowed::new(constants.standing_first),
            largest: Windowed::new(constants.standing_first),
            latest: Duration::ZERO,
            smoothed: Duration::ZERO,
            emptied: None,
        }
    }

    /// Records a round trip. `contested`: others fill the queue. `target`: queueing delay
    /// that the flow aims at.
    pub(super) fn observe(
        &mut self,
        now: Instant,
        rtt: Duration,
        trips: &RoundTrips,
        contested: bool,
        target: Duration,
    ) {
        self.smoothed = trips.smoothed().unwrap_or(rtt);
        self.latest = rtt;
        self.least.set_window(if contested {
            self.constants.least_window_contested
        } else {
            self.constants.least_window
        });
        self.least.record(rtt, now);
        let half = self.smoothed / self.constants.standing_divisor;
        self.standing.set_window(half);
        self.standing.record(rtt, now);
        self.largest
            .set_window(self.smoothed * self.constants.swing_rounds);
        self.largest.record(rtt, now);
        let nearly_empty = self
            .swing()
            .mul_f64(self.constants.nearly_empty)
            .max(target / self.constants.untouched_divisor);
        if self.latest_delay() <= nearly_empty || self.emptied.is_none() {
            self.emptied = Some(now);
        }
    }

    /// Returns the smallest round trip, which is the path's without a queue. Zero before
    /// the first.
    pub(super) fn least(&self) -> Duration {
        self.least.get().unwrap_or_default()
    }

    /// Returns the standing round trip.
    pub(super) fn standing(&self) -> Duration {
        self.standing.get().unwrap_or(self.latest)
    }

    /// Returns the smoothed round trip.
    pub(super) const fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// Returns the delay of the standing queue.
    pub(super) fn delay(&self) -> Duration {
        self.standing().saturating_sub(self.least())
    }

    /// Returns the queueing delay of the latest packet.
    pub(super) fn latest_delay(&self) -> Duration {
        self.latest.saturating_sub(self.least())
    }

    /// Returns the longest queueing delay of the last round trips.
    pub(super) fn swing(&self) -> Duration {
        self.largest
            .get()
            .unwrap_or_default()
            .saturating_sub(self.least())
    }

    /// Returns for how long the queue has not been nearly empty.
    pub(super) fn full_for(&self, now: Instant) -> Duration {
        self.emptied
            .map_or(Duration::ZERO, |at| now.saturating_duration_since(at))
    }

    /// Restarts the time of [`full_for`](Self::full_for).
    pub(super) const fn count_anew(&mut self, now: Instant) {
        self.emptied = Some(now);
    }
}
