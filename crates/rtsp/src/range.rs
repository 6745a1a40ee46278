//! The `Range` header (RFC 2326 §3.5–3.7, §12.29).

use std::fmt;
use std::time::Duration;

/// A part of a presentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Range {
    /// A range in normal play time; one of its ends may be open, but not both.
    Npt {
        /// Where the range begins; `None` is the presentation's end minus `end`.
        start: Option<Npt>,
        /// Where the range ends; `None` is open.
        end: Option<Npt>,
    },
    /// A range in calendar time: UTC since 1970.
    Clock {
        /// Where the range begins.
        start: Duration,
        /// Where the range ends; `None` is open.
        end: Option<Duration>,
    },
    /// A range in another unit, such as `smpte`, as received: `unit=from-to`.
    Other(String),
}

/// Normal play time (RFC 2326 §3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Npt {
    /// The live edge of the stream (`now`).
    Now,
    /// Time since the presentation's start.
    At(Duration),
}

impl Range {
    /// From the start, without an end: the range of a client that plays a recording.
    pub const ALL: Self = Self::Npt {
        start: Some(Npt::At(Duration::ZERO)),
        end: None,
    };

    /// From now on: the range of a client that plays a live stream.
    pub const LIVE: Self = Self::Npt {
        start: Some(Npt::Now),
        end: None,
    };

    /// Returns whether the range begins now.
    pub const fn is_live(&self) -> bool {
        matches!(
            self,
            Self::Npt {
                start: Some(Npt::Now),
                ..
            }
        )
    }

    /// Parses a header's value; `None` if it is not a range. A `;time=` behind it is ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.split(';').next()?.trim();
        let (unit, span) = text.split_once('=')?;
        let (start, end) = span.trim().split_once('-')?;
        let (start, end) = (start.trim(), end.trim());
        if unit.trim().eq_ignore_ascii_case("npt") {
            let (start, end) = (open(start, Npt::parse)?, open(end, Npt::parse)?);
            return (start.is_some() || end.is_some()).then_some(Self::Npt { start, end });
        }
        if unit.trim().eq_ignore_ascii_case("clock") {
            return Some(Self::Clock {
                start: parse_clock(start)?,
                end: open(end, parse_clock)?,
            });
        }
        Some(Self::Other(text.to_owned()))
    }
}

impl Range {
    /// Converts a time in `smpte`, `smpte-30-drop` or `smpte-25` (RFC 2326 §3.5) to normal play
    /// time; other ranges stay as they are. `None` for unknown units.
    pub(crate) fn without_frames(self) -> Option<Self> {
        let Self::Other(text) = self else {
            return Some(self);
        };
        let (unit, span) = text.split_once('=')?;
        let rate = match unit.trim().to_ascii_lowercase().as_str() {
            // Drop-frame time codes follow the clock.
            "smpte" | "smpte-30-drop" => 30_000.0 / 1001.0,
            "smpte-25" => 25.0,
            _ => return None,
        };
        let (start, end) = span.split_once('-')?;
        let parse = |text: &str| parse_smpte(text, rate).map(Npt::At);
        let (start, end) = (open(start.trim(), parse)?, open(end.trim(), parse)?);
        (start.is_some() || end.is_some()).then_some(Self::Npt { start, end })
    }
}

/// Parses `10:07:33:05.01`: hours, minutes, seconds, frames and hundredths of a frame.
fn parse_smpte(text: &str, rate: f64) -> Option<Duration> {
    let mut parts = text.split(':');
    let mut next_below = |bound: u64| {
        let number = parse_digits(parts.next()?)?;
        (number < bound).then_some(number)
    };
    let (hours, minutes, seconds) = (next_below(24)?, next_below(60)?, next_below(60)?);
    let whole = Duration::from_secs(hours * 3600 + minutes * 60 + seconds);
    let frames = match parts.next() {
        Some(frames) => parse_seconds(frames).filter(|frames| frames.as_secs() < 30)?,
        None => Duration::ZERO,
    };
    let none_left = parts.next().is_none();
    none_left.then(|| whole + Duration::from_secs_f64(frames.as_secs_f64() / rate))
}

/// Parses one end of a range. An empty text is an open end; other text must be readable.
fn open<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    if text.is_empty() {
        return Some(None);
    }
    parse(text).map(Some)
}

impl Npt {
    /// Parses `now`, seconds, or hours, minutes and seconds.
    fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("now") {
            return Some(Self::Now);
        }
        let mut parts = text.split(':');
        let seconds = parse_seconds(parts.next_back()?)?;
        let mut whole = 0u64;
        for (index, part) in parts.enumerate() {
            let number = parse_digits(part)?;
            whole = whole.checked_mul(60)?.checked_add(number)?;
            if index > 1 {
                return None;
            }
        }
        let whole = Duration::from_secs(whole.checked_mul(60)?);
        whole.checked_add(seconds).map(Self::At)
    }
}

fn parse_digits(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Parses seconds with a fraction, of which nine digits are read.
fn parse_seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds = parse_digits(whole)?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    Some(Duration::new(seconds, nanos))
}

/// Parses `19961108T142300.25Z` (RFC 2326 §3.7).
fn parse_clock(text: &str) -> Option<Duration> {
    let text = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    let (date, time) = text.split_once(['T', 't'])?;
    if date.len() != 8 || time.len() < 6 || !text.is_ascii() {
        return None;
    }
    let year = parse_digits(&date[..4])?;
    let (month, day) = (parse_digits(&date[4..6])?, parse_digits(&date[6..])?);
    let (hour, minute) = (parse_digits(&time[..2])?, parse_digits(&time[2..4])?);
    let seconds = parse_seconds(&time[4..])?;
    let in_bounds = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && seconds.as_secs() < 61;
    if !in_bounds {
        return None;
    }
    let days = days_since_1970(year, month, day);
    if date_of(days) != (year, month, day) {
        return None;
    }
    let minutes = days * 1440 + hour * 60 + minute;
    Some(Duration::from_secs(minutes * 60) + seconds)
}

/// Returns the number of days from 1970 to a Gregorian date, counted in years that begin in
/// March; `year` ≥ 1970.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month <= 2 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let before_month = (153 * month + 2) / 5;
    let leap_days = year / 4 - year / 100 + year / 400;
    // 1 March of year 0 is 719,468 days before 1970.
    365 * year + leap_days + before_month + (day - 1) - 719_468
}

/// Returns year, month and day; the inverse of [`days_since_1970`].
fn date_of(days: u64) -> (u64, u64, u64) {
    let mut year = 1970 + days / 366;
    while days_since_1970(year + 1, 1, 1) <= days {
        year += 1;
    }
    let first_day_later = |month: &u64| days_since_1970(year, *month, 1) > days;
    let month = (2..=12).find(first_day_later).map_or(12, |next| next - 1);
    (year, month, days - days_since_1970(year, month, 1) + 1)
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Npt { start, end } => {
                f.write_str("npt=")?;
                write_open(f, *start)?;
                f.write_str("-")?;
                write_open(f, *end)
            }
            Self::Clock { start, end } => {
                f.write_str("clock=")?;
                write_clock(f, *start)?;
                f.write_str("-")?;
                end.map_or(Ok(()), |end| write_clock(f, end))
            }
            Self::Other(text) => f.write_str(text),
        }
    }
}

fn write_open(f: &mut fmt::Formatter<'_>, npt: Option<Npt>) -> fmt::Result {
    match npt {
        None => Ok(()),
        Some(Npt::Now) => f.write_str("now"),
        // At least three digits: some servers require a fraction.
        Some(Npt::At(time)) => write_seconds(f, time.as_secs(), time.subsec_nanos(), 3),
    }
}

fn write_clock(f: &mut fmt::Formatter<'_>, time: Duration) -> fmt::Result {
    let (days, in_day) = (time.as_secs() / 86_400, time.as_secs() % 86_400);
    let (year, month, day) = date_of(days);
    let (hour, minute) = (in_day / 3600, in_day / 60 % 60);
    write!(f, "{year:04}{month:02}{day:02}T{hour:02}{minute:02}")?;
    let seconds = in_day % 60;
    if seconds < 10 {
        f.write_str("0")?;
    }
    write_seconds(f, seconds, time.subsec_nanos(), 0)?;
    f.write_str("Z")
}

/// Writes seconds with at least `digits_min` digits of the fraction, and more where they are
/// not zero.
fn write_seconds(
    f: &mut fmt::Formatter<'_>,
    seconds: u64,
    nanos: u32,
    digits_min: usize,
) -> fmt::Result {
    write!(f, "{seconds}")?;
    let digits = format!("{nanos:09}");
    let needed = digits.trim_end_matches('0').len().max(digits_min);
    if needed > 0 {
        write!(f, ".{}", &digits[..needed])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn at(millis: u64) -> Option<Npt> {
        Some(Npt::At(Duration::from_millis(millis)))
    }

    #[test]
    fn ranges_of_real_servers_are_read() {
        let npt = |start, end| Some(Range::Npt { start, end });
        let cases = [
            ("npt=0.000-", npt(at(0), None)),
            ("npt=now-", npt(Some(Npt::Now), None)),
            ("npt=0-4.000", npt(at(0), at(4000))),
            ("npt= 0.000000-", npt(at(0), None)),
            ("npt=-20", npt(None, at(20_000))),
            ("npt=00:01:02.5-0:02:00", npt(at(62_500), at(120_000))),
            ("NPT=1-2;time=19970123T153600Z", npt(at(1000), at(2000))),
            ("npt=-", None),
            ("npt=1:2:3:4-", None),
            ("npt=1.x-", None),
            ("npt=99999999999999999999-", None),
            (
                "smpte=0:10:20-",
                Some(Range::Other("smpte=0:10:20-".to_owned())),
            ),
            ("clock=19961308T142300Z-", None),
            ("nonsense", None),
        ];
        for (text, expected) in cases {
            assert_eq!(Range::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn calendar_times_are_since_1970() {
        let range = Range::parse("clock=19961108T142300Z-19961108T143520.25Z");
        let start = Duration::from_secs(847_462_980);
        let end = Some(start + Duration::from_millis(740_250));
        assert_eq!(range, Some(Range::Clock { start, end }));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            start_ms in 0u64..1 << 40, length_ms: Option<u32>, now: bool, clock: bool,
        ) {
            let end = length_ms.map(|length| Duration::from_millis(start_ms + u64::from(length)));
            let start = Duration::from_millis(start_ms);
            let range = if clock {
                Range::Clock { start, end }
            } else {
                let start = if now { Npt::Now } else { Npt::At(start) };
                Range::Npt { start: Some(start), end: end.map(Npt::At) }
            };
            prop_assert_eq!(Range::parse(&range.to_string()), Some(range));
        }

        #[test]
        fn no_text_panics(text in "(npt|clock)=[0-9TZ:.-]{0,40}") {
            if let Some(range) = Range::parse(&text) {
                prop_assert_eq!(Range::parse(&range.to_string()), Some(range));
            }
        }
    }

    #[test]
    fn clocks_with_a_field_too_long_too_short_or_out_of_bounds_are_none() {
        let start = |text: &str| Range::parse(&format!("clock={text}-"));
        let at = |seconds| {
            let start = Duration::from_secs(seconds);
            Some(Range::Clock { start, end: None })
        };
        assert_eq!(start("19700101T000000Z"), at(0));
        assert_eq!(start("20000229T235959Z"), at(951_868_799));
        assert_eq!(start("20000301T000000Z"), at(951_868_800));
        assert_eq!(start("20010229T000000Z"), None, "no such day");
        assert_eq!(
            start("21000301T000060Z"),
            at(4_107_542_460),
            "a leap second"
        );
        for wrong in [
            "1996111T142300Z",
            "199611001T142300Z",
            "19961101T1423Z",
            "19961101T14235Z",
            "19961101T1Z",
            "19961101T1\u{661}23005Z",
            "1996110\u{661}T142300Z",
            "19691231T235959Z",
            "19961301T000000Z",
            "19960001T000000Z",
            "19961132T000000Z",
            "19961100T000000Z",
            "19961101T240000Z",
            "19961101T236000Z",
            "19961101T235961Z",
        ] {
            assert_eq!(start(wrong), None, "{wrong}");
        }
    }
}
