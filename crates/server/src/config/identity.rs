//! The server's identity within TLS: a certificate chain and its private key.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;

/// Largest file that is read. Chains and keys have a few kB; a larger file is a mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A certificate chain and its key, ready for the handshakes of all clients.
#[derive(Clone, Debug)]
pub struct Identity {
    pub(crate) config: Arc<rustls::ServerConfig>,
    shown: Arc<Shown>,
}

/// The certificate that handshakes use from now on.
#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&current))
    }
}

/// A problem with the files, which the operator can fix.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// An address is configured, and a file is not.
    #[error(
        "rtsp.tls.{key} is missing: rtsp.tls needs a certificate chain and its private key, \
         both PEM; set rtsp.tls.{key} to the file"
    )]
    Missing {
        /// Key in the configuration.
        key: &'static str,
    },
    /// The file cannot be read.
    #[error(
        "rtsp.tls.{key}: cannot read {file}: {source}; name a PEM file that this user may read",
        file = file.display()
    )]
    Unreadable {
        /// Key in the configuration.
        key: &'static str,
        /// Path of the file.
        file: PathBuf,
        /// The error that the system returned.
        source: io::Error,
    },
    /// The file has no usable section.
    #[error(
        "rtsp.tls.{key}: {file}: {reason}; it must be PEM with a section `{section}`",
        file = file.display()
    )]
    NoPem {
        /// Key in the configuration.
        key: &'static str,
        /// Path of the file.
        file: PathBuf,
        /// The PEM reader's error.
        reason: rustls::pki_types::pem::Error,
        /// The kind of section that is needed.
        section: &'static str,
    },
    /// Both files are valid, but do not belong together.
    #[error(
        "rtsp.tls: {certificate} and {key} cannot be used together: {source}; \
         give the chain and the key that it was made for",
        certificate = certificate.display(),
        key = key.display()
    )]
    Unfit {
        /// Path of the chain's file.
        certificate: PathBuf,
        /// Path of the key's file.
        key: PathBuf,
        /// The error of the TLS library.
        source: rustls::Error,
    },
}

impl Identity {
    /// Reads both files (PEM). The key may be PKCS #8, SEC 1 or PKCS #1, without a passphrase.
    ///
    /// # Errors
    /// Returns [`IdentityError`] with the file and what to do.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, IdentityError> {
        let unfit = |source| IdentityError::Unfit {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            source,
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let current = certified(certificate, key, &provider)?;
        let shown = Arc::new(Shown(RwLock::new(Arc::new(current))));
        let config = server_config(Arc::clone(&shown), provider).map_err(unfit)?;
        let config = Arc::new(config);
        Ok(Self { config, shown })
    }

    /// Reads both files again. Established connections keep the certificate that they began with.
    /// Returns false if the certificate is the same.
    ///
    /// # Errors
    /// Returns [`IdentityError`]; the previous certificate then stays in use.
    pub fn reload(&self, certificate: &Path, key: &Path) -> Result<bool, IdentityError> {
        let provider = self.config.crypto_provider();
        let fresh = certified(certificate, key, provider)?;
        let mut current = self.shown.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = fresh.cert != current.cert;
        *current = Arc::new(fresh);
        Ok(is_new)
    }
}

/// Reads the chain and its key from their files.
fn certified(
    certificate: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, IdentityError> {
    let read = |name, file: &Path| {
        read(file).map_err(|source| IdentityError::Unreadable {
            key: name,
            file: file.to_owned(),
            source,
        })
    };
    let no_pem = |name, file: &Path, section| {
        let file = file.to_owned();
        move |reason| IdentityError::NoPem {
            key: name,
            file,
            reason,
            section,
        }
    };
    let text = read("certificate", certificate)?;
    let chain = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let chain = chain.and_then(|chain| match chain.is_empty() {
        true => Err(rustls::pki_types::pem::Error::NoItemsFound),
        false => Ok(chain),
    });
    let chain = chain.map_err(no_pem("certificate", certificate, "CERTIFICATE"))?;
    let private = PrivateKeyDer::from_pem_slice(&read("key", key)?);
    let private = private.map_err(no_pem("key", key, "PRIVATE KEY"))?;
    CertifiedKey::from_der(chain, private, provider).map_err(|source| IdentityError::Unfit {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        source,
    })
}

fn server_config(
    shown: Arc<Shown>,
    provider: Arc<CryptoProvider>,
) -> Result<rustls::ServerConfig, rustls::Error> {
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(shown);
    // Session resumption is turned off: a player stays for hours and gains nothing by it, and
    // tickets would be written to clients that never come again.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut file = File::open(file)?.take(FILE_BYTES_MAX + 1);
    file.read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(bytes)
}
