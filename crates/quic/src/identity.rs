//! Identity of a server: a certificate chain and its key, given or self-signed.

use std::time::{Duration, SystemTime};

use aws_lc_rs::{hkdf, hmac};
use glassline_trust::Fingerprint;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};

/// Lifetime of a self-signed certificate, clock skew included. Browsers pin a certificate only
/// if it is valid for at most two weeks (W3C WebTransport, "verify a certificate hash").
const SELF_SIGNED: Duration = Duration::from_secs(13 * 86_400);
const CLOCK_SKEW: Duration = Duration::from_secs(3600);

/// A server's certificate chain and private key.
#[derive(Debug)]
pub struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

/// A certificate that its server signed itself, and its key, as PEM text that can be kept.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, derive_more::Debug)]
#[debug("SelfSigned {{ certificate: {certificate:?}, .. }}")]
pub struct SelfSigned {
    certificate: String,
    key: String,
}

impl Identity {
    /// Takes a chain, the server's own certificate first, and its private key.
    pub const fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Self {
        Self { chain, key }
    }

    /// Creates a certificate as [`SelfSigned::make`] does, which lives as long as the process.
    ///
    /// # Errors
    /// [`IdentityError::Generate`] if a name is invalid.
    pub fn self_signed(names: Vec<String>, now: SystemTime) -> Result<Self, IdentityError> {
        SelfSigned::make(names, now)?.identity()
    }

    /// Returns the SHA-256 of the server's own certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self.chain.first().map_or(&[][..], |first| first))
    }

    /// Returns the keys for stateless resets, connection ids (RFC 9000 §10.3.2) and tokens, derived
    /// from the private key, so that a server that was killed and started again can tell its old
    /// clients at once.
    pub(crate) fn endpoint_keys(&self) -> Option<EndpointKeys> {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"glassline stateless reset");
        let secret = salt.extract(self.key.secret_der());
        let mut bytes = [0; 56];
        secret
            .expand(&[b"v1"], Length(bytes.len()))
            .ok()?
            .fill(&mut bytes)
            .ok()?;
        let (reset, rest) = bytes.split_first_chunk::<32>()?;
        let (id, rest) = rest.split_first_chunk()?;
        Some(EndpointKeys {
            reset: hmac::Key::new(hmac::HMAC_SHA256, reset),
            connection_id: u64::from_be_bytes(*id),
            token: rest.try_into().ok()?,
        })
    }
}

impl SelfSigned {
    /// Creates a self-signed certificate for `names` on the P-256 curve. It is valid for thirteen days
    /// from one hour before `now`; browsers and our clients accept it by its
    /// [fingerprint](Identity::fingerprint).
    ///
    /// # Errors
    /// [`IdentityError::Generate`] if a name is invalid.
    pub fn make(names: Vec<String>, now: SystemTime) -> Result<Self, IdentityError> {
        let generate = |error: rcgen::Error| IdentityError::Generate(error.to_string());
        let mut parameters = rcgen::CertificateParams::new(names).map_err(generate)?;
        parameters
            .distinguished_name
            .push(rcgen::DnType::CommonName, "glassline");
        parameters.not_before = (now - CLOCK_SKEW).into();
        parameters.not_after = (now - CLOCK_SKEW + SELF_SIGNED).into();
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256);
        let pair = pair.map_err(generate)?;
        let certificate = parameters.self_signed(&pair).map_err(generate)?;
        Ok(Self {
            certificate: certificate.pem(),
            key: pair.serialize_pem(),
        })
    }

    /// Returns the certificate for handshakes.
    ///
    /// # Errors
    /// [`IdentityError::NoPem`] if the text was changed.
    pub fn identity(&self) -> Result<Identity, IdentityError> {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes());
        Ok(Identity {
            chain: vec![certificate.map_err(|_| IdentityError::NoPem)?],
            key: key.map_err(|_| IdentityError::NoPem)?,
        })
    }
}

/// Keys that must be the same in every process that serves one address.
pub(crate) struct EndpointKeys {
    /// Key of the tokens by which clients recognise a reset.
    pub(crate) reset: hmac::Key,
    /// Key by which the server recognises connection ids of its own.
    pub(crate) connection_id: u64,
    /// Secret of the tokens by which clients prove their addresses.
    pub(crate) token: [u8; 16],
}

/// Number of bytes to derive.
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// The reason why there is no [`Identity`]. The operator can mend it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// No certificate can be created.
    #[error("cannot create a certificate: {0}")]
    Generate(String),
    /// The kept text is no certificate with its key.
    #[error("no certificate and key in PEM")]
    NoPem,
    /// TLS rejects the certificate or its key.
    #[error("TLS rejects the certificate or its key: {0}")]
    Tls(#[from] rustls::Error),
}
