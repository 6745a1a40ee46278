//! Dates of the Gregorian calendar, as seconds since 1970 and as text.

/// A date and a time of UTC, as a camera tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DateTime {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
}

impl DateTime {
    /// Returns the seconds since 1970. Fields beyond what a calendar has count as the nearest that it
    /// has.
    pub(crate) fn unix_seconds(self) -> i64 {
        let (hour, minute) = (self.hour.clamp(0, 23), self.minute.clamp(0, 59));
        let seconds = hour * 3_600 + minute * 60 + self.second.clamp(0, 59);
        days_since_1970(self.year, self.month, self.day) * 86_400 + seconds
    }
}

/// Returns the days from 1970-01-01 to a date.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // March is the first month, so that a leap day is the last day of its year.
    let year = year.clamp(0, 9999) - i64::from(month <= 2);
    let month = (month.clamp(1, 12) + 9) % 12;
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    days + (153 * month + 2) / 5 + day.clamp(1, 31) - 1 - 719_468
}

/// Returns a time since 1970 as `2026-01-31T23:59:59Z`.
pub(crate) fn text(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let days = days + 719_468;
    // 146,097 days are 400 years.
    let era = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let rest = day - (365 * year + year / 4 - year / 100);
    let month = (5 * rest + 2) / 153;
    let day = rest - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_agree() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_704_067_199, "2023-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(text(seconds), expected);
        }
        for day in (0..80_000).step_by(7) {
            let text = text(day * 86_400);
            let part = |range: std::ops::Range<usize>| text[range].parse().expect("digits");
            let (year, month, of_month) = (part(0..4), part(5..7), part(8..10));
            assert_eq!(days_since_1970(year, month, of_month), day, "{text}");
        }
    }

    #[test]
    fn a_clock_without_sense_is_some_time_of_four_digits() {
        for field in [i64::MIN, -1, 0, i64::MAX] {
            let absurd = DateTime {
                year: field,
                month: field,
                day: field,
                hour: field,
                minute: field,
                second: field,
            };
            assert_eq!(text(absurd.unix_seconds()).len(), 20, "{field}");
        }
    }
}
