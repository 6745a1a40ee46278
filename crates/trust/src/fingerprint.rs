use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;

/// SHA-256 of a certificate in DER. Its text has 64 hexadecimal digits; colons between them are
/// allowed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, derive_more::Debug)]
#[debug("Fingerprint({self})")]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Returns the SHA-256 of `certificate`.
    pub fn of(certificate: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
        Self(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(FingerprintError);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| FingerprintError)?;
            let is_hex = pair.bytes().all(|digit| digit.is_ascii_hexdigit());
            let value = u8::from_str_radix(pair, 16).ok().filter(|_| is_hex);
            *byte = value.ok_or(FingerprintError)?;
        }
        Ok(Self(bytes))
    }
}

/// A text that is not a [`Fingerprint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give the certificate's SHA-256 as 64 hexadecimal digits, as the server prints it")]
pub struct FingerprintError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_as_they_are_printed_and_with_colons() {
        let print = Fingerprint::of(b"a certificate");
        assert_eq!(print.to_string().parse(), Ok(print));
        let text = print.to_string();
        let pairs: Vec<_> = text.as_bytes().chunks(2).collect();
        let colons = pairs.join(&b':');
        let colons = String::from_utf8(colons).expect("ASCII").to_uppercase();
        assert_eq!(colons.parse(), Ok(print));
        for wrong in ["", "abc", &text[1..], &format!("+{}", &text[1..])] {
            assert_eq!(
                wrong.parse::<Fingerprint>(),
                Err(FingerprintError),
                "{wrong}"
            );
        }
    }
}
