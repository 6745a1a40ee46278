//! Addresses together with the transport protocol that reaches them.

use std::fmt;
use std::net::SocketAddr;

/// A transport protocol that carries the datagrams of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// UDP: one datagram of the session is one of UDP.
    #[default]
    Udp,
    /// TCP (RFC 6544): datagrams are framed by their lengths (RFC 4571), see
    /// [`framing`](crate::framing).
    Tcp,
}

/// The address of one end of a path: IP address, port and transport protocol (RFC 8445 §4).
///
/// A port of UDP and the same port of TCP are two addresses: a peer that was proven to receive at
/// one of them has proven nothing about the other. A [`SocketAddr`] converts into the address of
/// UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransportAddress {
    /// IP address and port.
    pub socket: SocketAddr,
    /// The protocol that the port belongs to.
    pub transport: Transport,
}

impl TransportAddress {
    /// Returns the address `socket` of TCP.
    pub const fn tcp(socket: SocketAddr) -> Self {
        Self {
            socket,
            transport: Transport::Tcp,
        }
    }

    /// Returns the address `socket` of UDP.
    pub const fn udp(socket: SocketAddr) -> Self {
        Self {
            socket,
            transport: Transport::Udp,
        }
    }

    /// Returns whether the address is reached by TCP.
    pub const fn is_tcp(&self) -> bool {
        matches!(self.transport, Transport::Tcp)
    }
}

impl From<SocketAddr> for TransportAddress {
    fn from(socket: SocketAddr) -> Self {
        Self::udp(socket)
    }
}

impl Transport {
    /// Returns the name as in SDP: `udp` or `tcp`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

impl fmt::Display for TransportAddress {
    /// Writes the address with its port, and `/tcp` behind it for TCP.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket.fmt(f)?;
        if self.is_tcp() {
            f.write_str("/tcp")?;
        }
        Ok(())
    }
}
