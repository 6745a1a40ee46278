//! A certificate chain and its private key in two PEM files.

use std::io;
use std::path::{Path, PathBuf};

use glassline_runtime::small_file;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Certificate;

/// Largest file that is read. Chains and keys have a few kB; a larger file is a mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The two files of a certificate, and the section of the configuration that names them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PemFiles {
    /// PEM file with the certificate chain.
    pub certificate: PathBuf,
    /// PEM file with the private key, without a passphrase.
    pub key: PathBuf,
    /// Section of the configuration, like `rtsp.tls`, for errors.
    #[serde(skip, default = "top_level")]
    pub section: &'static str,
}

const fn top_level() -> &'static str {
    "tls"
}

impl PemFiles {
    /// Returns the files that `section` names; `None` if it names none.
    ///
    /// # Errors
    /// Returns [`FilesError::Missing`] if only one of the two is named.
    pub fn of(
        section: &'static str,
        certificate: Option<&PathBuf>,
        key: Option<&PathBuf>,
    ) -> Result<Option<Self>, FilesError> {
        match (certificate, key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some(Self {
                certificate: certificate.clone(),
                key: key.clone(),
                section,
            })),
            (None, _) => Err(FilesError::Missing {
                section,
                key: "certificate",
            }),
            (_, None) => Err(FilesError::Missing {
                section,
                key: "key",
            }),
        }
    }

    /// Reads both files. The key may be PKCS #8, SEC 1 or PKCS #1, without a passphrase.
    ///
    /// # Errors
    /// Returns [`FilesError`] with the file and what to do.
    pub fn load(&self) -> Result<Certificate, FilesError> {
        let section = self.section;
        let read = |name, file: &Path| {
            small_file::read(file, FILE_BYTES_MAX).map_err(|source| FilesError::Unreadable {
                section,
                key: name,
                file: file.to_owned(),
                source,
            })
        };
        let no_pem = |name, file: &Path, label| {
            let file = file.to_owned();
            move |reason| FilesError::NoPem {
                section,
                key: name,
                file,
                reason,
                label,
            }
        };
        let text = read("certificate", &self.certificate)?;
        let chain = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
        let chain = chain.and_then(|chain| match chain.is_empty() {
            true => Err(rustls::pki_types::pem::Error::NoItemsFound),
            false => Ok(chain),
        });
        let chain = chain.map_err(no_pem("certificate", &self.certificate, "CERTIFICATE"))?;
        let private = PrivateKeyDer::from_pem_slice(&read("key", &self.key)?);
        let private = private.map_err(no_pem("key", &self.key, "PRIVATE KEY"))?;
        Certificate::new(chain, private).map_err(|source| FilesError::Unfit {
            section,
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            source: Box::new(source),
        })
    }
}

/// A problem with the files, which the operator can fix.
#[derive(Debug, Error)]
pub enum FilesError {
    /// One of the two files is configured, and the other is not.
    #[error(
        "{section}.{key} is missing: {section} needs a certificate chain and its private key, \
         both PEM; set {section}.{key} to the file"
    )]
    Missing {
        /// Section of the configuration.
        section: &'static str,
        /// Key in the section.
        key: &'static str,
    },
    /// The file cannot be read.
    #[error(
        "{section}.{key}: cannot read {file}: {source}; name a PEM file that this user may read",
        file = file.display()
    )]
    Unreadable {
        /// Section of the configuration.
        section: &'static str,
        /// Key in the section.
        key: &'static str,
        /// Path of the file.
        file: PathBuf,
        /// The error that the system returned.
        source: io::Error,
    },
    /// The file has no usable section.
    #[error(
        "{section}.{key}: {file}: {reason}; it must be PEM with a section `{label}`",
        file = file.display()
    )]
    NoPem {
        /// Section of the configuration.
        section: &'static str,
        /// Key in the section.
        key: &'static str,
        /// Path of the file.
        file: PathBuf,
        /// The PEM reader's error.
        reason: rustls::pki_types::pem::Error,
        /// The kind of PEM section that is needed.
        label: &'static str,
    },
    /// Both files are valid, but do not belong together.
    #[error(
        "{section}: {certificate} and {key} cannot be used together: {source}; \
         give the chain and the key that it was made for",
        certificate = certificate.display(),
        key = key.display()
    )]
    Unfit {
        /// Section of the configuration.
        section: &'static str,
        /// Path of the chain's file.
        certificate: PathBuf,
        /// Path of the key's file.
        key: PathBuf,
        /// The error of the TLS library.
        source: Box<rustls::Error>,
    },
}
