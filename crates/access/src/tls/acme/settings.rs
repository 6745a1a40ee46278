//! The key `tls.acme` of the configuration.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AcmeName;

/// Directory of Let's Encrypt.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// A certificate that an authority issues over ACME, like Let's Encrypt. Naming one agrees to the
/// authority's terms of service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Acme {
    /// Host names and public IP addresses of this server, like `media.example` or `203.0.113.7`.
    pub names: Vec<AcmeName>,
    /// Address for mails of the authority.
    pub email: Option<String>,
    /// URL of the authority's directory.
    pub directory: String,
    /// Verification of the names: `http-01` at port 80, which must lead to `http.address`, or
    /// `tls-alpn-01` at port 443, which must lead to `https.address`. Null takes the latter if
    /// HTTPS listens on port 443.
    pub challenge: Option<ChallengeKind>,
    /// Profile of the certificate that the authority offers. Null takes `shortlived` for addresses
    /// where there is one, else the authority's default.
    pub profile: Option<String>,
    /// PEM file with the root certificates of the directory. Null takes Mozilla's.
    pub roots: Option<PathBuf>,
}

/// How an authority verifies that a name leads to this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ChallengeKind {
    /// A file over plain HTTP (RFC 8555 §8.3).
    #[serde(rename = "http-01")]
    Http01,
    /// A handshake with a certificate made for it (RFC 8737).
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
}

impl ChallengeKind {
    /// Returns the name in the configuration and in ACME.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
        }
    }
}

impl Default for Acme {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            email: None,
            directory: LETS_ENCRYPT.to_owned(),
            challenge: None,
            profile: None,
            roots: None,
        }
    }
}

impl Acme {
    /// Returns the host names, without the addresses.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|name| match name {
            AcmeName::Host(host) => Some(host.as_str()),
            AcmeName::Address(_) => None,
        })
    }

    /// Returns all names with commas between them.
    pub(super) fn names_text(&self) -> String {
        let names: Vec<String> = self.names.iter().map(ToString::to_string).collect();
        names.join(", ")
    }

    /// Returns what is wrong with the settings together.
    pub fn fault(&self) -> Option<&'static str> {
        if self.names.is_empty() {
            return Some(
                "tls.acme.names is empty: write the names of this server, like media.example",
            );
        }
        if !self.directory.starts_with("https://") {
            return Some("tls.acme.directory must be the https:// URL of an ACME directory");
        }
        None
    }
}
