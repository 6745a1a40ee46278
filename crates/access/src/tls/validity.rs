//! The time until which a certificate is valid (RFC 5280 §4.1).
//!
//! ```text
//! Certificate  SEQUENCE { tbsCertificate SEQUENCE {
//!     version [0] OPTIONAL, serialNumber, signature, issuer,
//!     validity SEQUENCE { notBefore Time, notAfter Time }, … } … }
//! ```

use std::time::{Duration, SystemTime};

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The time in which clients accept a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Begin of the validity.
    pub not_before: SystemTime,
    /// End of the validity.
    pub not_after: SystemTime,
}

impl Validity {
    /// Reads the validity of a certificate in DER; `None` if it cannot be read.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        validity(certificate)
    }
}

/// Returns the end of the validity of a certificate in DER; `None` if it cannot be read.
pub(super) fn not_after(certificate: &[u8]) -> Option<SystemTime> {
    Some(validity(certificate)?.not_after)
}

/// Returns the validity of a certificate in DER; `None` if it cannot be read.
pub(super) fn validity(certificate: &[u8]) -> Option<Validity> {
    let (_, certificate, _) = element(certificate)?;
    let (_, mut rest, _) = element(certificate)?;
    if rest.first() == Some(&VERSION) {
        rest = element(rest)?.2;
    }
    for _serial_signature_and_issuer in 0..3 {
        rest = element(rest)?.2;
    }
    let (tag, validity, _) = element(rest)?;
    if tag != SEQUENCE {
        return None;
    }
    let (begin, rest) = read_time(validity)?;
    let (end, _) = read_time(rest)?;
    Some(Validity {
        not_before: begin,
        not_after: end,
    })
}

/// Reads a time, and returns what follows.
fn read_time(bytes: &[u8]) -> Option<(SystemTime, &[u8])> {
    let (tag, text, rest) = element(bytes)?;
    Some((time(tag, std::str::from_utf8(text).ok()?)?, rest))
}

/// Splits DER into the tag and the content of its first element, and what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, length], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        // A certificate has less than 64 kB.
        0x81 => (usize::from(*rest.first()?), rest.get(1..)?),
        0x82 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Reads `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` (RFC 5280 §4.1.2.5).
fn time(tag: u8, text: &str) -> Option<SystemTime> {
    let digits = text.strip_suffix('Z')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year: u64 = digits[..2].parse().ok()?;
            (
                if year < 50 { 2000 + year } else { 1900 + year },
                &digits[2..],
            )
        }
        (GENERALIZED_TIME, 14) => (digits[..4].parse().ok()?, &digits[4..]),
        _ => return None,
    };
    let part = |index: usize| rest.get(2 * index..2 * index + 2)?.parse::<u64>().ok();
    let (month, day) = (part(0)?, part(1)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || year < 1970 {
        return None;
    }
    let seconds = part(2)? * 3600 + part(3)? * 60 + part(4)?;
    let since = days_since_1970(year, month, day) * 86_400 + seconds;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(since))
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let before: u64 = (1970..year)
        .map(|year| if is_leap(year) { 366 } else { 365 })
        .sum();
    let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let months: u64 = lengths.iter().take(month as usize - 1).sum();
    let leap_day = u64::from(month > 2 && is_leap(year));
    before + months + leap_day + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, tag: u8) -> Option<u64> {
        let time = time(tag, text)?.duration_since(SystemTime::UNIX_EPOCH);
        Some(time.expect("after 1970").as_secs())
    }

    #[test]
    fn both_kinds_of_time_are_read() {
        assert_eq!(at("700101000000Z", UTC_TIME), Some(0));
        assert_eq!(at("240229120001Z", UTC_TIME), Some(1_709_208_001));
        assert_eq!(at("491231235959Z", UTC_TIME), Some(2_524_607_999));
        assert_eq!(at("20500101000000Z", GENERALIZED_TIME), Some(2_524_608_000));
        assert_eq!(at("21261029000000Z", GENERALIZED_TIME), Some(4_948_905_600));
        for bad in [
            "",
            "Z",
            "2402291200Z",
            "24022912000+",
            "241329120001Z",
            "240200120001Z",
        ] {
            assert_eq!(at(bad, UTC_TIME), None, "{bad}");
        }
    }

    #[test]
    fn the_end_of_a_certificate_is_found_and_damage_is_no_panic() {
        let mut parameters =
            rcgen::CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000);
        parameters.not_after = end.into();
        let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        parameters.not_before = begin.into();
        let key = rcgen::KeyPair::generate().expect("a key");
        let made = parameters.self_signed(&key).expect("a certificate");
        assert_eq!(not_after(made.der()), Some(end));
        let whole = validity(made.der()).expect("a validity");
        assert_eq!(whole.not_before, begin);
        for cut in 0..made.der().len() {
            not_after(&made.der()[..cut]);
        }
        let mut bytes = made.der().to_vec();
        for index in 0..bytes.len() {
            bytes[index] ^= 0x55;
            not_after(&bytes);
            bytes[index] ^= 0x55;
        }
    }
}
