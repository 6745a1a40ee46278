//! The options with which sockets are opened.

use std::net::Ipv4Addr;

/// Options with which a UDP socket is opened. The default is an exclusive port, the
/// system's buffers, and segmentation offload where it works.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to share the port with other sockets that also set this (`SO_REUSEPORT`):
    /// the kernel distributes peers over them by a hash of both addresses. Check with
    /// [`port_is_free`](crate::port_is_free) first.
    pub reuse_port: bool,
    /// Size of the receive buffer to request, in bytes. The system may grant less (see
    /// `net.core.rmem_max`);
    /// [`UdpSocket::receive_buffer_bytes`](crate::UdpSocket::receive_buffer_bytes) returns
    /// the size.
    pub receive_buffer: Option<usize>,
    /// Size of the send buffer to request, in bytes. The system may grant less (see
    /// `net.core.wmem_max`);
    /// [`UdpSocket::send_buffer_bytes`](crate::UdpSocket::send_buffer_bytes) returns the
    /// size.
    pub send_buffer: Option<usize>,
    /// Whether to use segmentation offload if it works; false to compare without it.
    pub segmentation: bool,
    /// Whether the kernel records when each datagram came (`SO_TIMESTAMPNS`), so that a
    /// socket that is read from time to time still has accurate times.
    pub receive_timestamps: bool,
    /// Whether the kernel may return the datagrams of a burst as one (`UDP_GRO`), where it
    /// can; to be received into
    /// [`ReceiveBatch::for_coalescing`](crate::ReceiveBatch::for_coalescing). On loopback
    /// this spares the *sender* the work of splitting them, so it must not be used in a
    /// measurement.
    pub coalescing: bool,
    /// Whether the kernel keeps error answers of routers and peers (`IP_RECVERR`): "port
    /// unreachable" and the like are read with
    /// [`UdpSocket::take_path_error`](crate::UdpSocket::take_path_error). Without it an
    /// unconnected socket never sees them.
    pub path_errors: bool,
    /// Whether only programs of this machine reach the socket, at each of the machine's addresses:
    /// the kernel drops datagrams that came by another interface than loopback. For a socket that is
    /// bound to the unspecified address; Linux only.
    pub this_machine_only: bool,
    /// How datagrams to IPv4 multicast groups are sent; without it, by the system's
    /// defaults.
    pub multicast: Option<Multicast>,
}

/// How datagrams to multicast groups leave an IPv4 socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multicast {
    /// Time to live: 1 keeps datagrams in the local network, and each further unit lets one
    /// more router forward them.
    pub ttl: u8,
    /// Address of the interface that sends them; without it the routes choose.
    pub interface: Option<Ipv4Addr>,
    /// Whether receivers on this machine get them, too.
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
            this_machine_only: false,
            multicast: None,
        }
    }
}
