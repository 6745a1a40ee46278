//! The way of a viewer's datagrams: a UDP socket, or a TCP connection.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::Instant;

use glassline_net::{ReceiveBatch, UdpSocket};
use glassline_webrtc::TransportAddress;

use super::connection::Connection;
use crate::viewers::capture::Clock;

/// The way of a viewer's datagrams.
pub(in crate::viewers) enum MediaSocket {
    /// UDP to any address of the server.
    Udp {
        /// Socket that is bound to all addresses.
        socket: UdpSocket,
        /// Our addresses on the socket, which were offered as candidates; at least one.
        local: Vec<SocketAddr>,
    },
    /// A connection to one address of the server (RFC 6544).
    Tcp(Box<Connection>),
}

/// A datagram of the server, or several of the same length that the kernel has merged.
pub(super) struct Arrival<'a> {
    pub(super) bytes: &'a mut [u8],
    /// Length of each datagram but the last.
    pub(super) segment: usize,
    pub(super) source: TransportAddress,
    pub(super) destination: TransportAddress,
    pub(super) arrived: Instant,
    /// The present time.
    pub(super) now: Instant,
    pub(super) is_truncated: bool,
}

impl MediaSocket {
    /// Descriptor to wait for.
    pub(super) fn descriptor(&self) -> RawFd {
        match self {
            Self::Udp { socket, .. } => socket.as_raw_fd(),
            Self::Tcp(connection) => connection.descriptor(),
        }
    }

    /// Reads once, and calls `on_arrival` for what is there, in order. Returns whether more may wait.
    ///
    /// # Errors
    /// The socket is of no more use.
    pub(super) fn receive(
        &mut self,
        batch: &mut ReceiveBatch,
        stream: &mut [u8],
        mut on_arrival: impl FnMut(Arrival<'_>),
    ) -> std::io::Result<bool> {
        match self {
            Self::Udp { socket, local } => {
                if socket.receive_batch(batch)? == 0 {
                    return Ok(false);
                }
                let port = socket.local_addr().port();
                let at = |ip: Option<IpAddr>| ip.map_or(local[0], |ip| SocketAddr::new(ip, port));
                let clock = Clock::read();
                for datagram in batch.iter_mut() {
                    on_arrival(Arrival {
                        segment: match datagram.segment {
                            Some(size) => usize::from(size),
                            None => datagram.bytes.len().max(1),
                        },
                        source: datagram.source.into(),
                        destination: at(datagram.destination).into(),
                        arrived: clock.instant(datagram.arrived),
                        now: clock.now,
                        is_truncated: datagram.truncated,
                        bytes: datagram.bytes,
                    });
                }
                // If the batch is not full, the socket is empty.
                Ok(batch.len() == batch.capacity())
            }
            Self::Tcp(connection) => {
                let source = TransportAddress::tcp(connection.server());
                let destination = TransportAddress::tcp(connection.local());
                // The kernel does not stamp streams.
                let now = Instant::now();
                connection.receive(stream, |bytes| {
                    on_arrival(Arrival {
                        segment: bytes.len().max(1),
                        source,
                        destination,
                        arrived: now,
                        now,
                        is_truncated: false,
                        bytes,
                    });
                })
            }
        }
    }

    /// Sends a datagram to `destination`. Returns whether the datagram left, or will.
    pub(super) fn send(&mut self, bytes: &[u8], destination: TransportAddress) -> bool {
        match self {
            Self::Udp { socket, .. } => match socket.send(bytes, destination.socket) {
                Ok(_) => true,
                Err(error) => {
                    // Checks go to every candidate, the unreachable ones too.
                    tracing::trace!(%error, %destination, "datagram not sent");
                    false
                }
            },
            Self::Tcp(connection) => {
                destination == TransportAddress::tcp(connection.server()) && connection.send(bytes)
            }
        }
    }
}
