//! Parsers for quantities as people type them: times, bitrates, byte rates, percentages.

use std::time::Duration;

/// Parses a time like `5s`, `500ms`, `2m` or `1h`; a bare number is in seconds.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let endings = [
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
        ("", 1.0),
    ];
    scaled(text, &endings)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "give a time like 5s, 500ms or 2m".to_owned())
}

/// Parses a bitrate like `3M`, `3Mbit/s` or `500k`; a bare number is in bits per second. The
/// result is from 1 to 10^12.
pub(crate) fn bitrate(text: &str) -> Result<u64, String> {
    let text = text.strip_suffix("bit/s").unwrap_or(text);
    let endings = [("k", 1e3), ("M", 1e6), ("G", 1e9), ("", 1.0)];
    scaled(text, &endings)
        .filter(|bits| (1.0..=1e12).contains(bits))
        .map(|bits| bits as u64)
        .ok_or_else(|| "give a bitrate like 3M or 500k".to_owned())
}

/// Parses a rate like `100kB/s`, `2MB/s` or `4096B/s` into bytes per second, from 1 to 10^9.
pub(super) fn byte_rate(text: &str) -> Result<u64, String> {
    let endings = [("kB/s", 1e3), ("MB/s", 1e6), ("B/s", 1.0)];
    scaled(text, &endings)
        .filter(|bytes| (1.0..=1e9).contains(bytes))
        .map(|bytes| bytes as u64)
        .ok_or_else(|| "give a byte rate like 100kB/s".to_owned())
}

/// Parses `5%` or `5`, from 0 to 100.
pub(super) fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    number
        .trim()
        .parse()
        .ok()
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| "give a percentage like 5%, 0 to 100".to_owned())
}

/// The number of `text` times the factor of the first ending that `text` has.
fn scaled(text: &str, endings: &[(&str, f64)]) -> Option<f64> {
    let (number, worth) = endings
        .iter()
        .find_map(|(ending, worth)| Some((text.strip_suffix(ending)?, worth)))?;
    Some(number.trim().parse::<f64>().ok()? * worth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, millis) in [
            ("5s", 5000),
            ("5", 5000),
            ("1500ms", 1500),
            ("0.5m", 30_000),
        ] {
            assert_eq!(time(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "1d", "nan", "inf", "1e30", "-5s"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_have_units() {
        assert_eq!(bitrate("3M"), Ok(3_000_000));
        assert_eq!(bitrate("2.5Mbit/s"), Ok(2_500_000));
        assert_eq!(bitrate("500k"), Ok(500_000));
        assert_eq!(bitrate("1000"), Ok(1000));
        assert_eq!(byte_rate("100kB/s"), Ok(100_000));
        assert_eq!(byte_rate("1.5MB/s"), Ok(1_500_000));
        for text in ["", "M", "3Q", "-1", "0", "nan", "1e30"] {
            assert!(bitrate(text).is_err(), "{text}");
        }
        for text in ["", "100", "100kB", "0B/s", "1e30B/s"] {
            assert!(byte_rate(text).is_err(), "{text}");
        }
    }
}
