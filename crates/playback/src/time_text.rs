//! Times and durations as requests write them: RFC 3339 with any zone, or seconds since 1970; seconds,
//! or `1h2m3s`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds of a day.
const DAY_S: i64 = 86_400;

/// First second after the year 9999, up to which times have four digits for the year.
const END_S: f64 = 253_402_300_800.0;

/// Returns the time that `text` is, from 1970 to 9999.
pub fn time(text: &str) -> Option<SystemTime> {
    if let Some(seconds) = decimal(text) {
        return Some(UNIX_EPOCH + seconds).filter(|_| seconds.as_secs_f64() < END_S);
    }
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    // A form turns the `+` of a zone into a space.
    let at = rest.find(['Z', 'z', '+', '-', ' '])?;
    let (clock, zone) = rest.split_at(at);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let seconds = day(date)? * DAY_S + second_of_day(clock)? - offset(zone)?;
    let fraction = decimal(&format!("0.{fraction}"))?;
    let whole = u64::try_from(seconds).ok()?;
    Some(UNIX_EPOCH + Duration::from_secs(whole) + fraction).filter(|_| (whole as f64) < END_S)
}

/// Returns `at` in RFC 3339, in UTC, to the microsecond.
pub fn rfc3339(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(0);
    let (days, of_day) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
    let (year, month, day) = date_of(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let micros = since.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Returns the duration that `text` is: seconds, or numbers with the units `h`, `m`, `s` and `ms`.
pub fn duration(text: &str) -> Option<Duration> {
    if let Some(seconds) = decimal(text) {
        return Some(seconds);
    }
    let (mut rest, mut sum) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let end = rest.find(|it: char| it.is_ascii_alphabetic())?;
        let (number, unit) = rest.split_at(end);
        let end = unit.find(|it: char| !it.is_ascii_alphabetic());
        let (unit, behind) = unit.split_at(end.unwrap_or(unit.len()));
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        let part = decimal(number)?.as_secs_f64() * seconds;
        sum = sum.checked_add(Duration::try_from_secs_f64(part).ok()?)?;
        rest = behind;
    }
    Some(sum).filter(|_| !text.is_empty())
}

/// Returns a plain number without a sign as seconds, exact to the nanosecond.
fn decimal(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let nanos = format!("{fraction:0<9.9}");
    Some(Duration::new(whole.parse().ok()?, nanos.parse().ok()?))
        .filter(|it| UNIX_EPOCH.checked_add(*it).is_some())
}

/// Returns how many days after 1970-01-01 a date is.
///
/// Source: H. Hinnant, chrono-compatible low-level date algorithms, `days_from_civil`.
fn day(date: &str) -> Option<i64> {
    let (year, month, day) = numbers(date, '-', [4, 2, 2])?;
    let shifted = year - i64::from(month <= 2);
    let era = shifted.div_euclid(400);
    let of_era = shifted.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    // The 31st of a short month is another day.
    (date_of(days) == (year, month, day)).then_some(days)
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let month = shifted_month + if shifted_month < 10 { 3 } else { -9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted_month + 2) / 5 + 1)
}

fn second_of_day(clock: &str) -> Option<i64> {
    let (hour, minute, second) = numbers(clock, ':', [2, 2, 2])?;
    // A leap second is the next one here, as it is for the machine's clock.
    let is_real = hour < 24 && minute < 60 && second <= 60;
    is_real.then_some(hour * 3600 + minute * 60 + second)
}

/// Returns how many seconds a zone is ahead of UTC.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let ahead = zone.strip_prefix(['+', ' ']);
    let (sign, clock) = match ahead {
        Some(clock) => (1, clock),
        None => (-1, zone.strip_prefix('-')?),
    };
    let (hour, minute, _) = numbers(&format!("{clock}:00"), ':', [2, 2, 2])?;
    (hour < 24 && minute < 60).then_some(sign * (hour * 3600 + minute * 60))
}

/// Returns the three numbers of `text`, which have so many digits.
fn numbers(text: &str, separator: char, digits: [usize; 3]) -> Option<(i64, i64, i64)> {
    let mut parts = text.split(separator).zip(digits).map(|(part, digits)| {
        let is_number = part.len() == digits && part.bytes().all(|it| it.is_ascii_digit());
        is_number.then(|| part.parse().ok()).flatten()
    });
    let numbers = (parts.next()??, parts.next()??, parts.next()??);
    (text.split(separator).count() == 3).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(text: &str) -> f64 {
        let time = time(text).unwrap_or_else(|| panic!("{text}"));
        time.duration_since(UNIX_EPOCH)
            .expect("later")
            .as_secs_f64()
    }

    #[test]
    fn times_have_any_zone_or_are_seconds() {
        let expected = 1_796_047_385.25;
        for text in [
            "1796047385.25",
            "2026-11-30T14:03:05.25Z",
            "2026-11-30t14:03:05.250z",
            "2026-11-30 14:03:05.25Z",
            "2026-11-30T15:03:05.25+01:00",
            "2026-11-30T15:03:05.25 01:00",
            "2026-11-30T08:33:05.25-05:30",
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
        assert_eq!(
            seconds("2024-02-29T23:59:60Z"),
            seconds("2024-03-01T00:00:00Z")
        );
        assert_eq!(seconds("0"), 0.0);
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "now",
            "-1",
            "1e9",
            "+5",
            "2026-11-30",
            "2026-11-30T14:03:05",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-11-30T24:00:00Z",
            "2026-11-30T14:03Z",
            "2026-11-30T14:03:05+1",
            "1969-12-31T23:59:59Z",
            "99999999999999999999",
            "253402300800",
        ] {
            assert_eq!(time(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_seconds_or_have_units() {
        for (text, expected) in [
            ("0", Some(0.0)),
            ("10.5", Some(10.5)),
            ("1h2m3s", Some(3723.0)),
            ("1m30.5s", Some(90.5)),
            ("250ms", Some(0.25)),
            ("", None),
            ("s", None),
            ("-5", None),
            ("5d", None),
            ("NaN", None),
            ("inf", None),
            ("1e300", None),
            ("99999999999999999999h", None),
        ] {
            let read = duration(text).map(|it| it.as_secs_f64());
            assert_eq!(read, expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_time_is_read_as_it_was_written(micros in 0..253_402_300_799_999_999_u64) {
            let at = UNIX_EPOCH + Duration::from_micros(micros);
            prop_assert_eq!(time(&rfc3339(at)), Some(at));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}|[0-9T:.+Z -]{0,30}") {
            let _ = (time(&text), duration(&text));
        }
    }
}
