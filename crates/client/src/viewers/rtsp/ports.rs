use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;

use glassline_net::{Options, ReceiveBatch, UdpSocket};

use crate::viewers::capture::Clock;

/// Two UDP ports of ours for one track: an even one for RTP and the next for RTCP (RFC 3550
/// §11), which some servers require.
#[derive(Debug)]
pub(crate) struct Ports {
    rtp: UdpSocket,
    rtcp: UdpSocket,
    /// Address that packets are accepted from.
    source: IpAddr,
    /// The server's RTP and RTCP ports, once they are known.
    server: Option<(SocketAddr, SocketAddr)>,
}

/// Attempts to find a pair. The kernel chooses ports at random; half of them are even, and
/// few have a neighbor in use.
const ATTEMPTS: usize = 64;

impl Ports {
    /// Binds a pair at `local`, for a server at `server`.
    pub(crate) fn bind(local: IpAddr, server: IpAddr, options: &Options) -> io::Result<Self> {
        let bind = |port| UdpSocket::bind(SocketAddr::new(local, port), options);
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            let first = bind(0).map_err(io::Error::other)?;
            let port = first.local_addr().port();
            // The neighbor below an odd port makes a pair as well.
            match bind(port ^ 1) {
                Ok(second) => {
                    let (rtp, rtcp) = if port % 2 == 0 {
                        (first, second)
                    } else {
                        (second, first)
                    };
                    return Ok(Self {
                        rtp,
                        rtcp,
                        source: server,
                        server: None,
                    });
                }
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.map_or_else(|| io::Error::other("no ports"), io::Error::other))
    }

    /// Port numbers of RTP and RTCP.
    pub(crate) const fn numbers(&self) -> (u16, u16) {
        (self.rtp.local_addr().port(), self.rtcp.local_addr().port())
    }

    /// Sets the address and ports that the server sends from.
    pub(crate) fn set_server(&mut self, source: IpAddr, ports: Option<(u16, u16)>) {
        self.source = source;
        self.server =
            ports.map(|(rtp, rtcp)| (SocketAddr::new(source, rtp), SocketAddr::new(source, rtcp)));
    }

    /// Descriptors to wait for.
    pub(crate) fn descriptors(&self) -> [RawFd; 2] {
        [self.rtp.as_raw_fd(), self.rtcp.as_raw_fd()]
    }

    /// Passes the packets that wait at one of the two ports to `sink`, with their arrival
    /// times; `None` stands for a packet that was truncated. Returns the number of datagrams.
    /// Datagrams from other addresses are counted, but not passed on.
    pub(crate) fn receive(
        &self,
        control: bool,
        batch: &mut ReceiveBatch,
        mut sink: impl FnMut(Instant, Option<&[u8]>),
    ) -> io::Result<usize> {
        let socket = if control { &self.rtcp } else { &self.rtp };
        let mut count = 0;
        loop {
            let received = match socket.receive_batch(batch) {
                Ok(0) => return Ok(count),
                Ok(received) => received,
                // An ICMP error of an earlier report: the server has no such port.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(error),
            };
            count += received;
            let clock = Clock::read();
            for datagram in batch.iter_mut() {
                if datagram.source.ip() != self.source {
                    continue;
                }
                let arrived = clock.instant(datagram.arrived);
                if datagram.truncated {
                    sink(arrived, None);
                    continue;
                }
                let size = match datagram.segment {
                    Some(size) => usize::from(size),
                    None => datagram.bytes.len(),
                };
                for packet in datagram.bytes.chunks(size.max(1)) {
                    sink(arrived, Some(packet));
                }
            }
            if received < batch.capacity() {
                return Ok(count);
            }
        }
    }

    /// Sends to the server's RTCP port; returns false if it is unknown or unreachable.
    pub(crate) fn send_control(&self, packet: &[u8]) -> bool {
        self.server
            .is_some_and(|(_, rtcp)| self.rtcp.send(packet, rtcp).is_ok())
    }

    /// Sends to the server's RTP port; returns false if it is unknown or unreachable.
    pub(crate) fn send_media(&self, bytes: &[u8]) -> bool {
        self.server
            .is_some_and(|(rtp, _)| self.rtp.send(bytes, rtp).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn pairs_are_even_and_odd_neighbors() {
        let local = IpAddr::from(Ipv4Addr::LOCALHOST);
        let pairs: Vec<_> = (0..100)
            .map(|_| Ports::bind(local, local, &Options::default()).expect("ports"))
            .collect();
        for pair in &pairs {
            let (rtp, rtcp) = pair.numbers();
            assert_eq!((rtp % 2, rtcp), (0, rtp + 1));
        }
    }

    #[test]
    fn only_the_servers_datagrams_are_seen() {
        let local = IpAddr::from(Ipv4Addr::LOCALHOST);
        let mut ports = Ports::bind(local, local, &Options::default()).expect("ports");
        let sender = std::net::UdpSocket::bind((local, 0)).expect("a socket");
        let mut batch = ReceiveBatch::new(4);
        for expected in [1, 0] {
            let to = (local, ports.numbers().0);
            sender.send_to(b"packet", to).expect("loopback");
            let mut seen = 0;
            let count = ports.receive(false, &mut batch, |_, packet| {
                assert_eq!(packet, Some(&b"packet"[..]));
                seen += 1;
            });
            assert_eq!(count.expect("no error"), 1);
            assert_eq!(seen, expected);
            ports.set_server(IpAddr::from([192, 0, 2, 7]), None);
        }
        assert!(!ports.send_control(b"report"), "no port known");
    }
}
