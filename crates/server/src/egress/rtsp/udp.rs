//! A pair of UDP ports for RTP and RTCP: one for all clients of a thread.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use glassline_net::{Multicast, Options, ReceiveBatch, Transmit, UdpSocket};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use super::transport::UdpAddresses;

/// Send buffer to ask for: what waits in it is beyond our budgets.
const SEND_BUFFER_BYTES: usize = 2 << 20;

/// Receive buffer to ask for: reports of a few thousand clients at once.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;

/// Attempts at a pair of ports that the system chooses.
const ATTEMPTS: usize = 64;

/// Two sockets, the one of media at an even port and the one of reports above it.
#[derive(Debug)]
pub(crate) struct UdpPair {
    pub(super) media: UdpSocket,
    pub(super) control: UdpSocket,
}

/// A datagram that came to one of the two ports.
#[derive(Debug)]
pub(crate) struct Arrived<'a> {
    pub(crate) source: SocketAddr,
    /// It came to the port for RTCP.
    pub(crate) is_control: bool,
    pub(crate) bytes: &'a [u8],
}

impl UdpPair {
    /// Opens an even port and the one above it (RFC 3550 §11): `first` and the next,
    /// or any if it is 0.
    pub(crate) fn bind(ip: IpAddr, first: u16, multicast: Option<Multicast>) -> io::Result<Self> {
        let options = Options {
            send_buffer: Some(SEND_BUFFER_BYTES),
            receive_buffer: Some(RECEIVE_BUFFER_BYTES),
            multicast,
            ..Options::default()
        };
        let open = |port| {
            UdpSocket::bind(SocketAddr::new(ip, port), &options)
                .map_err(|error| io::Error::other(error.to_string()))
        };
        let mut attempts = if first == 0 { ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            let media = open(first)?;
            let port = media.local_addr().port();
            let pair = if port.is_multiple_of(2) {
                open(port + 1).map(|control| (media, control))
            } else {
                open(port - 1).map(|lower| (lower, media))
            };
            match pair {
                Ok((media, control)) => {
                    return Ok(Self { media, control });
                }
                Err(error) if attempts == 0 => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Waits for both sockets, as the events `media` and `control`.
    pub(crate) fn register(
        &self,
        registry: &Registry,
        media: Token,
        control: Token,
    ) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut SourceFd(&self.media.as_raw_fd()), media, interest)?;
        let control_fd = self.control.as_raw_fd();
        registry.register(&mut SourceFd(&control_fd), control, Interest::READABLE)
    }

    /// The numbers of both ports.
    pub(crate) fn ports(&self) -> (u16, u16) {
        let port = |socket: &UdpSocket| socket.local_addr().port();
        (port(&self.media), port(&self.control))
    }

    /// Drains both sockets; `take` gets every datagram.
    pub(crate) fn receive(&self, batch: &mut ReceiveBatch, mut take: impl FnMut(Arrived<'_>)) {
        for (socket, is_control) in [(&self.control, true), (&self.media, false)] {
            // An error is an ICMP answer to an earlier datagram.
            while let Ok(count @ 1..) = socket.receive_batch(batch) {
                for datagram in batch.iter_mut() {
                    take(Arrived {
                        source: datagram.source,
                        is_control,
                        bytes: datagram.bytes,
                    });
                }
                if count < batch.capacity() {
                    break;
                }
            }
        }
    }

    /// Sends one report, if the kernel takes it now.
    pub(crate) fn send_report(&self, packet: &[u8], to: UdpAddresses, from: Option<IpAddr>) {
        let transmit = Transmit::new(packet, to.control).from(from);
        // The next one is two seconds away.
        let _ = self.control.send_batch(&[transmit]);
    }
}
