//! An entry of `media.advertise`.

use std::fmt;
use std::net::IpAddr;

use glassline_access::auth::HostName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Port of STUN servers that name none (RFC 8489 §18.6).
const STUN_PORT: u16 = 3478;

/// An address that clients are told to send media to, or a way to learn it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum AdvertisedAddress {
    /// The address itself.
    Ip(IpAddr),
    /// A name whose addresses are meant.
    Host(HostName),
    /// A STUN server (RFC 8489) that tells from which address it sees this machine.
    Stun {
        /// Name or IP address of the STUN server.
        host: String,
        /// Its UDP port.
        port: u16,
    },
}

/// A text is not an [`AdvertisedAddress`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdvertisedAddressError {
    /// Nothing can be sent to the address.
    #[error("clients cannot send to {0}: name an address that reaches this machine")]
    NoDestination(IpAddr),
    /// The text is of no known form.
    #[error(
        "'{0}' is no address: write an IP address like 203.0.113.9, a host name like \
         media.example.com, or a STUN server like stun:stun.example.com:3478"
    )]
    Unknown(String),
}

impl TryFrom<String> for AdvertisedAddress {
    type Error = AdvertisedAddressError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let unknown = || AdvertisedAddressError::Unknown(text.clone());
        if let Some(server) = text.strip_prefix("stun:") {
            return stun(server).ok_or_else(unknown);
        }
        match text.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(ip) if ip.is_unspecified() || ip.is_multicast() => {
                Err(AdvertisedAddressError::NoDestination(ip))
            }
            Ok(ip) => Ok(Self::Ip(ip.to_canonical())),
            Err(_) => name(&text).map(Self::Host).ok_or_else(unknown),
        }
    }
}

/// Returns a host name. A last label of digits alone is that of a mistyped IP address.
fn name(text: &str) -> Option<HostName> {
    let last = text.rsplit('.').next().unwrap_or_default();
    let is_numeric = last.bytes().all(|byte| byte.is_ascii_digit());
    let host = HostName::try_from(text.to_owned()).ok()?;
    (!is_numeric).then_some(host)
}

/// Parses `HOST[:PORT]` of a STUN server; an IPv6 address stands in brackets.
fn stun(server: &str) -> Option<AdvertisedAddress> {
    let (host, port) = match server.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            let _: std::net::Ipv6Addr = host.parse().ok()?;
            (host, rest)
        }
        None => {
            let end = server.find(':').unwrap_or(server.len());
            let (host, rest) = server.split_at(end);
            let is_ip = host.parse::<std::net::Ipv4Addr>().is_ok();
            if !is_ip {
                name(host)?;
            }
            (host, rest)
        }
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port != 0)?,
        None if port.is_empty() => STUN_PORT,
        None => return None,
    };
    let host = host.to_owned();
    Some(AdvertisedAddress::Stun { host, port })
}

impl fmt::Display for AdvertisedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => write!(f, "{ip}"),
            Self::Host(host) => f.write_str(host.as_str()),
            Self::Stun { host, port } if host.contains(':') => write!(f, "stun:[{host}]:{port}"),
            Self::Stun { host, port } => write!(f, "stun:{host}:{port}"),
        }
    }
}

impl From<AdvertisedAddress> for String {
    fn from(address: AdvertisedAddress) -> Self {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AdvertisedAddress, AdvertisedAddressError> {
        AdvertisedAddress::try_from(text.to_owned())
    }

    #[test]
    fn addresses_names_and_stun_servers_are_read_and_written() {
        for (text, written) in [
            ("203.0.113.9", "203.0.113.9"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("media.example.com", "media.example.com"),
            ("nas", "nas"),
            ("stun:stun.example.com", "stun:stun.example.com:3478"),
            ("stun:stun.example.com:19302", "stun:stun.example.com:19302"),
            ("stun:198.51.100.7", "stun:198.51.100.7:3478"),
            ("stun:[2001:db8::7]", "stun:[2001:db8::7]:3478"),
            ("stun:[2001:db8::7]:3479", "stun:[2001:db8::7]:3479"),
        ] {
            let address = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(address.to_string(), written, "{text}");
            assert_eq!(read(written), Ok(address), "{text}");
        }
    }

    #[test]
    fn what_clients_cannot_send_to_is_refused_with_an_example() {
        for text in [
            "",
            "203.0.113",
            "203.0.113.999",
            "203.0.113.9:8189",
            "https://media.example.com",
            "media example",
            "stun:",
            "stun::3478",
            "stun:stun.example.com:0",
            "stun:stun.example.com:",
            "stun:stun.example.com:70000",
            "stun:203.0.113.999",
            "stun:2001:db8::7",
            "stun:[stun.example.com]",
            "stun:[2001:db8::7]3478",
            "turn:turn.example.com",
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains("like 203.0.113.9"), "{text}: {error}");
        }
        for text in ["0.0.0.0", "::", "239.1.2.3", "ff02::1"] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains("clients cannot send to"), "{text}: {error}");
        }
    }
}
