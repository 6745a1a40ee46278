//! Which certificates are accepted, over HTTP and RTSP alike.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, CryptoProvider};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Which server certificates are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Certificates of authorities that the system trusts: the bundle in `SSL_CERT_FILE`,
    /// else the system's.
    #[default]
    System,
    /// Every certificate. An attacker on the path can read and change what is sent, passwords
    /// included. For servers on test benches with certificates of their own.
    Anybody,
}

impl Trust {
    /// TLS configuration of the HTTP client: rustls on aws-lc-rs.
    pub fn for_http(self) -> TlsConfig {
        let roots = ROOTS
            .iter()
            .map(|der| Certificate::from_der(der).to_owned());
        let roots: Vec<_> = roots.collect();
        TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
            .root_certs(RootCerts::new_with_certs(&roots))
            .disable_verification(self == Self::Anybody)
            .build()
    }

    /// TLS configuration for other protocols; one per process, so that TLS sessions are
    /// resumed.
    pub(crate) fn config(self) -> Arc<ClientConfig> {
        static SYSTEM: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| config(Trust::System));
        static ANYBODY: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| config(Trust::Anybody));
        match self {
            Self::System => Arc::clone(&SYSTEM),
            Self::Anybody => Arc::clone(&ANYBODY),
        }
    }
}

fn config(trust: Trust) -> Arc<ClientConfig> {
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("aws-lc-rs speaks TLS 1.2 and 1.3");
    let builder = match trust {
        Trust::System => {
            let mut roots = RootCertStore::empty();
            // Some bundles hold certificates of kinds that are not read.
            roots.add_parsable_certificates(ROOTS.iter().cloned());
            builder.with_root_certificates(roots)
        }
        Trust::Anybody => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate::new(provider, ()))),
    };
    Arc::new(builder.with_no_client_auth())
}

/// Root certificates: the bundle in `SSL_CERT_FILE`, else the first of [`BUNDLES`] that
/// exists. Without any, http works and https fails with "unknown issuer".
pub(crate) static ROOTS: LazyLock<Vec<CertificateDer<'static>>> = LazyLock::new(|| {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let bundle = named
        .into_iter()
        .chain(BUNDLES.iter().map(PathBuf::from))
        .find_map(|path| std::fs::read(path).ok());
    let Some(bundle) = bundle else {
        tracing::debug!("no bundle of trusted certificates found; set SSL_CERT_FILE for TLS");
        return Vec::new();
    };
    CertificateDer::pem_slice_iter(&bundle).flatten().collect()
});

/// Places where Debian and Alpine, Fedora, SUSE, BSD and macOS keep their bundles.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/usr/local/etc/ssl/cert.pem",
    "/etc/ssl/cert.pem",
];

/// What a server shows in a handshake for a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownCertificate<'a> {
    pub(crate) own: &'a CertificateDer<'a>,
    pub(crate) others: &'a [CertificateDer<'a>],
    pub(crate) name: &'a ServerName<'a>,
    pub(crate) ocsp: &'a [u8],
    pub(crate) now: UnixTime,
}

/// Looks at certificates that are accepted whatever they are.
pub(crate) trait CertificateObserver: Debug + Send + Sync {
    fn observe(&self, shown: ShownCertificate<'_>);
}

impl CertificateObserver for () {
    fn observe(&self, _: ShownCertificate<'_>) {}
}

/// Accepts any certificate, but checks that the server has its key.
#[derive(Debug)]
pub(crate) struct AnyCertificate<O> {
    provider: Arc<CryptoProvider>,
    observer: O,
}

impl<O> AnyCertificate<O> {
    pub(crate) const fn new(provider: Arc<CryptoProvider>, observer: O) -> Self {
        Self { provider, observer }
    }
}

impl<O: CertificateObserver> ServerCertVerifier for AnyCertificate<O> {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.observer.observe(ShownCertificate {
            own,
            others,
            name,
            ocsp,
            now,
        });
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
