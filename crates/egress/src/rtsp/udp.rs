//! A pair of UDP sockets for RTP and RTCP: one for all clients of a thread.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use glassline_net::{Multicast, Options, PathErrorKind, ReceiveBatch, Transmit, UdpSocket};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use super::transport::UdpAddresses;

/// Send buffer to request from the system. Data in it is beyond the limits of the server's own.
const SEND_BUFFER_BYTES: usize = 2 << 20;

/// Receive buffer to request from the system: reports of a few thousand clients at once.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;

/// Batches of datagrams that are read from each socket before media is served again.
const BATCHES_PER_TURN: usize = 8;

/// Most attempts to get a pair of adjacent ports from the system.
const ATTEMPTS: usize = 64;

/// Two sockets: media on an even port, and reports on the port above it.
#[derive(Debug)]
pub struct UdpPair {
    pub(super) media: UdpSocket,
    pub(super) control: UdpSocket,
}

/// A datagram that arrived at one of the two ports.
#[derive(Debug)]
pub struct Arrived<'a> {
    /// Sender of the datagram.
    pub source: SocketAddr,
    /// Whether the datagram arrived at the port for RTCP.
    pub is_control: bool,
    /// Content of the datagram.
    pub bytes: &'a [u8],
}

impl UdpPair {
    /// Opens an even port and the one above it (RFC 3550 §11): `first` and the next, or any pair if
    /// `first` is 0.
    pub fn bind(ip: IpAddr, first: u16, multicast: Option<Multicast>) -> io::Result<Self> {
        let options = Options {
            send_buffer: Some(SEND_BUFFER_BYTES),
            receive_buffer: Some(RECEIVE_BUFFER_BYTES),
            multicast,
            // Groups have no port that could be closed.
            path_errors: multicast.is_none(),
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

    /// Registers both sockets with a poll, as the events `media` and `control`.
    pub fn register(&self, registry: &Registry, media: Token, control: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut SourceFd(&self.media.as_raw_fd()), media, interest)?;
        let control_fd = self.control.as_raw_fd();
        registry.register(&mut SourceFd(&control_fd), control, Interest::READABLE)
    }

    /// Returns the numbers of both ports.
    pub fn ports(&self) -> (u16, u16) {
        let port = |socket: &UdpSocket| socket.local_addr().port();
        (port(&self.media), port(&self.control))
    }

    /// Reads the waiting datagrams of both sockets, up to a limit that leaves time for media, and
    /// hands each to `take`. Returns whether more may wait: an edge-triggered poll does not report
    /// them again.
    #[must_use]
    pub fn receive(&self, batch: &mut ReceiveBatch, mut take: impl FnMut(Arrived<'_>)) -> bool {
        let mut is_rest = false;
        for (socket, is_control) in [(&self.control, true), (&self.media, false)] {
            for batches in 1.. {
                // An error is an ICMP answer to an earlier datagram. The poll does not report again
                // the datagrams that wait behind it.
                let received = socket.receive_batch(batch);
                let is_last = received.is_ok_and(|count| count < batch.capacity());
                for datagram in batch.iter_mut() {
                    take(Arrived {
                        source: datagram.source,
                        is_control,
                        bytes: datagram.bytes,
                    });
                }
                if is_last {
                    break;
                }
                if batches == BATCHES_PER_TURN {
                    is_rest = true;
                    break;
                }
            }
        }
        is_rest
    }

    /// Hands to `take` the addresses whose ports the network says are closed, once for each datagram
    /// that it says so of.
    pub fn take_refused(&self, mut take: impl FnMut(SocketAddr)) {
        for socket in [&self.control, &self.media] {
            while let Some(error) = socket.take_path_error() {
                if error.kind == PathErrorKind::Refused {
                    take(error.destination);
                }
            }
        }
    }

    /// Sends one report, if the kernel takes it now.
    pub fn send_report(&self, packet: &[u8], to: UdpAddresses, from: Option<IpAddr>) {
        let transmit = Transmit::new(packet, to.control).from(from);
        // A lost report does not matter: the next follows two seconds later.
        let _ = self.control.send_batch(&[transmit]);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_pair_is_refused_if_its_second_port_is_taken() {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let taken = loop {
            let socket = std::net::UdpSocket::bind((local, 0)).expect("a port");
            let port = socket.local_addr().expect("bound").port();
            if !port.is_multiple_of(2) {
                break socket;
            }
        };
        let port = taken.local_addr().expect("bound").port();
        assert!(UdpPair::bind(local, port - 1, None).is_err());
        let pair = UdpPair::bind(local, 0, None).expect("two ports");
        let (media, control) = pair.ports();
        assert!(media.is_multiple_of(2));
        assert_eq!(control, media + 1);
    }

    #[test]
    fn a_flood_leaves_time_for_media() {
        let pair = UdpPair::bind(Ipv4Addr::LOCALHOST.into(), 0, None).expect("two ports");
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let (_, control) = pair.ports();
        let mut batch = ReceiveBatch::new(2);
        let limit = BATCHES_PER_TURN * batch.capacity();
        for _ in 0..limit + 3 {
            sender
                .send_to(b"x", ("127.0.0.1", control))
                .expect("loopback takes it");
        }
        let until = Instant::now() + Duration::from_secs(10);
        let mut turns = Vec::new();
        while turns.iter().sum::<usize>() < limit + 3 && Instant::now() < until {
            let mut count = 0;
            let is_rest = pair.receive(&mut batch, |arrived| {
                assert!(arrived.is_control);
                count += 1;
            });
            assert_eq!(is_rest, count == limit);
            turns.push(count);
        }
        assert_eq!(turns.iter().sum::<usize>(), limit + 3, "nothing is lost");
        assert!(turns.iter().all(|count| *count <= limit), "{turns:?}");
    }
}
