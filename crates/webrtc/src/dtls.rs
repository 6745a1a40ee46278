//! The seam over `dimpl`: DTLS 1.2, the certificate, and the exported keys.
//!
//! DTLS 1.2 only: as the passive side `dimpl` then picks AEAD_AES_256_GCM with
//! every peer tried, while 1.3 and the active side end on SHA1_80 with browsers,
//! at four times the cipher cost. Its records draw random nonces under 1.2,
//! which is fine for the handshake and close_notify that this seam carries, and
//! not for bulk data: application data is dropped here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use dimpl::{Dtls, Output};
use subtle::ConstantTimeEq as _;

use crate::sdp::{Fingerprint, HashAlgorithm};
use crate::srtp::{Profile, Role};

/// The process's self-signed certificate and how its handshakes are run.
///
/// Make one per process: generating costs a P-256 key, and its fingerprint
/// stands in every SDP.
pub struct Certificate {
    certificate: dimpl::DtlsCertificate,
    config: Arc<dimpl::Config>,
    fingerprint: Fingerprint,
}

impl Certificate {
    /// Draws a P-256 key and signs a certificate with it, valid for a year.
    ///
    /// # Errors
    /// [`GenerateError`] if the system gives no randomness.
    pub fn generate() -> Result<Self, GenerateError> {
        Self::with_config(config())
    }

    /// A certificate whose handshakes jitter their retransmissions by `seed`, so
    /// that virtual time repeats. It also makes hello randoms predictable.
    #[cfg(test)]
    pub(crate) fn with_timer_seed(seed: u64) -> Result<Self, GenerateError> {
        Self::with_config(config().dangerously_set_rng_seed(seed))
    }

    fn with_config(config: dimpl::ConfigBuilder) -> Result<Self, GenerateError> {
        let certificate = dimpl::certificate::generate_self_signed_certificate()
            .map_err(|error| GenerateError(error.to_string()))?;
        let config = config
            .build()
            .map_err(|error| GenerateError(error.to_string()))?;
        Ok(Self {
            fingerprint: sha256(&certificate.certificate),
            certificate,
            config: Arc::new(config),
        })
    }

    /// SHA-256 over the certificate, as `a=fingerprint:sha-256` has it.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate")
            .field("fingerprint", &self.fingerprint.to_string())
            .finish_non_exhaustive()
    }
}

/// The process could not make a certificate.
#[derive(Debug, thiserror::Error)]
#[error("cannot generate a certificate: {0}")]
pub struct GenerateError(String);

fn config() -> dimpl::ConfigBuilder {
    dimpl::Config::builder()
        .mtu(MTU)
        .flight_start_rto(RETRANSMIT_AFTER)
        .flight_retries(RETRIES_MAX)
        .handshake_timeout(HANDSHAKE_TIMEOUT)
        // ICE validated the address already: a cookie would prove nothing new
        // and cost a round trip of the join.
        .use_server_cookie(false)
        .require_client_certificate(true)
}

fn sha256(certificate: &[u8]) -> Fingerprint {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
    Fingerprint::sha256(bytes)
}

/// True if the certificate (DER) has one of the announced fingerprints.
///
/// RFC 8122 §5: any match suffices. SHA-1 and unknown hashes never match. The
/// comparison takes the same time wherever the difference lies.
fn has_fingerprint(certificate: &[u8], announced: &[Fingerprint]) -> bool {
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

/// Bytes of a DTLS datagram: safe on every path that carries 1200-byte media.
const MTU: usize = 1150;
/// First retransmission of a flight. RFC 6347 §4.2.4.1 says one second, meant
/// for unknown round trips; ICE has just measured ours, and browsers use 50 ms.
const RETRANSMIT_AFTER: Duration = Duration::from_millis(100);
/// Six doublings of 100 ms reach past the handshake deadline of the session.
const RETRIES_MAX: usize = 7;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// Flights have at most six datagrams of ours; more waiting means a flood.
const DATAGRAMS_QUEUED_MAX: usize = 16;

/// What the handshake came to, or how the association ended.
#[derive(Debug)]
pub(crate) enum Progress {
    /// The handshake is done and the certificate was the expected one.
    Keys {
        profile: Profile,
        role: Role,
        material: Material,
    },
    WrongFingerprint,
    NoSrtpProfile,
    Failed(dimpl::Error),
    CloseNotify,
}

/// Exported keys; not printed.
pub(crate) struct Material(pub(crate) dimpl::KeyingMaterial);

impl std::fmt::Debug for Material {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Material")
    }
}

/// One DTLS association.
///
/// Kept after the handshake, because the peer may need our last flight again
/// and says goodbye with close_notify.
pub(crate) struct Association {
    dtls: Box<Dtls>,
    expected: Vec<Fingerprint>,
    verified: bool,
    connected: bool,
    keys: Option<(dimpl::KeyingMaterial, Profile)>,
    role: Role,
    datagrams: VecDeque<Box<[u8]>>,
    deadline: Option<Instant>,
    failed: bool,
}

impl Association {
    pub(crate) fn new(
        certificate: &Certificate,
        role: Role,
        expected: Vec<Fingerprint>,
        now: Instant,
    ) -> Self {
        let mut dtls = Dtls::new_12(
            Arc::clone(&certificate.config),
            certificate.certificate.clone(),
            now,
        );
        dtls.set_active(role == Role::Client);
        Self {
            dtls: Box::new(dtls),
            expected,
            verified: false,
            connected: false,
            keys: None,
            role,
            datagrams: VecDeque::new(),
            deadline: None,
            failed: false,
        }
    }

    /// Begins the handshake if we are the client; call once ICE has a path.
    pub(crate) fn start(&mut self, now: Instant) -> Option<Progress> {
        self.handle_timeout(now)
    }

    pub(crate) fn handle_datagram(&mut self, now: Instant, datagram: &[u8]) -> Option<Progress> {
        if self.failed {
            return None;
        }
        let result = self
            .dtls
            .handle_timeout(now)
            .and_then(|()| self.dtls.handle_packet(datagram));
        self.settle(result)
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Option<Progress> {
        if self.failed {
            return None;
        }
        let result = self.dtls.handle_timeout(now);
        self.settle(result)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    /// The next datagram of ours, if any.
    pub(crate) fn poll_transmit(&mut self) -> Option<Box<[u8]>> {
        let datagram = self.datagrams.pop_front();
        if self.datagrams.is_empty() {
            self.datagrams = VecDeque::new();
        }
        datagram
    }

    /// Says goodbye; before the handshake is done there is nobody to say it to.
    pub(crate) fn close(&mut self, now: Instant) {
        if self.failed {
            return;
        }
        let result = self
            .dtls
            .handle_timeout(now)
            .and_then(|()| self.dtls.close());
        self.settle(result);
    }

    fn settle(&mut self, result: Result<(), dimpl::Error>) -> Option<Progress> {
        let drained = self.drain();
        match result {
            Ok(()) => drained,
            Err(error) => {
                self.failed = true;
                self.deadline = None;
                Some(drained.unwrap_or(Progress::Failed(error)))
            }
        }
    }

    /// Polls `dimpl` to the end, as it wants after every input.
    fn drain(&mut self) -> Option<Progress> {
        let mut progress = None;
        let mut scratch = [0; 2048];
        let mut larger = Vec::new();
        loop {
            let buffer = if larger.is_empty() {
                &mut scratch[..]
            } else {
                &mut larger
            };
            match self.dtls.poll_output(buffer) {
                Output::Packet(datagram) if self.datagrams.len() < DATAGRAMS_QUEUED_MAX => {
                    self.datagrams.push_back(datagram.into());
                }
                Output::BufferTooSmall { needed } => larger = vec![0; needed],
                Output::Timeout(at) => {
                    self.deadline = Some(at);
                    break;
                }
                Output::PeerCert(certificate) => {
                    self.verified = has_fingerprint(certificate, &self.expected);
                    if !self.verified {
                        progress = Some(Progress::WrongFingerprint);
                    }
                }
                Output::KeyingMaterial(material, profile) => {
                    self.keys = known(profile).map(|profile| (material, profile));
                }
                Output::Connected => self.connected = true,
                Output::CloseNotify => progress = progress.or(Some(Progress::CloseNotify)),
                _ => {}
            }
        }
        progress.or_else(|| self.finish())
    }

    /// Hands the keys out once, when the handshake is done and the peer is who it said.
    fn finish(&mut self) -> Option<Progress> {
        if !self.connected {
            return None;
        }
        self.connected = false;
        if !self.verified {
            return Some(Progress::WrongFingerprint);
        }
        let Some((material, profile)) = self.keys.take() else {
            return Some(Progress::NoSrtpProfile);
        };
        Some(Progress::Keys {
            profile,
            role: self.role,
            material: Material(material),
        })
    }
}

impl std::fmt::Debug for Association {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Association")
            .field("role", &self.role)
            .field("verified", &self.verified)
            .finish_non_exhaustive()
    }
}

fn known(profile: dimpl::SrtpProfile) -> Option<Profile> {
    match profile {
        dimpl::SrtpProfile::AES128_CM_SHA1_80 => Some(Profile::Aes128CmSha1_80),
        dimpl::SrtpProfile::AEAD_AES_128_GCM => Some(Profile::AeadAes128Gcm),
        dimpl::SrtpProfile::AEAD_AES_256_GCM => Some(Profile::AeadAes256Gcm),
        _ => None,
    }
}

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
