//! The network that a stranger's address belongs to, which limits are counted by.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 address, or the first 64 bits of an IPv6 address.
///
/// A host with IPv6 usually has a whole /64 to choose addresses from (RFC 4291 §2.5.1, RFC 6177
/// §2), so limits for each IPv6 address would limit nobody. An IPv4 address that is written as IPv6
/// (`::ffff:192.0.2.1`, RFC 4291 §2.5.5.2) is the IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourcePrefix {
    /// A single IPv4 address.
    V4(Ipv4Addr),
    /// The network of an IPv6 address: its first four segments of 16 bits.
    V6([u16; 4]),
}

impl SourcePrefix {
    /// Returns the network in eight bytes, which differ for different networks.
    pub fn octets(self) -> [u8; 8] {
        let [a, b, c, d] = match self {
            // No global IPv6 address begins with `::/16` (RFC 4291 §2.5).
            Self::V4(address) => {
                let [a, b, c, d] = address.octets();
                [0, 1, u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
            }
            Self::V6(segments) => segments,
        };
        let mut octets = [0; 8];
        for (pair, segment) in octets.chunks_exact_mut(2).zip([a, b, c, d]) {
            pair.copy_from_slice(&segment.to_be_bytes());
        }
        octets
    }
}

impl SourcePrefix {
    /// Returns the network of a site, as far as addresses tell: the /24 of an IPv4 address, the /48 of
    /// an IPv6 address (RFC 6177 §2). Somebody who has one such network may send from all of it.
    pub fn site(self) -> Self {
        match self {
            Self::V4(address) => {
                let [a, b, c, _] = address.octets();
                Self::V4(Ipv4Addr::new(a, b, c, 0))
            }
            Self::V6([a, b, c, _]) => Self::V6([a, b, c, 0]),
        }
    }
}

impl From<IpAddr> for SourcePrefix {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

impl std::fmt::Display for SourcePrefix {
    /// Writes `192.0.2.1` or `2001:db8:1:2::/64`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::V4(address) => address.fmt(f),
            Self::V6([a, b, c, d]) => {
                let network = Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0);
                write!(f, "{network}/64")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> SourcePrefix {
        let address: IpAddr = text.parse().expect("an address");
        SourcePrefix::from(address)
    }

    #[test]
    fn an_ipv6_host_counts_as_its_network() {
        assert_eq!(prefix("2001:db8:1:2::1"), prefix("2001:db8:1:2:ffff::9"));
        assert_ne!(prefix("2001:db8:1:2::1"), prefix("2001:db8:1:3::1"));
        assert_ne!(prefix("192.0.2.1"), prefix("192.0.2.2"));
        assert_eq!(prefix("::ffff:192.0.2.1"), prefix("192.0.2.1"));
    }

    #[test]
    fn a_site_has_many_networks() {
        assert_eq!(
            prefix("2001:db8:1:2::1").site(),
            prefix("2001:db8:1:ff::1").site()
        );
        assert_ne!(
            prefix("2001:db8:1:2::1").site(),
            prefix("2001:db8:2:2::1").site()
        );
        assert_eq!(prefix("192.0.2.1").site(), prefix("192.0.2.200").site());
        assert_ne!(prefix("192.0.2.1").site(), prefix("192.0.3.1").site());
    }

    #[test]
    fn the_text_names_the_network() {
        assert_eq!(prefix("192.0.2.1").to_string(), "192.0.2.1");
        let text = prefix("2001:db8:1:2:3::4").to_string();
        assert_eq!(text, "2001:db8:1:2::/64");
    }
}
