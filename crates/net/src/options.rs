//! How a socket is opened.

use std::net::Ipv4Addr;

/// How a socket is opened. The default is an exclusive port, the system's
/// buffers and segmentation offload where it works.
#[derive(Clone, Debug)]
pub struct Options {
    /// Share the port with other sockets that also say so (`SO_REUSEPORT`): the
    /// kernel spreads peers over them by a hash of both addresses. Probe with
    /// [`port_is_free`](crate::port_is_free) first.
    pub reuse_port: bool,
    /// Bytes of receive buffer to ask for. The system may grant less (see
    /// `net.core.rmem_max`): [`UdpSocket::receive_buffer_bytes`](crate::UdpSocket::receive_buffer_bytes) tells.
    pub receive_buffer: Option<usize>,
    /// Bytes of send buffer to ask for. The system may grant less (see
    /// `net.core.wmem_max`): [`UdpSocket::send_buffer_bytes`](crate::UdpSocket::send_buffer_bytes) tells.
    pub send_buffer: Option<usize>,
    /// Use segmentation offload if it works; false to compare without.
    pub segmentation: bool,
    /// Let the kernel note when each datagram came (`SO_TIMESTAMPNS`), so that a
    /// socket that is looked at now and then still tells true times.
    pub receive_timestamps: bool,
    /// Let the kernel hand over datagrams of a burst as one (`UDP_GRO`), where it
    /// can: receive into [`ReceiveBatch::for_coalescing`](crate::ReceiveBatch::for_coalescing). On loopback this spares
    /// the *sender* the work of cutting them, so it has no place in a measurement.
    pub coalescing: bool,
    /// Let the kernel keep what routers and peers answer (`IP_RECVERR`): "port
    /// unreachable" and the like are read with [`UdpSocket::take_path_error`](crate::UdpSocket::take_path_error).
    /// Without it an unconnected socket never hears of them.
    pub path_errors: bool,
    /// How datagrams to multicast groups of IPv4 go; the system's way without it.
    pub multicast: Option<Multicast>,
}

/// How datagrams to groups leave a socket of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multicast {
    /// Routers that may pass them on, plus one: 1 keeps them in the local network.
    pub ttl: u8,
    /// The interface with this address sends them; without one the routes choose.
    pub interface: Option<Ipv4Addr>,
    /// Receivers on this machine get them, too.
    pub is_looped: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            reuse_port: false,
            receive_buffer: None,
            send_buffer: None,
            segmentation: true,
            receive_timestamps: false,
            coalescing: false,
            path_errors: false,
            multicast: None,
        }
    }
}
