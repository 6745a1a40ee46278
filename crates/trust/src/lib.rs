//! Which server certificates a client accepts.

mod untrusted_certificate;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::{Fingerprint, IdentityError};
use untrusted_certificate::NamingVerifier;
pub use untrusted_certificate::UntrustedCertificate;

/// Files in which systems keep the certificates of authorities, the most common first.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];

/// Which server certificates a client accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trust {
    /// Certificates of the system's authorities: those of `SSL_CERT_FILE`, or of the system's
    /// bundle.
    #[default]
    System,
    /// Certificates of the authorities in a PEM file.
    Authorities(PathBuf),
    /// Exactly the certificate with this fingerprint, whatever its name.
    Pinned(Fingerprint),
    /// Any certificate. Only for tests: an attacker on the path can read and change everything.
    Anyone,
}

impl Trust {
    /// Returns the TLS configuration of a client that supports `protocols`, the preferred one
    /// first.
    pub(crate) fn client(
        &self,
        provider: Arc<CryptoProvider>,
        protocols: Vec<Vec<u8>>,
    ) -> Result<rustls::ClientConfig, TrustError> {
        let verifier = self.verifier(&provider)?;
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(IdentityError::Tls)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = protocols;
        Ok(config)
    }

    /// Returns the TLS configuration of a client over TCP, with TLS 1.2 or 1.3. A certificate that is
    /// refused makes an error which [`UntrustedCertificate::of`] reads.
    ///
    /// # Errors
    /// Returns [`TrustError`] if no certificate can be accepted.
    pub fn over_tcp(&self) -> Result<rustls::ClientConfig, TrustError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let inner = self.verifier(&provider)?;
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(IdentityError::Tls)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(NamingVerifier { inner }))
            .with_no_client_auth();
        Ok(config)
    }

    fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, TrustError> {
        let by_authorities = |roots: RootCertStore| {
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .build()
                .map_err(|error| IdentityError::Tls(rustls::Error::General(error.to_string())))
        };
        let pin = match self {
            Self::System => return Ok(by_authorities(system()?)?),
            Self::Authorities(file) => return Ok(by_authorities(authorities(file)?)?),
            Self::Pinned(pin) => Some(*pin),
            Self::Anyone => None,
        };
        Ok(Arc::new(PinVerifier {
            pin,
            algorithms: provider.signature_verification_algorithms,
        }))
    }
}

fn system() -> Result<RootCertStore, TrustError> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let found = named.or_else(|| {
        let usual = BUNDLES.into_iter().map(PathBuf::from);
        usual.into_iter().find(|bundle| bundle.is_file())
    });
    authorities(&found.ok_or(TrustError::NoBundle)?)
}

fn authorities(file: &Path) -> Result<RootCertStore, TrustError> {
    let unreadable = |reason: String| TrustError::Unreadable {
        file: file.to_owned(),
        reason,
    };
    let found =
        CertificateDer::pem_file_iter(file).map_err(|error| unreadable(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    // Bundles may contain unreadable certificates; the others are used without them.
    roots.add_parsable_certificates(found.filter_map(Result::ok));
    if roots.is_empty() {
        return Err(unreadable("it contains no certificate".to_owned()));
    }
    Ok(roots)
}

/// Accepts one certificate, or any. The server must still prove that it has the private key.
#[derive(Debug)]
struct PinVerifier {
    pin: Option<Fingerprint>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.pin {
            Some(pin) if Fingerprint::of(certificate) != pin => Err(
                rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure),
            ),
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Why a client can accept no certificate. The user can mend it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The system's certificates were not found.
    #[error(
        "found no bundle of CA certificates on this system: set SSL_CERT_FILE, or pin the server's \
         certificate by its SHA-256 (`sha256=…`)"
    )]
    NoBundle,
    /// The file holds no certificates.
    #[error("cannot read CA certificates from {}: {reason}", file.display())]
    Unreadable {
        /// Path of the file.
        file: PathBuf,
        /// What is wrong with the file.
        reason: String,
    },
    /// TLS rejects the configuration.
    #[error(transparent)]
    Tls(#[from] IdentityError),
}
