//! Kinds of candidates that a peer stated, without their addresses.

use std::net::IpAddr;

use crate::TransportAddress;
use crate::sdp::{Address, Candidate, Protocol};

/// Which kinds of candidates a peer stated in its description and later.
///
/// An ICE-lite agent sends nothing to them. They tell why a peer sends no checks: it has no
/// candidate, or none of a transport and a version of IP that this end has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatedCandidates {
    udp: Families,
    tcp: Families,
}

/// Whether there are candidates of each version of IP, and whether some have names (RFC 8839
/// §5.1), which may stand for either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Families {
    has_ipv4: bool,
    has_ipv6: bool,
    has_names: bool,
}

impl Families {
    fn add(&mut self, address: &Address) {
        match address {
            Address::Ip(ip) if ip.to_canonical().is_ipv4() => self.has_ipv4 = true,
            Address::Ip(_) => self.has_ipv6 = true,
            Address::Name(_) => self.has_names = true,
        }
    }

    fn reach(self, ip: IpAddr) -> bool {
        self.has_names
            || match ip.to_canonical() {
                IpAddr::V4(_) => self.has_ipv4,
                IpAddr::V6(_) => self.has_ipv6,
            }
    }

    fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl StatedCandidates {
    /// Notes a candidate. Those of other transports than UDP and TCP are ignored (RFC 8839 §5.1).
    pub fn add(&mut self, candidate: &Candidate) {
        match candidate.protocol {
            Protocol::Udp => self.udp.add(&candidate.address),
            Protocol::Tcp => self.tcp.add(&candidate.address),
            Protocol::Other(_) => {}
        }
    }

    /// Returns whether the peer stated no candidate of UDP or TCP.
    pub fn is_empty(&self) -> bool {
        self.udp.is_empty() && self.tcp.is_empty()
    }

    /// Returns whether the peer stated candidates of TCP, and none of UDP.
    pub fn is_tcp_alone(&self) -> bool {
        self.udp.is_empty() && !self.tcp.is_empty()
    }

    /// Returns whether a candidate of the peer has the transport and the version of IP of `address`.
    pub fn reach(&self, address: TransportAddress) -> bool {
        let families = match address.is_tcp() {
            true => self.tcp,
            false => self.udp,
        };
        families.reach(address.socket.ip())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stated(candidates: &[&str]) -> StatedCandidates {
        let mut stated = StatedCandidates::default();
        for candidate in candidates {
            let line = format!("a=candidate:{candidate}\r\n");
            let fragment = format!(
                "a=ice-ufrag:abcd\r\na=ice-pwd:0123456789abcdefghijkl\r\nm=audio 9 UDP/TLS/RTP/SAVPF 0\r\na=mid:0\r\n{line}"
            );
            let fragment = crate::sdp::Fragment::parse(&fragment).expect("a fragment");
            for (_, candidate) in fragment.candidates() {
                stated.add(candidate);
            }
        }
        stated
    }

    fn at(address: &str) -> TransportAddress {
        TransportAddress::udp(address.parse().expect("an address"))
    }

    #[test]
    fn candidates_reach_addresses_of_their_transport_and_version() {
        let nothing = stated(&[]);
        assert!(nothing.is_empty() && !nothing.is_tcp_alone() && !nothing.reach(at("192.0.2.1:1")));
        let v6 = stated(&["1 1 udp 1 2001:db8::1 5000 typ host"]);
        assert!(!v6.is_empty() && v6.reach(at("[2001:db8::2]:1")));
        assert!(!v6.reach(at("192.0.2.1:1")) && !v6.reach(at("[::ffff:192.0.2.1]:1")));
        let name = stated(&["1 1 udp 1 3f1b.local 5000 typ host"]);
        assert!(name.reach(at("192.0.2.1:1")) && name.reach(at("[2001:db8::2]:1")));
        let tcp = stated(&["1 1 tcp 1 192.0.2.7 9 typ host tcptype active"]);
        assert!(tcp.is_tcp_alone() && !tcp.reach(at("192.0.2.1:1")));
        assert!(tcp.reach(TransportAddress::tcp(at("192.0.2.1:1").socket)));
        assert!(stated(&["1 1 sctp 1 192.0.2.7 9 typ host"]).is_empty());
    }
}
