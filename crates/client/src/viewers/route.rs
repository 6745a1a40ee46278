use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use glassline_net::BindError;

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
    if near.is_loopback()
        && let Ok(far) = towards_world(near.is_ipv4())
        && far != near
    {
        // A machine without a default route has only loopback.
        addresses.push(far);
    }
    Ok(addresses)
}

/// Our addresses to offer to a server whose page is at `page`, of both IP versions: those of
/// [`local_addresses`] first, then those of the other version, if this machine has a route there.
/// The media of a server may have addresses of another IP version than its page.
///
/// # Errors
/// If there is no route to `page`.
pub fn local_addresses_of_both_versions(page: SocketAddr) -> io::Result<Vec<IpAddr>> {
    let mut addresses = local_addresses(page)?;
    let is_ipv4 = page.ip().to_canonical().is_ipv4();
    let other = if page.ip().to_canonical().is_loopback() {
        let loopback: IpAddr = match is_ipv4 {
            true => Ipv6Addr::LOCALHOST.into(),
            false => Ipv4Addr::LOCALHOST.into(),
        };
        local_addresses(SocketAddr::new(loopback, 9))
    } else {
        towards_world(!is_ipv4).map(|ip| vec![ip])
    };
    // A machine may have one IP version only.
    addresses.extend(other.unwrap_or_default());
    Ok(addresses)
}

/// Binds one UDP socket that sends from all of `addresses`, on any port. A socket of IPv6 serves
/// IPv4, too.
///
/// # Errors
/// If the system refuses the socket.
pub fn bind_for(
    addresses: &[IpAddr],
    options: &glassline_net::Options,
) -> Result<glassline_net::UdpSocket, BindError> {
    let any: IpAddr = match addresses.iter().any(IpAddr::is_ipv6) {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    };
    glassline_net::UdpSocket::bind(SocketAddr::new(any, 0), options)
}

/// Our address on the default route of IPv4 or IPv6. It is found by a documentation address
/// (RFC 5737, RFC 3849), which belongs to nobody.
fn towards_world(is_ipv4: bool) -> io::Result<IpAddr> {
    let world: IpAddr = match is_ipv4 {
        true => Ipv4Addr::new(192, 0, 2, 1).into(),
        false => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    towards(SocketAddr::new(world, 9))
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

    #[test]
    fn a_socket_for_both_versions_reaches_both() {
        for page in ["127.0.0.1:8889", "[::1]:8889"] {
            let Ok(addresses) = local_addresses_of_both_versions(page.parse().expect("good"))
            else {
                assert!(page.starts_with('['), "IPv4 has loopback everywhere");
                continue;
            };
            assert!(addresses[0].is_loopback(), "{addresses:?}");
            let options = glassline_net::Options::default();
            let socket = bind_for(&addresses, &options).expect("a socket");
            for ip in addresses.iter().filter(|ip| ip.is_loopback()) {
                let peer = UdpSocket::bind(SocketAddr::new(*ip, 0)).expect("loopback");
                let to = peer.local_addr().expect("bound");
                socket.send(b"check", to).expect("sent");
                let mut buffer = [0; 8];
                let (length, from) = peer.recv_from(&mut buffer).expect("arrives");
                assert_eq!((length, from.ip()), (5, *ip));
            }
        }
    }
}
