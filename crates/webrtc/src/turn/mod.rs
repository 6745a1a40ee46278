//! TURN client: relayed addresses at which a dialing session is reached where no direct path works
//! (RFC 8656).
//!
//! ```text
//! caller: gather ─► Allocation::new ── Allocate, 401, Allocate ──► TURN server
//!                   relayed() is Some ─► DialConfig::turn_allocations ─► Session: a candidate
//! session ─ seal ─► Allocation::wrap ─ ChannelData ─► server ─► peer
//! session ◄── peer's datagram ── Allocation::handle ◄── server
//! ```
//!
//! The `turn-client-proto` crate implements the protocol: long-term credentials, changing nonces,
//! refreshes, permissions. This module adds server URIs, the use by a session, and the framing on
//! streams, which the crate leaves unpadded where RFC 8656 §12.5 requires padding. A peer gets a
//! channel before its first datagram is sent; a few datagrams wait for the channel, since ICE sends
//! its first checks at once.
//!
//! The caller opens sockets, resolves names and runs TLS. The crate draws transaction identifiers
//! from the operating system, as the ICE crate does.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod server;
#[cfg(any(test, fuzzing))]
pub(crate) mod test_server;
#[cfg(test)]
mod tests;

pub use server::{Credentials, Server, ServerError, Transport};

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use turn_client_proto::api::{
    BindChannelError, Transmit, TurnClientApi, TurnConfig, TurnEvent, TurnPollRet, TurnRecvRet,
};
use turn_client_proto::client::TurnClient;
use turn_client_proto::prelude::DelayedTransmitBuild;
use turn_client_proto::stun::Instant as StunInstant;
use turn_client_proto::tcp::TurnClientTcp;
use turn_client_proto::types::stun::message::IntegrityAlgorithm;
use turn_client_proto::types::{AddressFamily, TransportType, TurnCredentials};
use turn_client_proto::udp::TurnClientUdp;

/// Length of the header in front of a datagram in a channel, in bytes (RFC 8656 §12.4).
pub const CHANNEL_HEADER_BYTES: usize = 4;

/// Most peers to which an allocation has channels: an agent takes no more candidates.
const PEERS_MAX: usize = 32;
/// Most datagrams that wait for their peer's channel; the oldest is dropped. They are checks,
/// which ICE repeats.
const WAITING_MAX: usize = 16;
/// Time before a channel that the server refused is requested again.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// First retransmission of a request (RFC 8489 §6.2.1 has 500 ms for paths of unknown length).
/// The interval doubles each time, and the request fails after the last one.
const RETRY_FIRST: Duration = Duration::from_millis(250);
/// Longest interval between two transmissions of a request, and the wait after the last one.
const RETRY_MAX: Duration = Duration::from_secs(2);
/// Number of times that a request is transmitted.
const RETRIES: u32 = 6;

/// State of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The server has not answered yet.
    Allocating,
    /// Peers reach this client at this address of the server.
    Allocated(SocketAddr),
    /// The allocation was refused, timed out or expired, and can no longer be used.
    Failed,
}

/// The content of a frame from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The answer to a request, or nothing for this client.
    Consumed,
    /// A datagram of a peer.
    Data {
        /// Address of the peer.
        peer: SocketAddr,
        /// Range of the datagram within the frame.
        range: Range<usize>,
    },
}

/// An allocation on a TURN server: one relayed address.
#[derive(derive_more::Debug)]
#[debug("Allocation {{ server: {server:?}, state: {state:?}, .. }}")]
pub struct Allocation {
    server: Server,
    /// Address of the server.
    address: SocketAddr,
    local: SocketAddr,
    client: TurnClient,
    state: State,
    peers: SmallVec<[Peer; 2]>,
    waiting: VecDeque<(SocketAddr, Vec<u8>)>,
    /// Zero of the crate's clock.
    epoch: Instant,
    /// Instant of the last input; what is sent counts as sent at that instant.
    now: Instant,
    /// Instant at which `handle_timeout` is due, if known.
    timeout: Option<Instant>,
}

/// A peer and the state of the channel to it.
struct Peer {
    address: SocketAddr,
    channel: Channel,
}

/// State of a channel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Channel {
    Requested,
    Bound,
    Refused(Instant),
}

impl Allocation {
    /// Requests a relayed address from `server`, which is at `address`.
    ///
    /// `local` is the address from which datagrams, or the connection, are sent to the server.
    /// It is only used for bookkeeping, so the caller passes it as precisely as it knows it.
    pub fn new(
        server: Server,
        address: SocketAddr,
        local: SocketAddr,
        credentials: &Credentials,
        now: Instant,
    ) -> Self {
        let credentials = TurnCredentials::new(&credentials.username, &credentials.password);
        let mut config = TurnConfig::new(credentials);
        // SHA-256 is used where the server offers it (RFC 8489 §9.2.4).
        config.add_supported_integrity(IntegrityAlgorithm::Sha256);
        config.set_request_retransmits(RETRY_FIRST, RETRY_MAX, RETRIES, RETRY_MAX);
        if address.is_ipv6() {
            config.set_address_family(AddressFamily::IPV6);
        }
        let client = match server.transport {
            Transport::Udp => TurnClientUdp::allocate(local, address, config).into(),
            Transport::Tcp | Transport::Tls => {
                TurnClientTcp::allocate(local, address, config).into()
            }
        };
        Self {
            server,
            address,
            local,
            client,
            state: State::Allocating,
            peers: SmallVec::new(),
            waiting: VecDeque::new(),
            epoch: now,
            now,
            timeout: Some(now),
        }
    }

    /// Returns the server of the allocation.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the address to which frames for the server go.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address from which frames for the server are sent.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns the address on the server at which peers reach this client, once it is
    /// allocated.
    pub fn relayed(&self) -> Option<SocketAddr> {
        match self.state {
            State::Allocated(address) => Some(address),
            _ => None,
        }
    }

    /// Returns the state of the allocation.
    pub fn state(&self) -> State {
        self.state
    }

    /// Handles one frame from the server: a datagram, or what [`frame`] found in a stream.
    pub fn handle(&mut self, now: Instant, frame: &[u8]) -> Input {
        self.now = now;
        self.timeout = Some(now);
        let transport = self.client.transport();
        let transmit = Transmit::new(frame, transport, self.address, self.local);
        let input = match self.client.recv(transmit, self.clock()) {
            TurnRecvRet::PeerData(data) => {
                let peer = data.peer;
                // The crate returns the datagram as a slice of `frame`.
                let at = (data.data().as_ptr().addr()).checked_sub(frame.as_ptr().addr());
                let range = at.map(|at| at..at + data.data().len());
                match range.filter(|range| range.end <= frame.len()) {
                    Some(range) => Input::Data { peer, range },
                    None => Input::Consumed,
                }
            }
            _ => Input::Consumed,
        };
        self.poll_events();
        input
    }

    /// Handles everything that is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        let clock = self.clock();
        let next = self.client.poll(clock);
        self.poll_events();
        self.timeout = match next {
            TurnPollRet::WaitUntil(at) => {
                let wait = at.saturating_duration_since(clock);
                // Not earlier: what cannot be sent yet is paced in whole milliseconds.
                Some(now + wait.max(Duration::from_millis(1)))
            }
            TurnPollRet::Closed => {
                self.state = State::Failed;
                self.waiting.clear();
                None
            }
            // Connections to peers (RFC 6062) are never requested.
            _ => Some(now + RETRY_FIRST),
        };
    }

    /// Returns the instant at which [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timeout
    }

    /// Sets the current time without handling anything.
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Writes the next frame for the server over `out`. Returns false if there is none.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some(transmit) = self.client.poll_transmit(self.clock()) {
            out.clear();
            out.extend_from_slice(&transmit.data);
            return true;
        }
        let bound = |peer: &SocketAddr| {
            let mut peers = self.peers.iter();
            peers.any(|it| it.address == *peer && it.channel == Channel::Bound)
        };
        let Some(index) = self.waiting.iter().position(|(peer, _)| bound(peer)) else {
            return false;
        };
        let (peer, datagram) = self.waiting.remove(index).expect("it was found");
        self.send(peer, &datagram, out)
    }

    /// Writes the frame that takes `datagram` to `peer` over `out`. Returns false if there is
    /// no channel yet: the datagram is then kept and returned by
    /// [`poll_transmit`](Self::poll_transmit) later.
    pub fn wrap(&mut self, peer: SocketAddr, datagram: &[u8], out: &mut Vec<u8>) -> bool {
        match self.channel(peer) {
            Channel::Bound => self.send(peer, datagram, out),
            Channel::Refused(_) => false,
            Channel::Requested => {
                if self.waiting.len() >= WAITING_MAX {
                    self.waiting.pop_front();
                }
                self.waiting.push_back((peer, datagram.to_vec()));
                false
            }
        }
    }

    /// Releases the allocation. [`poll_transmit`](Self::poll_transmit) then returns the request
    /// for the server.
    pub fn close(&mut self) {
        if self.state == State::Failed {
            return;
        }
        // Without an allocation there is nothing to release.
        let _ = self.client.delete(self.clock());
        self.state = State::Failed;
        self.waiting.clear();
        self.timeout = Some(self.now);
    }

    fn send(&mut self, peer: SocketAddr, datagram: &[u8], out: &mut Vec<u8>) -> bool {
        let clock = self.clock();
        let Ok(Some(transmit)) = self
            .client
            .send_to(TransportType::Udp, peer, datagram, clock)
        else {
            return false;
        };
        let len = transmit.data.len();
        let padded = match self.server.transport {
            Transport::Udp => len,
            // On a stream, frames begin at multiples of four bytes (RFC 8656 §12.5).
            Transport::Tcp | Transport::Tls => len.next_multiple_of(4),
        };
        out.clear();
        out.resize(padded, 0);
        transmit.write_into(&mut out[..len]);
        true
    }

    /// Returns the state of the channel to `peer`; requests one if there is none.
    fn channel(&mut self, peer: SocketAddr) -> Channel {
        let now = self.now;
        let known = self.peers.iter().position(|it| it.address == peer);
        if let Some(index) = known {
            match self.peers[index].channel {
                Channel::Refused(until) if until <= now => {
                    self.peers.swap_remove(index);
                }
                channel => return channel,
            }
        }
        if self.peers.len() >= PEERS_MAX || self.relayed().is_none() {
            return Channel::Refused(now);
        }
        let clock = self.clock();
        let requested = self.client.bind_channel(TransportType::Udp, peer, clock);
        let channel = match requested {
            Ok(()) => Channel::Requested,
            Err(BindChannelError::AlreadyExists) => Channel::Bound,
            Err(_) => Channel::Refused(now + REFUSED_FOR),
        };
        self.peers.push(Peer {
            address: peer,
            channel,
        });
        self.timeout = Some(now);
        channel
    }

    fn poll_events(&mut self) {
        while let Some(event) = self.client.poll_event() {
            match event {
                TurnEvent::AllocationCreated(_, address) => self.state = State::Allocated(address),
                TurnEvent::AllocationCreateFailed(_) => self.state = State::Failed,
                TurnEvent::ChannelCreated(_, peer) => self.set_channel(peer, Channel::Bound),
                TurnEvent::ChannelCreateFailed(_, peer) => {
                    self.set_channel(peer, Channel::Refused(self.now + REFUSED_FOR));
                    self.waiting.retain(|(to, _)| *to != peer);
                }
                _ => {}
            }
        }
    }

    fn set_channel(&mut self, address: SocketAddr, channel: Channel) {
        let mut peers = self.peers.iter_mut();
        if let Some(peer) = peers.find(|peer| peer.address == address) {
            peer.channel = channel;
        }
    }

    fn clock(&self) -> StunInstant {
        let since = self.now.saturating_duration_since(self.epoch).as_nanos();
        StunInstant::from_nanos(i64::try_from(since).unwrap_or(i64::MAX))
    }
}

/// Length of the frame at the beginning of a stream from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Number of bytes to pass to [`Allocation::handle`].
    pub content: usize,
    /// Number of bytes to remove from the stream: content and padding.
    pub length: usize,
}

/// Returns the length of the frame at the beginning of `bytes` (RFC 8656 §3.1 and §12.5), at
/// most 64 KiB. `None` before the first four bytes are there.
pub fn frame(bytes: &[u8]) -> Option<Frame> {
    let head: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
    Some(if head[0] & 0b1100_0000 == 0 {
        // The length field of a STUN message does not count the header.
        let content = 20 + length;
        Frame {
            content,
            length: content,
        }
    } else {
        let content = CHANNEL_HEADER_BYTES + length;
        Frame {
            content,
            length: content.next_multiple_of(4),
        }
    })
}
