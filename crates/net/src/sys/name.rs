//! Socket addresses in the kernel's representation.

use std::net::SocketAddr;

/// A socket address in the kernel's representation.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union Name {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Name {
    /// Returns the address and its length; IPv4 is mapped into IPv6 for an IPv6 socket.
    pub(crate) fn new(address: SocketAddr, ipv6_socket: bool) -> (Self, libc::socklen_t) {
        let (ip, scope) = match address {
            SocketAddr::V4(address) if !ipv6_socket => {
                let v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from(*address.ip()).to_be(),
                    },
                    sin_zero: [0; 8],
                };
                return (Self { v4 }, socklen::<libc::sockaddr_in>());
            }
            SocketAddr::V4(address) => (address.ip().to_ipv6_mapped(), 0),
            SocketAddr::V6(address) => (*address.ip(), address.scope_id()),
        };
        let v6 = libc::sockaddr_in6 {
            sin6_family: libc::AF_INET6 as libc::sa_family_t,
            sin6_port: address.port().to_be(),
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr {
                s6_addr: ip.octets(),
            },
            sin6_scope_id: scope,
        };
        (Self { v6 }, socklen::<libc::sockaddr_in6>())
    }
}

/// Returns the size of `T` as the kernel takes it.
pub(super) const fn socklen<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}
