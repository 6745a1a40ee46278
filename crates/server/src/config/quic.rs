//! The section `quic`.

use std::net::SocketAddr;
use std::path::PathBuf;

use glassline_congestion::Algorithm;
use glassline_quic::{Identity, IdentityError};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{loopback, parts};

/// Streams at `moq://HOST:PORT/NAME`, and for browsers at `https://HOST:PORT/NAME`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Quic {
    /// Where to listen, `IP:PORT` of UDP; port 0 takes a free one, null does not listen.
    pub address: Option<SocketAddr>,
    /// A PEM file with the certificate and those that vouch for it, its own first. Null
    /// makes one that clients pin by its SHA-256, and another every ten days.
    pub certificate: Option<PathBuf>,
    /// A PEM file with its private key, without a passphrase.
    pub key: Option<PathBuf>,
    /// What controls congestion on the way to those who read: `cubic`, `copa` and the
    /// others that `glassline bench congestion` compares.
    #[serde(serialize_with = "name_of", deserialize_with = "algorithm")]
    #[schemars(with = "String")]
    pub congestion: Algorithm,
    /// Sessions at once, of those who publish and those who read together.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub clients: usize,
}

impl Quic {
    /// What clients are shown: what the files have, or a certificate made now for this
    /// machine's names.
    ///
    /// # Errors
    /// [`QuicIdentityError`] names the key or the file and what to do.
    pub fn identity(&self) -> Result<Identity, QuicIdentityError> {
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Ok(Identity::load(certificate, key)?),
            (None, None) => {
                let mut names = vec!["localhost".to_owned()];
                names.extend(self.address.iter().map(|address| address.ip().to_string()));
                Ok(Identity::self_signed(names, std::time::SystemTime::now())?)
            }
            (None, _) => Err(QuicIdentityError::Missing { key: "certificate" }),
            (_, None) => Err(QuicIdentityError::Missing { key: "key" }),
        }
    }
}

impl Default for Quic {
    fn default() -> Self {
        Self {
            address: Some(loopback(4443)),
            certificate: None,
            key: None,
            congestion: Algorithm::Glide,
            clients: 1_000,
        }
    }
}

/// Why QUIC has no certificate. The operator's to mend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuicIdentityError {
    /// One file of the two.
    #[error("quic.{key} is missing: name certificate and key, both PEM, or neither")]
    Missing {
        /// The key of the configuration.
        key: &'static str,
    },
    /// A file, or what is in it.
    #[error("quic.certificate and quic.key: {0}")]
    Identity(#[from] IdentityError),
}

fn name_of<S: Serializer>(algorithm: &Algorithm, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(algorithm.as_str())
}

fn algorithm<'de, D: Deserializer<'de>>(from: D) -> Result<Algorithm, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(D::Error::custom)
}
