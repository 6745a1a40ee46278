//! A certificate chain with its private key, ready for handshakes.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::validity::{self, Validity};

/// A certificate chain with its private key.
pub struct Certificate {
    certified: Arc<CertifiedKey>,
    /// The key once more, for protocols whose library builds its own signer.
    key: PrivateKeyDer<'static>,
    validity: Option<Validity>,
}

impl Certificate {
    /// Joins `chain`, the server's own certificate first, and its private key.
    ///
    /// # Errors
    /// Returns an error if the two do not belong together, or if the key is of an unknown kind.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        let validity = chain.first().and_then(|own| validity::validity(own));
        let certified = CertifiedKey::from_der(chain, key.clone_key(), &provider())?;
        Ok(Self {
            certified: Arc::new(certified),
            key,
            validity,
        })
    }

    /// Returns the chain, the server's own certificate first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    /// Returns the private key.
    pub const fn key(&self) -> &PrivateKeyDer<'static> {
        &self.key
    }

    /// Returns when clients stop to accept the certificate; `None` if that cannot be read.
    pub fn not_after(&self) -> Option<SystemTime> {
        Some(self.validity?.not_after)
    }

    /// Returns when clients accept the certificate; `None` if that cannot be read.
    pub const fn validity(&self) -> Option<Validity> {
        self.validity
    }

    pub(super) const fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }
}

impl fmt::Debug for Certificate {
    /// Writes the number of certificates, and nothing of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({} in the chain)", self.chain().len())
    }
}

/// Returns the cryptography of all TLS here.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
