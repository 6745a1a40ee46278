use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A range of UDP ports for cameras, written `20000-20099`. Each track takes an even port for RTP and the
/// next one for RTCP, so a range has at least one such pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{first}-{last}")]
pub struct UdpPorts {
    /// First port of the range.
    first: u16,
    /// Last port of the range.
    last: u16,
}

impl UdpPorts {
    /// The ranges that can be parsed, in words.
    pub const WANTED: &str = "FIRST-LAST, like 20000-20099, with an even port and the next one";

    /// Returns the pairs of ports, in order.
    pub fn pairs(self) -> impl Iterator<Item = (u16, u16)> {
        let even = (self.first..self.last).filter(|port| port.is_multiple_of(2));
        even.map(|port| (port, port + 1))
    }
}

/// A text that is no range of [`UdpPorts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give {}", UdpPorts::WANTED)]
pub struct UdpPortsError;

impl FromStr for UdpPorts {
    type Err = UdpPortsError;

    fn from_str(text: &str) -> Result<Self, UdpPortsError> {
        let port = |text: &str| text.trim().parse().ok().filter(|port| *port > 0);
        let ports = text.split_once('-');
        let ports = ports.and_then(|(first, last)| Some((port(first)?, port(last)?)));
        let (first, last) = ports.ok_or(UdpPortsError)?;
        let ports = Self { first, last };
        ports.pairs().next().map(|_| ports).ok_or(UdpPortsError)
    }
}

impl Serialize for UdpPorts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UdpPorts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let ports = text.parse();
        ports.map_err(|error| {
            D::Error::custom(format_args!("`{text}` is no range of ports; {error}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_pairs_of_an_even_port_and_the_next_one() {
        let pairs = |text: &str| {
            let ports: UdpPorts = text.parse().ok()?;
            assert_eq!(ports.to_string(), text);
            Some(ports.pairs().collect::<Vec<_>>())
        };
        assert_eq!(pairs("20000-20001"), Some(vec![(20_000, 20_001)]));
        let odd = Some(vec![(20_000, 20_001), (20_002, 20_003)]);
        assert_eq!(pairs("19999-20004"), odd);
        assert_eq!(pairs("65534-65535"), Some(vec![(65_534, 65_535)]));
        for wrong in [
            "",
            "20000",
            "20001-20002",
            "20002-20001",
            "0-9",
            "1-65536",
            "a-b",
            "-",
        ] {
            assert_eq!(pairs(wrong), None, "{wrong}");
        }
    }
}
