//! The section `quic` of the configuration: MoQ over QUIC.

use std::net::SocketAddr;
use std::path::PathBuf;

use glassline_access::tls::{FilesError, PemFiles};
use glassline_congestion::Algorithm;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{loopback, parts};

/// Streams at `moq://HOST:PORT/NAME`, and for browsers at `https://HOST:PORT/NAME`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Quic {
    /// UDP address to listen on, `IP:PORT`; port 0 takes a free one, null does not listen.
    pub address: Option<SocketAddr>,
    /// PEM file with the certificate chain. Null for both files takes that of `tls`, or else one
    /// that clients pin by its SHA-256: kept over restarts, replaced after ten days, and announced
    /// three days before.
    pub certificate: Option<PathBuf>,
    /// PEM file with the private key, without a passphrase.
    pub key: Option<PathBuf>,
    /// Congestion control for readers: those of `glassline bench congestion`.
    #[serde(serialize_with = "name_of", deserialize_with = "algorithm")]
    #[schemars(with = "String")]
    pub congestion: Algorithm,
    /// Most sessions, of publishers and readers together.
    #[serde(deserialize_with = "parts::positive")]
    #[schemars(range(min = 1))]
    pub clients: usize,
    /// Most sessions of one address or IPv6 /64. Null takes a quarter of `clients`, at least 32. At
    /// the limit, the oldest handshake or idle session makes room.
    #[serde(deserialize_with = "parts::positive_or_null")]
    #[schemars(range(min = 1))]
    pub clients_per_address: Option<usize>,
}

impl Quic {
    /// Returns the most sessions of one client address.
    pub fn clients_per_address(&self) -> usize {
        parts::per_address(self.clients_per_address, self.clients)
    }

    /// Returns the certificate's files; `None` if neither is named.
    ///
    /// # Errors
    /// Returns [`FilesError`] if only one of the two files is named.
    pub fn files(&self) -> Result<Option<PemFiles>, FilesError> {
        PemFiles::of("quic", self.certificate.as_ref(), self.key.as_ref())
    }

    /// Returns the names of a certificate that the server makes, and clients pin by its SHA-256.
    pub fn names(&self) -> Vec<String> {
        let ip = self.address.iter().map(|address| address.ip().to_string());
        std::iter::once("localhost".to_owned()).chain(ip).collect()
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
            clients_per_address: None,
        }
    }
}

fn name_of<S: Serializer>(algorithm: &Algorithm, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(algorithm.as_str())
}

fn algorithm<'de, D: Deserializer<'de>>(from: D) -> Result<Algorithm, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(D::Error::custom)
}
