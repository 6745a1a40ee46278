//! The server's monotonic clock, and its relation to the calendar.

use std::time::{Duration, Instant, UNIX_EPOCH};

use glassline_media::WallClock;

use super::calendar;

/// Monotonic time since the server started.
///
/// Every time that leaves the server, in JSON, metrics or signaling, is in nanoseconds of this
/// clock. The calendar is read whenever its time is asked for: NTP may set the calendar while the
/// server runs.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// Starts the clock now.
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// Reads the monotonic clock and the calendar, and joins them. What lasts, like a session, keeps
    /// the relation of its beginning, so that its times go on when the calendar is set.
    pub fn wall(&self) -> WallClock {
        let now = Instant::now();
        // A calendar before 1970 means that the machine has no clock: NTP times then count from
        // 1970.
        let unix = calendar::now().duration_since(UNIX_EPOCH);
        WallClock::new(now, unix.unwrap_or(Duration::ZERO))
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
        let earlier = Clock { start: later };
        assert_eq!(earlier.nanos(clock.start), -5_000);
    }
}
