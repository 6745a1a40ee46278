//! Calendar times of media, which advance with it (§6.2.1).
//!
//! The hub learns with time how late a source is. Dates that followed at once would jump, and segments
//! would seem to overlap: so dates approach what the hub knows a little faster or slower than time passes.

use std::time::Duration;

use glassline_media::MediaTime;

/// Part of the time by which dates may advance faster or slower than media. Clocks of cameras differ by
/// far less.
const SLEW: i64 = 50;

/// Difference beyond which somebody has set the calendar.
const SET_NS: u64 = 10_000_000_000;

/// The relation of one stream's timeline to the calendar, for all of its tracks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dates {
    /// Calendar time of the timeline's zero, in ns since 1970-01-01 UTC; absent before the first frame.
    zero_ns: Option<i64>,
    /// The newest time of which a frame came.
    newest: MediaTime,
}

impl Dates {
    /// Takes note of a frame of `time` that was due at `unix` since 1970-01-01 UTC.
    pub(super) fn follow(&mut self, time: MediaTime, unix: Duration) {
        let unix_ns = i64::try_from(unix.as_nanos()).unwrap_or(i64::MAX);
        let measured = unix_ns.saturating_sub(time.nanos());
        let zero = self.zero_ns.unwrap_or(measured);
        let passed = time.nanos().saturating_sub(self.newest.nanos());
        let most = passed.max(0) / SLEW;
        let off = measured.saturating_sub(zero);
        self.zero_ns = Some(match off.unsigned_abs() > SET_NS {
            true => measured,
            false => zero + off.clamp(-most, most),
        });
        self.newest = self.newest.max(time);
    }

    /// Returns the date of media at `time`, since 1970-01-01 UTC.
    pub(super) fn of(&self, time: MediaTime) -> Duration {
        let ns = self.zero_ns.unwrap_or(0).saturating_add(time.nanos());
        Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(ms: i64) -> MediaTime {
        MediaTime::from_nanos(ms * 1_000_000)
    }

    const UNIX: Duration = Duration::from_secs(1_800_000_000);

    #[test]
    fn dates_advance_with_media_and_approach_what_is_known_of_it() {
        let mut dates = Dates::default();
        // The source is three seconds late at first.
        dates.follow(time(0), UNIX + Duration::from_secs(3));
        let mut before = dates.of(time(0));
        assert_eq!(before, UNIX + Duration::from_secs(3));
        for ms in (40..200_000).step_by(40) {
            let due = UNIX + Duration::from_millis(ms);
            dates.follow(time(ms as i64), due);
            // Two tracks are followed together, and one may be behind the other.
            dates.follow(time(ms as i64 - 30), due - Duration::from_millis(30));
            let date = dates.of(time(ms as i64));
            let step = (date - before).as_micros();
            assert!((39_100..=40_900).contains(&step), "{step} us");
            before = date;
        }
        assert_eq!(before, UNIX + Duration::from_millis(199_960));
    }

    #[test]
    fn a_calendar_that_was_set_is_followed_at_once() {
        let mut dates = Dates::default();
        dates.follow(time(0), Duration::from_secs(7));
        dates.follow(time(40), UNIX);
        assert_eq!(dates.of(time(40)), UNIX);
    }
}
