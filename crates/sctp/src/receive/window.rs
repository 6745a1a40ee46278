//! The size of the receive window.
//!
//! The window grows with what arrives in a round trip while the application keeps up, as
//! Linux does for TCP (dynamic right-sizing: Fisk and Feng, 2001). The window thereby never
//! holds a sender back, and memory follows what the path carries. The window never shrinks,
//! because what was announced is promised.

use std::time::{Duration, Instant};

/// Window as a multiple of what is received in a round trip. A sender in slow start doubles
/// in one, a gap delays what follows by two if it is lost again, and the announcement takes
/// half a one.
const ROUND_TRIPS: u64 = 8;
/// Measurements in a round trip: after a whole one, a sender in slow start has doubled.
const PARTS: u32 = 4;

/// Size of the receive window, and the measurement that it grows by.
#[derive(Debug)]
pub(super) struct ReceiveWindow {
    /// Present size, in bytes.
    limit: u64,
    /// Largest size, in bytes.
    max: u64,
    /// When the present measurement began.
    began: Option<Instant>,
    /// Bytes received since the present measurement began.
    received: u64,
}

impl ReceiveWindow {
    /// Returns a window of `min` bytes that may grow to `max`.
    pub(super) fn new(min: u64, max: u64) -> Self {
        Self {
            limit: min.min(max),
            max,
            began: None,
            received: 0,
        }
    }

    /// Returns the present size, in bytes.
    pub(super) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether the window has its largest size.
    pub(super) const fn is_full_grown(&self) -> bool {
        self.limit >= self.max
    }

    /// Counts `bytes` that came while the application keeps up.
    pub(super) const fn on_received(&mut self, bytes: u64) {
        self.received += bytes;
    }

    /// Grows the window if a part of a round trip has passed; to be called once per batch.
    pub(super) fn adjust(&mut self, now: Instant, round_trip: Option<Duration>) {
        let Some(round_trip) = round_trip else {
            return;
        };
        let began = *self.began.get_or_insert(now);
        let passed = now.saturating_duration_since(began);
        let part = round_trip / PARTS;
        if passed < part {
            return;
        }
        // The rate counts, however long ago the last call was.
        let share = round_trip.as_secs_f64() / passed.as_secs_f64().max(1e-9);
        let per_round_trip = (self.received as f64 * share) as u64;
        let wanted = per_round_trip.saturating_mul(ROUND_TRIPS);
        self.limit = self.limit.max(wanted.min(self.max));
        self.began = Some(now);
        self.received = 0;
    }

    /// Doubles the window, because everything in it waits for more data.
    pub(super) fn double(&mut self) {
        self.limit = (self.limit * 2).min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_the_rate_and_keeps_its_promise() {
        let mut now = Instant::now();
        let round_trip = Duration::from_millis(100);
        let mut window = ReceiveWindow::new(1 << 20, 64 << 20);
        window.adjust(now, Some(round_trip));
        for megabytes in [0u64, 1, 3, 5, 1] {
            window.on_received(megabytes << 20);
            now += round_trip;
            window.adjust(now, Some(round_trip));
        }
        assert_eq!(window.limit(), 40 << 20, "eight times five");
        window.on_received(100 << 20);
        now += round_trip;
        window.adjust(now, Some(round_trip));
        assert_eq!(window.limit(), 64 << 20);
        assert!(window.is_full_grown());
    }
}
