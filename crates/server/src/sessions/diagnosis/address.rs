//! Kinds of IP addresses, by who can reach them.

use std::net::{IpAddr, Ipv4Addr};

use super::Surroundings;

/// The part of the network from which an address can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Programs of this machine alone.
    Machine,
    /// The machine that a container runs on.
    Host,
    /// The local network (RFC 1918, RFC 4193, RFC 6598, link-local addresses).
    LocalNetwork,
    /// Every machine on the Internet.
    Internet,
}

impl Reach {
    /// Returns the reach of an address of the server.
    pub(super) fn of_server(ip: IpAddr, surroundings: Surroundings) -> Self {
        let ip = ip.to_canonical();
        let reach = Self::of(ip);
        let may_be_container = surroundings.is_contained || is_docker_guest(ip);
        match reach {
            Self::LocalNetwork if may_be_container && !surroundings.is_advertised => Self::Host,
            _ => reach,
        }
    }

    /// Returns the reach of an address whose machine is not known.
    pub(super) fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            ip if ip.is_loopback() || ip.is_unspecified() => Self::Machine,
            IpAddr::V4(ip) if is_local(ip) => Self::LocalNetwork,
            IpAddr::V6(ip) if ip.is_unique_local() || ip.is_unicast_link_local() => {
                Self::LocalNetwork
            }
            _ => Self::Internet,
        }
    }
}

fn is_local(ip: Ipv4Addr) -> bool {
    let [a, b, ..] = ip.octets();
    // RFC 6598: addresses between carriers and their customers.
    let is_shared = a == 100 && (64..128).contains(&b);
    ip.is_private() || ip.is_link_local() || is_shared
}

/// Returns whether Docker gives the address to containers by default. The first one is the host's.
fn is_docker_guest(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(ip) if ip.octets()[..2] == [172, 17] && ip.octets()[2..] != [0, 1])
}
