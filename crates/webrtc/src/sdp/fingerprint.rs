use std::fmt;

use super::error::Reason;

/// The hash of a certificate, as SDP announces it (RFC 8122 §5).
#[derive(Clone, PartialEq, Eq, Hash, derive_more::Debug)]
#[debug("Fingerprint({self})")]
pub struct Fingerprint {
    /// Hash function of the digest.
    pub algorithm: HashAlgorithm,
    /// Digest, with the length of the hash function's output.
    pub digest: Vec<u8>,
}

/// A hash function of RFC 8122, by its name in SDP.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HashAlgorithm {
    /// `sha-1`, which is parsed but never trusted.
    Sha1,
    /// `sha-224`, with a hash of 28 bytes.
    Sha224,
    /// `sha-256`, which every WebRTC implementation sends.
    Sha256,
    /// `sha-384`, with a hash of 48 bytes.
    Sha384,
    /// `sha-512`, with a hash of 64 bytes.
    Sha512,
    /// Any other hash function, in lower case.
    Other(String),
}

impl Fingerprint {
    /// Creates the fingerprint of a certificate whose SHA-256 is `digest`.
    pub fn sha256(digest: [u8; 32]) -> Self {
        Self {
            algorithm: HashAlgorithm::Sha256,
            digest: digest.to_vec(),
        }
    }

    pub(super) fn parse(value: &str) -> Result<Self, Reason> {
        let problem = |problem| Reason::Attribute {
            name: "fingerprint",
            problem,
        };
        let mut fields = value.split_whitespace();
        let (Some(name), Some(pairs), None) = (fields.next(), fields.next(), fields.next()) else {
            return Err(problem("expected a hash name and pairs of hex digits"));
        };
        let algorithm = HashAlgorithm::from_name(name);
        let digest = pairs
            .split(':')
            .map(hex_byte)
            .collect::<Option<Vec<u8>>>()
            .ok_or(problem("expected pairs of hex digits with colons"))?;
        if algorithm
            .digest_bytes()
            .is_some_and(|bytes| bytes != digest.len())
        {
            return Err(problem("the digest does not have the length of its hash"));
        }
        Ok(Self { algorithm, digest })
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.algorithm.as_str())?;
        for (index, byte) in self.digest.iter().enumerate() {
            let before = if index == 0 { ' ' } else { ':' };
            write!(f, "{before}{byte:02X}")?;
        }
        Ok(())
    }
}

impl HashAlgorithm {
    /// Returns the name as in SDP.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Sha1 => "sha-1",
            Self::Sha224 => "sha-224",
            Self::Sha256 => "sha-256",
            Self::Sha384 => "sha-384",
            Self::Sha512 => "sha-512",
            Self::Other(name) => name,
        }
    }

    /// Returns the length of the digest in bytes, `None` if it is not known.
    pub const fn digest_bytes(&self) -> Option<usize> {
        match self {
            Self::Sha1 => Some(20),
            Self::Sha224 => Some(28),
            Self::Sha256 => Some(32),
            Self::Sha384 => Some(48),
            Self::Sha512 => Some(64),
            Self::Other(_) => None,
        }
    }

    /// Returns whether the hash is strong enough to authenticate a DTLS peer: SHA-256, SHA-384
    /// or SHA-512.
    pub const fn is_strong(&self) -> bool {
        matches!(self, Self::Sha256 | Self::Sha384 | Self::Sha512)
    }

    fn from_name(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        [
            Self::Sha1,
            Self::Sha224,
            Self::Sha256,
            Self::Sha384,
            Self::Sha512,
        ]
        .into_iter()
        .find(|known| known.as_str() == name)
        .unwrap_or(Self::Other(name))
    }
}

fn hex_byte(pair: &str) -> Option<u8> {
    let digits = pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u8::from_str_radix(pair, 16).ok())?
}
