//! The server's two clocks, joined once at start.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use glassline_media::WallClock;

/// Monotonic time since the server started, and its place in the calendar.
///
/// Everything that leaves the server as a time is nanoseconds of this clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    wall: WallClock,
}

impl Clock {
    /// Reads both clocks now.
    pub fn start() -> Self {
        let start = Instant::now();
        // A calendar before 1970 is a machine without a clock: then NTP times count from 1970.
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        Self {
            start,
            wall: WallClock::new(start, unix),
        }
    }

    /// The calendar, for NTP times.
    pub fn wall(&self) -> WallClock {
        self.wall
    }

    /// Nanoseconds from the server's start to `at`, negative before it.
    pub fn nanos(&self, at: Instant) -> i64 {
        let nanos = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        match at.checked_duration_since(self.start) {
            Some(later) => nanos(later),
            None => -nanos(self.start.duration_since(at)),
        }
    }

    /// Time since the server started.
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
