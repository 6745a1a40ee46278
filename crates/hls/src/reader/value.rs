//! Numbers and dates of playlists (§4.2, §4.4.4.6).

use std::fmt;
use std::time::Duration;

/// Most seconds that a duration may have: thirty years.
const SECONDS_MAX: u64 = 1_000_000_000;

/// Reads a decimal-integer: one to twenty digits.
pub(super) fn integer(text: &str) -> Option<u64> {
    let is_digits =
        !text.is_empty() && text.len() <= 20 && text.bytes().all(|it| it.is_ascii_digit());
    is_digits.then(|| text.parse().ok()).flatten()
}

/// Reads a decimal-floating-point number of seconds. Digits beyond nanoseconds are dropped.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = (!whole.is_empty() || !fraction.is_empty())
        && whole
            .bytes()
            .chain(fraction.bytes())
            .all(|it| it.is_ascii_digit());
    if !is_number {
        return None;
    }
    let whole = match whole {
        "" => 0,
        whole => whole.parse::<u64>().ok().filter(|it| *it <= SECONDS_MAX)?,
    };
    let mut nanos = 0;
    for index in 0..9 {
        let digit = fraction.as_bytes().get(index).map_or(0, |it| it - b'0');
        nanos = nanos * 10 + u32::from(digit);
    }
    Some(Duration::new(whole, nanos))
}

/// Reads a signed-decimal-floating-point number of seconds: whether it is negative, and its size.
pub(super) fn signed_seconds(text: &str) -> Option<(bool, Duration)> {
    match text.strip_prefix('-') {
        Some(rest) => Some((true, seconds(rest)?)),
        None => Some((false, seconds(text)?)),
    }
}

/// Reads a decimal-resolution, like `1920x1080`.
pub(super) fn resolution(text: &str) -> Option<(u64, u64)> {
    let (width, height) = text.split_once('x')?;
    Some((integer(width)?, integer(height)?))
}

/// A date and time, in nanoseconds since 1970-01-01 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime(pub i64);

impl DateTime {
    /// Reads a date and time of ISO 8601. Without a time zone, the date is in UTC.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, time) = text.split_once(['T', 't', ' '])?;
        let mut numbers = date
            .splitn(3, '-')
            .map(|it| integer(it).and_then(|it| i64::try_from(it).ok()));
        let (year, month, day) = (numbers.next()??, numbers.next()??, numbers.next()??);
        if !(1680..=2260).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day)
        {
            return None;
        }
        let zone_at = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
        let (clock, zone) = time.split_at(zone_at);
        let mut parts = clock.splitn(3, ':');
        let hour = parts.next().and_then(integer)?;
        let minute = parts.next().and_then(integer)?;
        let second = parts.next().map_or(Some(Duration::ZERO), seconds)?;
        if hour > 24 || minute > 59 || second >= Duration::from_secs(61) {
            return None;
        }
        let clock = Duration::from_secs(hour * 3600 + minute * 60) + second;
        let days = days_since_1970(year, month, day);
        let nanos = days.checked_mul(86_400_000_000_000)?;
        let clock = i64::try_from(clock.as_nanos()).ok()?;
        let zone = zone_seconds(zone)?.checked_mul(1_000_000_000)?;
        Some(Self(nanos.checked_add(clock)?.checked_sub(zone)?))
    }

    /// Time from `earlier` until this date; negative if this date is the earlier one. In seconds.
    pub fn seconds_since(self, earlier: Self) -> f64 {
        (self.0 as f64 - earlier.0 as f64) / 1e9
    }

    /// The date later by `duration`.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)),
        )
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, nanos) = (
            self.0.div_euclid(86_400_000_000_000),
            self.0.rem_euclid(86_400_000_000_000),
        );
        let (year, month, day) = date_of(days);
        let (seconds, millis) = (nanos / 1_000_000_000, nanos % 1_000_000_000 / 1_000_000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
        )
    }
}

/// Seconds by which a zone is ahead of UTC: `Z`, `+01:00`, `-0130`, `+02`, or nothing.
fn zone_seconds(zone: &str) -> Option<i64> {
    if matches!(zone, "" | "Z" | "z") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let digits: String = zone[1..].chars().filter(|it| *it != ':').collect();
    if !matches!(digits.len(), 2 | 4) || !digits.is_ascii() {
        return None;
    }
    let hours = i64::try_from(integer(&digits[..2])?).ok()?;
    let minutes = match &digits[2..] {
        "" => 0,
        rest => i64::try_from(integer(rest)?).ok()?,
    };
    (hours <= 24 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, whose years begin in March here so that the
/// leap day is the last one.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a day, the inverse of [`days_since_1970`].
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn seconds_are_exact() {
        assert_eq!(seconds("0.33334"), Some(Duration::from_micros(333_340)));
        assert_eq!(seconds("4"), Some(Duration::from_secs(4)));
        assert_eq!(seconds("9.009000000999"), Some(Duration::from_millis(9009)));
        assert_eq!(seconds(".5"), Some(Duration::from_millis(500)));
        for bad in ["", ".", "-1", "1e3", "1.2.3", "٣", "9999999999"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn dates_of_all_zones_are_one_moment() {
        let utc = DateTime::parse("2010-02-19T06:54:23.031Z").expect("a date");
        assert_eq!(utc.0, 1_266_562_463_031_000_000);
        for same in [
            "2010-02-19T14:54:23.031+08:00",
            "2010-02-19T14:54:23.031+0800",
            "2010-02-19T04:54:23.031-02",
            "2010-02-19T06:54:23.031",
        ] {
            assert_eq!(DateTime::parse(same), Some(utc), "{same}");
        }
        assert_eq!(utc.to_string(), "2010-02-19T06:54:23.031Z");
        for bad in [
            "",
            "2010-02-19",
            "2010-13-19T00:00:00Z",
            "2010-02-19T25:00:00Z",
            "2010-02-19T06:54:23+8",
        ] {
            assert_eq!(DateTime::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_written_date_is_read_again(millis in -1_000_000_000_000_i64..4_000_000_000_000) {
            let date = DateTime(millis * 1_000_000);
            prop_assert_eq!(DateTime::parse(&date.to_string()), Some(date));
        }
    }
}
