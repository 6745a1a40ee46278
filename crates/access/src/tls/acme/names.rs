//! The names that a public authority certifies: host names and IP addresses.

use std::net::IpAddr;
use std::str::FromStr;

use instant_acme::Identifier;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tls::lan::is_host_name;

/// A host name or an IP address for a certificate.
#[derive(
    Clone,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    derive_more::Display,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum AcmeName {
    /// A host name in lower case, like `media.example`.
    Host(String),
    /// An address (RFC 8738).
    Address(IpAddr),
}

/// A text is not an [`AcmeName`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcmeNameError {
    /// The text has a wildcard.
    #[error(
        "'{0}' is for every name below a domain, which needs challenges by DNS: write each name, \
         like media.example, or use another ACME client and name its files"
    )]
    Wildcard(String),
    /// The text is something else.
    #[error("'{0}' is neither a host name nor an IP address: write media.example or 203.0.113.7")]
    Unknown(String),
}

impl AcmeName {
    /// Returns the name as ACME has it.
    pub(super) fn identifier(&self) -> Identifier {
        match self {
            Self::Host(host) => Identifier::Dns(host.clone()),
            Self::Address(address) => Identifier::Ip(*address),
        }
    }

    /// Returns the name that the authority sends in a TLS handshake: for an address its name for
    /// reverse lookups (RFC 8738 §6).
    pub(super) fn server_name(&self) -> String {
        match self {
            Self::Host(host) => host.clone(),
            Self::Address(IpAddr::V4(address)) => {
                let [a, b, c, d] = address.octets();
                format!("{d}.{c}.{b}.{a}.in-addr.arpa")
            }
            Self::Address(IpAddr::V6(address)) => {
                let octets = address.octets();
                let digits = octets
                    .iter()
                    .rev()
                    .flat_map(|octet| [octet & 0xf, octet >> 4]);
                let digits: String = digits.map(|digit| format!("{digit:x}.")).collect();
                format!("{digits}ip6.arpa")
            }
        }
    }
}

impl FromStr for AcmeName {
    type Err = AcmeNameError;

    fn from_str(text: &str) -> Result<Self, AcmeNameError> {
        if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
        match text {
            text if text.starts_with("*.") => Err(AcmeNameError::Wildcard(text.to_owned())),
            // A name that ends in a number is an address that is not complete.
            text if is_host_name(text) && !text.rsplit('.').next().is_some_and(is_number) => {
                Ok(Self::Host(text.to_ascii_lowercase()))
            }
            text => Err(AcmeNameError::Unknown(text.to_owned())),
        }
    }
}

impl TryFrom<String> for AcmeName {
    type Error = AcmeNameError;

    fn try_from(text: String) -> Result<Self, AcmeNameError> {
        text.parse()
    }
}

impl From<AcmeName> for String {
    fn from(name: AcmeName) -> Self {
        name.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_told_apart() {
        for (text, expected) in [
            ("Media.Example", Ok("media.example")),
            ("203.0.113.7", Ok("203.0.113.7")),
            ("[2001:db8::1]", Ok("2001:db8::1")),
            ("::ffff:203.0.113.7", Ok("203.0.113.7")),
            ("*.example", Err("each name")),
            ("203.0.113", Err("neither")),
            ("https://media.example", Err("neither")),
            ("", Err("neither")),
        ] {
            let name = text.parse::<AcmeName>();
            match expected {
                Ok(expected) => assert_eq!(name.expect(text).to_string(), expected),
                Err(part) => {
                    let error = name.expect_err(text).to_string();
                    assert!(error.contains(part), "{error}");
                }
            }
        }
    }

    #[test]
    fn addresses_have_their_reverse_names_in_handshakes() {
        let name = |text: &str| text.parse::<AcmeName>().expect(text).server_name();
        assert_eq!(name("media.example"), "media.example");
        // RFC 8738 §6 has the first one.
        assert_eq!(name("192.0.2.1"), "1.2.0.192.in-addr.arpa");
        let expected = format!("1.{}8.b.d.0.1.0.0.2.ip6.arpa", "0.".repeat(23));
        assert_eq!(name("2001:db8::1"), expected);
    }
}
