use std::time::{Duration, Instant};

use glassline_media::MediaTime;

/// Lateness from which on a source continues from its present position instead of catching up: a
/// second of frames at once would only flood the viewers.
const STALL: Duration = Duration::from_secs(1);

/// The rate at which a source is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Seconds of the source that are presented in one second (RFC 2326 §12.34), above 0.
    pub scale: f64,
    /// Seconds of presentation that are sent in one second (RFC 2326 §12.35), above 0.
    pub speed: f64,
}

impl Rate {
    /// The rate at which the source was recorded.
    pub const REAL: Self = Self {
        scale: 1.0,
        speed: 1.0,
    };
}

/// Computes when a source's frames are due, and when viewers see them.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time at which the source's time `from` is due.
    start: Instant,
    from: MediaTime,
    /// Time of `from` on the stream's timeline.
    shown: MediaTime,
    rate: Rate,
}

impl Pace {
    /// Plays in real time: the source's time zero is due at `start` and is the stream's time zero.
    pub const fn new(start: Instant) -> Self {
        Self::at(start, MediaTime::ZERO, MediaTime::ZERO, Rate::REAL)
    }

    /// Plays at `rate`: the source's time `from` is due at `start` and is the stream's time
    /// `shown`.
    pub const fn at(start: Instant, from: MediaTime, shown: MediaTime, rate: Rate) -> Self {
        Self {
            start,
            from,
            shown,
            rate,
        }
    }

    /// Returns when the source's first time is due.
    pub const fn start(&self) -> Instant {
        self.start
    }

    /// Returns when `time` is due to be sent.
    pub fn due(&self, time: MediaTime) -> Instant {
        let factor = self.rate.scale * self.rate.speed;
        let distance = self.distance(time, factor);
        // Frames presented before the first time are sent with it.
        self.start + Duration::from_nanos(u64::try_from(distance).unwrap_or(0))
    }

    /// Returns the frame's time as viewers see it. A pause of the machine is a pause of the stream,
    /// so that the stream's clock never falls behind the server's.
    pub fn media_time(&self, time: MediaTime) -> MediaTime {
        let distance = self.distance(time, self.rate.scale);
        MediaTime::from_nanos(self.shown.nanos().saturating_add(distance))
    }

    /// Makes `time` due `now` if it is long overdue. Returns whether it was.
    pub fn catch_up(&mut self, time: MediaTime, now: Instant) -> bool {
        let late = now.saturating_duration_since(self.due(time));
        if late <= STALL {
            return false;
        }
        self.start += late;
        self.shown = self.shown + late;
        true
    }

    /// Returns the nanoseconds from the first time to `time`, at `factor` times the rate.
    // A fraction of a microsecond in a month; casts saturate.
    fn distance(&self, time: MediaTime, factor: f64) -> i64 {
        let distance = time.nanos().saturating_sub(self.from.nanos());
        // At the recorded rate the result is exact.
        if (factor - 1.0).abs() < f64::EPSILON {
            return distance;
        }
        (distance as f64 / factor) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: i64) -> MediaTime {
        MediaTime::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_stall_of_the_machine_becomes_a_pause_of_the_stream() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let second = MediaTime::from_nanos(1_000_000_000);
        let due = pace.due(second);
        assert_eq!(due, start + Duration::from_secs(1));
        // A small delay is caught up with.
        assert!(!pace.catch_up(second, due + Duration::from_millis(900)));
        assert_eq!(pace.due(second), due);
        // A frame that is long overdue is due now.
        let now = due + Duration::from_secs(7);
        assert!(pace.catch_up(second, now));
        assert_eq!(pace.due(second), now);
        assert_eq!(pace.start(), start + Duration::from_secs(7));
        assert_eq!(
            pace.media_time(second),
            MediaTime::from_nanos(8_000_000_000)
        );
    }

    #[test]
    fn the_recorded_rate_is_exact_at_any_time() {
        // A year: no float has this many digits.
        let time = MediaTime::from_nanos(31_536_000_000_000_001);
        let pace = Pace::new(Instant::now());
        assert_eq!(pace.media_time(time), time);
    }

    #[test]
    fn scale_changes_what_is_shown_and_speed_only_what_is_sent() {
        let start = Instant::now();
        let rate = |scale, speed| Pace::at(start, seconds(10), seconds(3), Rate { scale, speed });
        let twice = rate(2.0, 1.0);
        assert_eq!(twice.due(seconds(14)), start + Duration::from_secs(2));
        assert_eq!(twice.media_time(seconds(14)), seconds(5));
        let ahead = rate(1.0, 4.0);
        assert_eq!(ahead.due(seconds(14)), start + Duration::from_secs(1));
        assert_eq!(ahead.media_time(seconds(14)), seconds(7));
        let slow = rate(0.5, 1.0);
        assert_eq!(slow.due(seconds(11)), start + Duration::from_secs(2));
        assert_eq!(
            slow.media_time(seconds(9)),
            seconds(1),
            "shown before the first"
        );
        assert_eq!(slow.due(seconds(9)), start);
    }
}
