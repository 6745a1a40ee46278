//! Times of UTC as parts of names. Names sort as their times do, and no zone or daylight saving
//! changes them.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A day of the Gregorian calendar, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Day {
    year: u32,
    month: u32,
    day: u32,
}

/// A time of a day, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimeOfDay {
    hour: u32,
    minute: u32,
    second: u32,
    millisecond: u32,
}

const DAY_MS: u64 = 86_400_000;

/// The last millisecond of the year 9999: later times have other names.
const LAST_MS: u64 = 253_402_300_799_999;

/// Returns the microseconds from 1970 to `at`; 0 for an earlier time.
pub(crate) fn micros(at: SystemTime) -> i64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the time this many microseconds after 1970.
pub(crate) fn from_micros(micros: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// Returns day and time of `at`, to the millisecond; times out of 1970 to 9999 are moved there.
pub(crate) fn parts(at: SystemTime) -> (Day, TimeOfDay) {
    let ms = u64::try_from(micros(at)).unwrap_or(0) / 1000;
    let ms = ms.min(LAST_MS);
    let (days, rest) = (ms / DAY_MS, ms % DAY_MS);
    let number = |value: u64| u32::try_from(value).unwrap_or(0);
    let time = TimeOfDay {
        hour: number(rest / 3_600_000),
        minute: number(rest / 60_000 % 60),
        second: number(rest / 1000 % 60),
        millisecond: number(rest % 1000),
    };
    (Day::of_number(days), time)
}

impl Day {
    /// Returns the day that is `days` after 1970-01-01.
    ///
    /// Source: H. Hinnant, chrono-compatible low-level date algorithms, `civil_from_days`.
    fn of_number(days: u64) -> Self {
        let shifted = days + 719_468;
        let era = shifted / 146_097;
        let of_era = shifted % 146_097;
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * of_year + 2) / 153;
        let month = if shifted_month < 10 {
            shifted_month + 3
        } else {
            shifted_month - 9
        };
        let number = |value: u64| u32::try_from(value).unwrap_or(0);
        Self {
            year: number(year_of_era + era * 400 + u64::from(month <= 2)),
            month: number(month),
            day: number(of_year - (153 * shifted_month + 2) / 5 + 1),
        }
    }

    /// Returns how many days after 1970-01-01 the day is.
    fn number(self) -> Option<u64> {
        let year = u64::from(self.year) - u64::from(self.month <= 2);
        let month = u64::from(self.month);
        let (era, year_of_era) = (year / 400, year % 400);
        let shifted_month = if month > 2 { month - 3 } else { month + 9 };
        let of_year = (153 * shifted_month + 2) / 5 + u64::from(self.day) - 1;
        let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
        (era * 146_097 + of_era).checked_sub(719_468)
    }

    /// Parses `2026-11-30`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut next = |digits, range: std::ops::RangeInclusive<u32>| {
            digits_of(parts.next()?, digits).filter(|it| range.contains(it))
        };
        let day = Self {
            year: next(4, 1970..=9999)?,
            month: next(2, 1..=12)?,
            day: next(2, 1..=31)?,
        };
        // The 31st of a short month is another day.
        let is_real = parts.next().is_none() && day.number().map(Self::of_number) == Some(day);
        is_real.then_some(day)
    }

    /// Returns the instant of `time` on this day.
    pub(crate) fn at(self, time: TimeOfDay) -> Option<SystemTime> {
        let [hour, minute, second] = [time.hour, time.minute, time.second].map(u64::from);
        let seconds = hour * 3600 + minute * 60 + second;
        let ms = self.number()? * DAY_MS + seconds * 1000 + u64::from(time.millisecond);
        Some(UNIX_EPOCH + Duration::from_millis(ms))
    }
}

impl TimeOfDay {
    /// Parses `14-03-05.123`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (time, ms) = text.split_once('.')?;
        let mut parts = time.split('-');
        let mut next = |most| digits_of(parts.next()?, 2).filter(|it| *it <= most);
        let time = Self {
            hour: next(23)?,
            minute: next(59)?,
            second: next(59)?,
            millisecond: digits_of(ms, 3)?,
        };
        parts.next().is_none().then_some(time)
    }
}

/// Returns the number in `text`, if it consists of exactly so many digits.
fn digits_of(text: &str, digits: usize) -> Option<u32> {
    let is_number = text.len() == digits && text.bytes().all(|it| it.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            hour,
            minute,
            second,
            millisecond,
        } = self;
        write!(f, "{hour:02}-{minute:02}-{second:02}.{millisecond:03}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_have_the_names_of_utc() {
        let at = |ms| UNIX_EPOCH + Duration::from_millis(ms);
        let names = |ms| {
            let (day, time) = parts(at(ms));
            format!("{day} {time}")
        };
        assert_eq!(names(0), "1970-01-01 00-00-00.000");
        assert_eq!(names(951_827_696_789), "2000-02-29 12-34-56.789");
        assert_eq!(names(1_796_047_385_123), "2026-11-30 14-03-05.123");
        assert_eq!(names(u64::MAX / 2000), "9999-12-31 23-59-59.999");
        for wrong in [
            "2026-02-29",
            "2026-13-01",
            "26-01-01",
            "2026-01-01-01",
            "1969-12-31",
        ] {
            assert_eq!(Day::parse(wrong), None, "{wrong}");
        }
        for wrong in [
            "24-00-00.000",
            "10-60-00.000",
            "10-00-00",
            "1-00-00.000",
            "10-00-00.1",
        ] {
            assert_eq!(TimeOfDay::parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_name_is_read_as_the_time_that_it_was_made_of(ms in 0..=LAST_MS) {
            let at = UNIX_EPOCH + Duration::from_millis(ms);
            let (day, time) = parts(at);
            let read = Day::parse(&day.to_string()).zip(TimeOfDay::parse(&time.to_string()));
            let (day, time) = read.expect("our own form");
            prop_assert_eq!(day.at(time), Some(at));
        }
    }
}
