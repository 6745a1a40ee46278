use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Our addresses to offer to a server at `server`, the best first: the one that routes there,
/// and for a server on loopback also the one of the default route, because many servers leave
/// loopback out of their candidates.
///
/// Connecting a UDP socket consults the routing table and sends nothing.
///
/// # Errors
/// If there is no route to `server`.
pub fn local_addresses(server: SocketAddr) -> io::Result<Vec<IpAddr>> {
    let near = towards(server)?;
    let mut addresses = vec![near];
    if near.is_loopback() {
        // Documentation addresses (RFC 5737, RFC 3849): nobody's, so the
        // default route. A machine without one has only loopback.
        let world: IpAddr = match near {
            IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
            IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        };
        if let Ok(far) = towards(SocketAddr::new(world, 9))
            && far != near
        {
            addresses.push(far);
        }
    }
    Ok(addresses)
}

fn towards(peer: SocketAddr) -> io::Result<IpAddr> {
    let socket = UdpSocket::bind(wildcard(peer))?;
    socket.connect(peer)?;
    Ok(socket.local_addr()?.ip())
}

/// Address to bind to for a peer of this address family, on any port.
pub fn wildcard(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_reached_from_loopback_first() {
        let server = SocketAddr::from(([127, 0, 0, 1], 8889));
        let addresses = local_addresses(server).expect("loopback");
        assert_eq!(addresses[0], IpAddr::from(Ipv4Addr::LOCALHOST));
        assert!(addresses.len() <= 2);
        assert!(addresses.iter().all(|ip| !ip.is_unspecified()));
    }
}
