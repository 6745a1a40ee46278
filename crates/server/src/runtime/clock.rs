//! The server's monotonic clock and its calendar time, read together once at start.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use glassline_media::WallClock;

/// Monotonic time since the server started, and the calendar time at which the server started.
///
/// Every time that leaves the server, in JSON, metrics or signaling, is in nanoseconds of this
/// clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    wall: WallClock,
}

impl Clock {
    /// Reads the monotonic clock and the calendar now, and joins them.
    pub fn start() -> Self {
        let start = Instant::now();
        // A calendar before 1970 means that the machine has no clock: NTP times then count from
        // 1970.
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        Self {
            start,
            wall: WallClock::new(start, unix),
        }
    }

    /// Returns the calendar time that belongs to the monotonic clock, for NTP timestamps.
    pub fn wall(&self) -> WallClock {
        self.wall
    }

    /// Returns the nanoseconds from the server's start to `at`; negative for an instant before the
    /// start.
    pub fn nanos(&self, at: Instant) -> i64 {
        let nanos = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        match at.checked_duration_since(self.start) {
            Some(later) => nanos(later),
            None => -nanos(self.start.duration_since(at)),
        }
    }

    /// Returns the instant at which the clock is zero: the server's start.
    pub fn epoch(&self) -> Instant {
        self.start
    }

    /// Returns the time since the server started.
    pub fn uptime(&self) -> Duration {
        self.start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_count_both_ways_from_the_start() {
        let clock = Clock::start();
        let later = clock.start + Duration::from_micros(5);
        assert_eq!(clock.nanos(later), 5_000);
        assert_eq!(clock.nanos(clock.start), 0);
        let earlier = Clock {
            start: later,
            ..clock
        };
        assert_eq!(earlier.nanos(clock.start), -5_000);
    }
}
