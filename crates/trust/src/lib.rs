//! Which certificates of servers our clients accept: one rule, and one sentence for a refusal, for QUIC,
//! HTTPS, TURN and `rtsps://` alike.
//!
//! ```text
//! Trust ─► verifier ─┬► within_quic ─► TLS 1.3 with ALPN
//!                    └► over_tcp ────► TLS 1.2 or 1.3
//! a refused certificate ─► UntrustedCertificate: the reason, and the SHA-256 to pin it by
//! ```
//!
//! This crate opens no connection.

mod fingerprint;
mod untrusted_certificate;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

pub use fingerprint::{Fingerprint, FingerprintError};
use untrusted_certificate::NamingVerifier;
pub use untrusted_certificate::UntrustedCertificate;

/// Largest file of certificates that is read. The bundles of systems have less than 1 MiB.
const BUNDLE_BYTES_MAX: u64 = 16 << 20;

/// Files in which systems keep the certificates of authorities, the most common first: Debian and
/// Alpine, Fedora, SUSE, BSD and macOS.
const BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];

/// Which certificates of servers a client accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Trust {
    /// Certificates of the system's authorities: those of `SSL_CERT_FILE`, or of the system's
    /// bundle.
    #[default]
    System,
    /// Certificates of the authorities in a PEM file, whose path lives as long as the process, as that
    /// of a command line does.
    Authorities(&'static Path),
    /// Exactly the certificate with this fingerprint, whatever its name.
    Pinned(Fingerprint),
    /// Any certificate. Only for tests: an attacker on the path can read and change everything,
    /// passwords included.
    Anyone,
}

impl Trust {
    /// Returns the TLS configuration of a client of QUIC that supports `protocols`, the preferred one
    /// first. A certificate that is refused makes an error which [`UntrustedCertificate::in_tls`] reads.
    ///
    /// # Errors
    /// Returns [`TrustError`] if no certificate can be accepted.
    pub fn within_quic(self, protocols: Vec<Vec<u8>>) -> Result<ClientConfig, TrustError> {
        let provider = provider();
        let verifier = self.verifier(&provider)?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = protocols;
        Ok(config)
    }

    /// Returns the TLS configuration of a client over TCP, with TLS 1.2 or 1.3. There is one for each
    /// of the usual trusts, so that sessions are resumed. A certificate that is refused makes an error
    /// which [`UntrustedCertificate::of`] reads.
    ///
    /// # Errors
    /// Returns [`TrustError`] if no certificate can be accepted.
    pub fn over_tcp(self) -> Result<Arc<ClientConfig>, TrustError> {
        static SYSTEM: OnceLock<Arc<ClientConfig>> = OnceLock::new();
        static ANYONE: OnceLock<Arc<ClientConfig>> = OnceLock::new();
        let kept = match self {
            Self::System => &SYSTEM,
            Self::Anyone => &ANYONE,
            Self::Authorities(_) | Self::Pinned(_) => return self.new_over_tcp(),
        };
        if let Some(config) = kept.get() {
            return Ok(Arc::clone(config));
        }
        let config = self.new_over_tcp()?;
        Ok(Arc::clone(kept.get_or_init(|| config)))
    }

    fn new_over_tcp(self) -> Result<Arc<ClientConfig>, TrustError> {
        let provider = provider();
        let verifier = self.verifier(&provider)?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }

    /// Returns why a client refuses a certificate for `name` at `now`; `None` if it is accepted.
    ///
    /// `chain`: certificates in DER, the server's own first.
    ///
    /// # Errors
    /// Returns [`TrustError`] if no certificate can be accepted.
    pub fn judge(
        self,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<Option<rustls::Error>, TrustError> {
        let Some((own, others)) = chain.split_first() else {
            return Ok(Some(rustls::Error::NoCertificatesPresented));
        };
        let verifier = self.bare_verifier(&provider())?;
        let verified = verifier.verify_server_cert(own, others, name, &[], now);
        Ok(verified.err())
    }

    fn verifier(
        self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, TrustError> {
        let inner = self.bare_verifier(provider)?;
        Ok(Arc::new(NamingVerifier { inner }))
    }

    fn bare_verifier(
        self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, TrustError> {
        let by_authorities = |roots: RootCertStore| {
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .build()
                .map_err(|error| rustls::Error::General(error.to_string()))
        };
        let pin = match self {
            Self::System => return Ok(by_authorities(system()?)?),
            Self::Authorities(file) => return Ok(by_authorities(authorities(file)?)?),
            Self::Pinned(pin) => Some(pin),
            Self::Anyone => None,
        };
        Ok(Arc::new(PinVerifier {
            pin,
            algorithms: provider.signature_verification_algorithms,
        }))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn system() -> Result<RootCertStore, TrustError> {
    system_of(std::env::var_os("SSL_CERT_FILE").map(PathBuf::from))
}

/// Returns the authorities of the `named` bundle, or of the first one that the system has.
fn system_of(named: Option<PathBuf>) -> Result<RootCertStore, TrustError> {
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
    let text = read(file).map_err(|error| unreadable(error.to_string()))?;
    let found = CertificateDer::pem_slice_iter(&text);
    let mut roots = RootCertStore::empty();
    // Bundles may contain unreadable certificates; the others are used without them.
    roots.add_parsable_certificates(found.filter_map(Result::ok));
    if roots.is_empty() {
        return Err(unreadable("it contains no certificate".to_owned()));
    }
    Ok(roots)
}

/// Returns the content of a file. Whoever writes to a named pipe is not waited for.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(file)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = Vec::new();
    File::open(file)?
        .take(BUNDLE_BYTES_MAX + 1)
        .read_to_end(&mut text)?;
    match text.len() as u64 > BUNDLE_BYTES_MAX {
        true => Err(io::Error::other("it is larger than 16 MiB")),
        false => Ok(text),
    }
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

/// The reason why a client can accept no certificate. The user can mend it.
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
        /// The fault of the file.
        reason: String,
    },
    /// TLS rejects the configuration.
    #[error("TLS rejects the trust in certificates: {0}")]
    Tls(#[from] rustls::Error),
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "certificates are compared with the calendar"
)]
mod tests;
