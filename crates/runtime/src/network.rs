//! A range of IP addresses, like `10.0.0.0/8`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An address, or all addresses with the same first bits (RFC 4632 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

/// A text is not a [`Network`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is neither an IP address nor a network: write 192.0.2.7, or 10.0.0.0/8")]
pub struct NetworkError {
    /// Text that is no network.
    pub text: String,
}

impl Network {
    /// Returns whether the network has this address; an IPv4 address within IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let shift = 32 - self.bits;
                let first = |bits: u32| bits.checked_shr(shift).unwrap_or(0);
                first(network.to_bits()) == first(address.to_bits())
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let shift = 128 - self.bits;
                let first = |bits: u128| bits.checked_shr(shift).unwrap_or(0);
                first(network.to_bits()) == first(address.to_bits())
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let fault = || NetworkError {
            text: text.to_owned(),
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| fault())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) => bits.parse().map_err(|_| fault())?,
        };
        match bits <= most {
            true => Ok(Self { address, bits }),
            false => Err(fault()),
        }
    }
}

impl TryFrom<String> for Network {
    type Error = NetworkError;

    fn try_from(text: String) -> Result<Self, NetworkError> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = if self.address.is_ipv4() { 32 } else { 128 };
        match self.bits == most {
            true => self.address.fmt(f),
            false => write!(f, "{}/{}", self.address, self.bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_the_addresses_with_its_first_bits() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("192.0.2.7", "::ffff:192.0.2.7", "192.0.2.8"),
            ("0.0.0.0/0", "203.0.113.1", "::1"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
        ] {
            let parsed: Network = network.parse().expect(network);
            assert_eq!(parsed.to_string(), network);
            assert!(
                parsed.contains(inside.parse().expect("an address")),
                "{network}"
            );
            assert!(
                !parsed.contains(outside.parse().expect("an address")),
                "{network}"
            );
        }
        for bad in [
            "",
            "proxy.example",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/-1",
        ] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
