//! The certificate, its fingerprint, and the configuration of its handshakes.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_lc_rs::digest;
use dimpl::crypto::aws_lc_rs::default_provider;
use subtle::ConstantTimeEq as _;

use crate::sdp::{Fingerprint, HashAlgorithm};

use super::CipherChoice;
use super::{curves, tap};

/// The self-signed certificate of a process, and the configuration of its handshakes.
///
/// Create one per process: it costs a P-256 key, and every SDP contains its fingerprint.
#[derive(derive_more::Debug)]
#[debug("Certificate {{ fingerprint: {:?}, .. }}", self.fingerprint.to_string())]
pub struct Certificate {
    certificate: dimpl::DtlsCertificate,
    /// Configuration for sessions without data channels.
    config: Arc<dimpl::Config>,
    /// Configurations for sessions with data channels, by [`CipherChoice`]. Each is created
    /// when it is first used, because `dimpl` tests a provider for about a millisecond.
    tapped: [OnceLock<Arc<dimpl::Config>>; 6],
    timer_seed: Option<u64>,
    fingerprint: Fingerprint,
}

impl Certificate {
    /// Generates a P-256 key and a certificate that is valid for a year.
    ///
    /// # Errors
    /// [`GenerateError`] if the system provides no randomness.
    pub fn generate() -> Result<Self, GenerateError> {
        Self::with(None)
    }

    /// Creates a certificate whose handshakes jitter their retransmissions by `seed`, so that
    /// runs in virtual time are repeatable. Hello randoms become predictable as well.
    #[cfg(test)]
    pub(crate) fn with_timer_seed(seed: u64) -> Result<Self, GenerateError> {
        Self::with(Some(seed))
    }

    fn with(timer_seed: Option<u64>) -> Result<Self, GenerateError> {
        let certificate = dimpl::certificate::generate_self_signed_certificate()
            .map_err(|error| GenerateError(error.to_string()))?;
        let config = config(timer_seed)
            .build()
            .map_err(|error| GenerateError(error.to_string()))?;
        Ok(Self {
            fingerprint: sha256(&certificate.certificate),
            certificate,
            config: Arc::new(config),
            tapped: Default::default(),
            timer_seed,
        })
    }

    pub(super) fn for_dimpl(&self) -> dimpl::DtlsCertificate {
        self.certificate.clone()
    }

    /// Returns the configuration of a session's handshake. `data`: its ciphers, if it has data
    /// channels.
    pub(super) fn config(&self, data: Option<CipherChoice>) -> Arc<dimpl::Config> {
        let Some(choice) = data else {
            return Arc::clone(&self.config);
        };
        let (cipher, index) = match choice {
            CipherChoice::Prefer(cipher) => (cipher, cipher.index()),
            CipherChoice::Only(cipher) => (cipher, 3 + cipher.index()),
        };
        let config = self.tapped[index].get_or_init(|| {
            let mut builder = config(self.timer_seed)
                .with_crypto_provider(curves::provider(tap::provider(cipher)));
            if let CipherChoice::Only(_) = choice {
                builder = builder.dtls12_cipher_suites(&[cipher.suite()]);
            }
            let built = builder.build().expect("the suites of aws-lc, in our order");
            // Testing the provider has created keys that belong to no association.
            drop(tap::take_created());
            Arc::new(built)
        });
        Arc::clone(config)
    }

    /// Returns the SHA-256 of the certificate, as in `a=fingerprint:sha-256`.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }
}

/// The process could not generate a certificate.
#[derive(Debug, thiserror::Error)]
#[error("cannot generate a certificate: {0}")]
pub struct GenerateError(String);

fn config(timer_seed: Option<u64>) -> dimpl::ConfigBuilder {
    let config = dimpl::Config::builder()
        .with_crypto_provider(curves::provider(default_provider()))
        .mtu(MTU)
        .flight_start_rto(RETRANSMIT_AFTER)
        .flight_retries(RETRIES_MAX)
        .handshake_timeout(HANDSHAKE_TIMEOUT)
        // ICE has validated the address already: a cookie would prove nothing new and cost a
        // round trip when joining.
        .use_server_cookie(false)
        .require_client_certificate(true);
    match timer_seed {
        Some(seed) => config.dangerously_set_rng_seed(seed),
        None => config,
    }
}

fn sha256(certificate: &[u8]) -> Fingerprint {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
    Fingerprint::sha256(bytes)
}

/// Returns whether the certificate (DER) has one of the announced fingerprints.
///
/// Any match suffices (RFC 8122 §5). SHA-1 and unknown hashes never match. The comparison takes
/// the same time wherever the difference is.
pub(super) fn has_fingerprint(certificate: &[u8], announced: &[Fingerprint]) -> bool {
    announced.iter().any(|fingerprint| {
        let algorithm = match fingerprint.algorithm {
            HashAlgorithm::Sha256 => &digest::SHA256,
            HashAlgorithm::Sha384 => &digest::SHA384,
            HashAlgorithm::Sha512 => &digest::SHA512,
            _ => return false,
        };
        let actual = digest::digest(algorithm, certificate);
        actual.as_ref().ct_eq(&fingerprint.digest).into()
    })
}

/// Largest DTLS datagram in bytes: safe on every path that carries media of 1200 bytes.
const MTU: usize = 1150;
/// Time before the first retransmission of a flight. RFC 6347 §4.2.4.1 has one second for
/// unknown round trips; ICE has just measured this one, and browsers use 50 ms.
const RETRANSMIT_AFTER: Duration = Duration::from_millis(100);
/// Number of retransmissions: six doublings of 100 ms exceed the handshake deadline of the
/// session.
const RETRIES_MAX: usize = 7;
/// Time after which `dimpl` gives up a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_strong_and_equal_fingerprint_matches() {
        let certificate = b"not DER, but hashed all the same";
        let right = sha256(certificate);
        let strong = Fingerprint {
            algorithm: HashAlgorithm::Sha512,
            digest: digest::digest(&digest::SHA512, certificate)
                .as_ref()
                .to_vec(),
        };
        let weak = Fingerprint {
            algorithm: HashAlgorithm::Sha1,
            digest: digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, certificate)
                .as_ref()
                .to_vec(),
        };
        let mut wrong = right.clone();
        wrong.digest[31] ^= 1;
        let mut short = right.clone();
        short.digest.truncate(31);
        assert!(has_fingerprint(certificate, &[wrong.clone(), right]));
        assert!(has_fingerprint(certificate, &[strong]));
        assert!(!has_fingerprint(certificate, &[wrong, weak, short]));
        assert!(!has_fingerprint(certificate, &[]));
    }
}
