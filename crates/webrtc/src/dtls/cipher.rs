//! The ciphers that protect records of data channels.

use std::str::FromStr;

use dimpl::crypto::Dtls12CipherSuite as Suite;

/// A cipher of DTLS 1.2 records, with ephemeral ECDH and ECDSA certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{}", self.as_str())]
pub enum Cipher {
    /// AES-128-GCM with SHA-256 (RFC 5289).
    Aes128Gcm,
    /// AES-256-GCM with SHA-384 (RFC 5289).
    Aes256Gcm,
    /// ChaCha20-Poly1305 with SHA-256 (RFC 7905).
    ChaCha20Poly1305,
}

impl Cipher {
    /// Every cipher, in the order of the enum.
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// Returns the name in configuration and logs: `aes-128-gcm`, `aes-256-gcm` or
    /// `chacha20-poly1305`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "aes-128-gcm",
            Self::Aes256Gcm => "aes-256-gcm",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
        }
    }

    /// Length of the key in bytes.
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// Number of nonce bytes that every record carries: the explicit part of GCM's nonce (RFC
    /// 5288 §3). ChaCha20 derives the whole nonce from the sequence number.
    pub const fn explicit_nonce_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 8,
            Self::ChaCha20Poly1305 => 0,
        }
    }

    pub(super) const fn suite(self) -> Suite {
        match self {
            Self::Aes128Gcm => Suite::ECDHE_ECDSA_AES128_GCM_SHA256,
            Self::Aes256Gcm => Suite::ECDHE_ECDSA_AES256_GCM_SHA384,
            Self::ChaCha20Poly1305 => Suite::ECDHE_ECDSA_CHACHA20_POLY1305_SHA256,
        }
    }

    pub(super) const fn index(self) -> usize {
        match self {
            Self::Aes128Gcm => 0,
            Self::Aes256Gcm => 1,
            Self::ChaCha20Poly1305 => 2,
        }
    }
}

/// A text is not the name of a cipher.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a cipher: use aes-128-gcm, aes-256-gcm or chacha20-poly1305")]
pub struct UnknownCipher(String);

impl FromStr for Cipher {
    type Err = UnknownCipher;

    fn from_str(name: &str) -> Result<Self, UnknownCipher> {
        Self::ALL
            .into_iter()
            .find(|cipher| cipher.as_str() == name)
            .ok_or_else(|| UnknownCipher(name.to_owned()))
    }
}

/// The ciphers that a session offers or accepts for its records.
///
/// The DTLS server selects the client's first choice among those that it accepts. A preference
/// thus decides where this end is the client; a single cipher decides everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CipherChoice {
    /// All ciphers, this one first; usually the result of [`Cipher::fastest`].
    Prefer(Cipher),
    /// Only this cipher; a peer without it cannot connect.
    Only(Cipher),
}

impl Default for CipherChoice {
    fn default() -> Self {
        Self::Prefer(Cipher::Aes128Gcm)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn names_read_back_and_others_are_refused() {
        for cipher in Cipher::ALL {
            assert_eq!(cipher.as_str().parse(), Ok(cipher));
            assert_eq!(Cipher::ALL[cipher.index()], cipher);
        }
        let error = "aes".parse::<Cipher>().expect_err("no cipher");
        assert!(error.to_string().contains("aes-128-gcm"), "{error}");
    }

    /// The clock stands still while AES works and runs while ChaCha20 does, and
    /// the other way round.
    #[test]
    fn the_faster_one_by_the_given_clock_is_chosen() {
        for (aes, chacha, fastest) in [(1, 2, Cipher::Aes128Gcm), (2, 1, Cipher::ChaCha20Poly1305)]
        {
            let start = Clock::epoch();
            let (mut calls, mut at) = (0, start);
            let found = Cipher::fastest(|| {
                let step = if calls < 16 { aes } else { chacha };
                calls += 1;
                at += Duration::from_micros(step);
                at
            });
            assert_eq!(found, fastest);
        }
    }

    struct Clock;
    impl Clock {
        fn epoch() -> Instant {
            glassline_sim::Clock::new().now()
        }
    }
}
