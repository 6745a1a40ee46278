//! Dates of ISO 8601, as `EXT-X-PROGRAM-DATE-TIME` has them.

use std::fmt;
use std::time::Duration;

/// A time since 1970-01-01 UTC, written as `2026-11-30T04:11:39.250Z`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Date(pub(super) Duration);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        // Days since 0000-03-01 in the proleptic Gregorian calendar, whose eras have 146,097 days.
        let days = days + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, later) = match month {
            0..=9 => (month + 3, 0),
            _ => (month - 9, 1),
        };
        let (hour, minute) = (second / 3600, second / 60 % 60);
        write!(
            f,
            "{:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{:03}Z",
            era * 400 + year + later,
            second % 60,
            self.0.subsec_millis()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_has_the_day_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.250Z"),
            (951_782_400, "2000-02-29T00:00:00.250Z"),
            (951_868_799, "2000-02-29T23:59:59.250Z"),
            (1_796_011_899, "2026-11-30T04:11:39.250Z"),
            (4_107_542_400, "2100-03-01T00:00:00.250Z"),
        ] {
            let date = Date(Duration::from_millis(seconds * 1000 + 250));
            assert_eq!(date.to_string(), expected);
        }
    }
}
