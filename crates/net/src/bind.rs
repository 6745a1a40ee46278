use std::io;
use std::net::SocketAddr;

/// The reason why a UDP socket could not be opened; every text names the address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Another socket holds the port.
    #[error(
        "UDP port {port} on {address} is in use; stop the program that holds it \
         (`ss -lunp 'sport = :{port}'` names it) or choose another port",
        port = .0.port(), address = .0.ip()
    )]
    InUse(SocketAddr),
    /// No interface of this machine has the address.
    #[error("no interface of this machine has the address {ip}; choose one that `ip addr` lists", ip = .0.ip())]
    NotAvailable(SocketAddr),
    /// The process lacks the privilege that ports below 1024 need.
    #[error(
        "not allowed to open UDP {0}; choose a port of 1024 or above or grant CAP_NET_BIND_SERVICE"
    )]
    NotPermitted(SocketAddr),
    /// Any other error of the system.
    #[error("cannot open UDP {address}: {source}")]
    System {
        /// The address that was requested.
        address: SocketAddr,
        /// The error that the system returned.
        source: io::Error,
    },
}

impl BindError {
    /// Classifies the system's error.
    pub(crate) fn new(address: SocketAddr, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::InUse(address),
            io::ErrorKind::AddrNotAvailable => Self::NotAvailable(address),
            io::ErrorKind::PermissionDenied => Self::NotPermitted(address),
            _ => Self::System { address, source },
        }
    }
}

/// The system's error, for callers that name the address themselves.
impl From<BindError> for io::Error {
    fn from(error: BindError) -> Self {
        match error {
            BindError::InUse(_) => io::ErrorKind::AddrInUse.into(),
            BindError::NotAvailable(_) => io::ErrorKind::AddrNotAvailable.into(),
            BindError::NotPermitted(_) => io::ErrorKind::PermissionDenied.into(),
            BindError::System { source, .. } => source,
        }
    }
}

/// Checks that no socket holds UDP `address`, by binding the address exclusively and
/// releasing it at once.
///
/// Sockets that share a port (`reuse_port`) join any other process of the same user that
/// also shares it, and the kernel then distributes the viewers over both; so call this
/// before opening the first of them. Port 0 is always free.
pub fn port_is_free(address: SocketAddr) -> Result<(), BindError> {
    let exclusive = crate::Options::default();
    crate::sys::bind(address, &exclusive)
        .map(drop)
        .map_err(|error| BindError::new(address, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, UdpSocket};

    #[test]
    fn a_held_port_is_found_even_if_its_holder_shares_it() {
        let shared = Options {
            reuse_port: true,
            ..Options::default()
        };
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let first = UdpSocket::bind(any, &shared).expect("loopback has a free port");
        let address = first.local_addr();
        let second = UdpSocket::bind(address, &shared).expect("shared ports are joined");
        let error = port_is_free(address).expect_err("two sockets hold it");
        assert!(matches!(error, BindError::InUse(at) if at == address));
        assert!(error.to_string().contains(&address.port().to_string()));
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::AddrInUse);

        let wildcard = SocketAddr::from(([0, 0, 0, 0], address.port()));
        assert!(port_is_free(wildcard).is_err());
        drop((first, second));
        port_is_free(address).expect("both are gone");
    }

    #[test]
    fn a_foreign_address_is_named() {
        let address = SocketAddr::from(([192, 0, 2, 1], 0));
        let error = port_is_free(address).expect_err("TEST-NET-1 is nobody's");
        assert!(matches!(error, BindError::NotAvailable(_)), "{error}");
        assert!(error.to_string().contains("192.0.2.1"));
    }
}
