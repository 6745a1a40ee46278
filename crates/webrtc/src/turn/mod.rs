//! Relays by which a dialling session is reached where no direct path is (RFC 8656).
//!
//! ```text
//! shell: gather ─► Relay::new ── Allocate, 401, Allocate ──► TURN server
//!                  relayed() is Some ─► DialConfig::relays ─► Session: a candidate
//! session ─ seal ─► Relay::wrap ─ ChannelData ─► server ─► peer
//! session ◄── peer's datagram ── Relay::handle ◄── server
//! ```
//!
//! The protocol (long-term credentials, nonces that change, refreshes, permissions)
//! is that of the `turn-client-proto` crate. What is here: names of servers, what a
//! session does with a relay, and the framing of streams, which the crate leaves
//! unpadded where RFC 8656 §12.5 pads. A peer gets a channel before its first
//! datagram leaves; a few wait for it, as the checks of ICE come at once.
//!
//! Sockets, names and TLS are the shell's. Transaction identifiers are drawn from the
//! operating system inside of the crate, as they are in ICE's.

mod server;
#[cfg(test)]
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

/// Bytes before a datagram that goes through a channel (RFC 8656 §12.4).
pub const CHANNEL_HEADER_BYTES: usize = 4;

/// Peers that one relay has channels to at most: an agent takes no more candidates.
const PEERS_MAX: usize = 32;
/// Datagrams that wait for their peer's channel: checks, which are repeated. The
/// oldest goes.
const HELD_MAX: usize = 16;
/// A peer that the server refused is asked for again no sooner.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// Requests are repeated first after this (RFC 8489 §6.2.1 has 500 ms for paths of
/// unknown length), twice as late each time, and given up after the last wait.
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(2);
const RETRIES: u32 = 6;

/// What became of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The server has not answered yet.
    Allocating,
    /// Peers reach us at this address of the server's.
    Allocated(SocketAddr),
    /// Refused, timed out or expired: of no use any more.
    Failed,
}

/// What a frame from the server was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// An answer, or nothing of ours.
    Consumed,
    /// A peer's datagram: this part of the frame.
    Data {
        /// Who sent it.
        peer: SocketAddr,
        /// Where in the frame it is.
        range: Range<usize>,
    },
}

/// An allocation on a TURN server.
pub struct Relay {
    server: Server,
    /// Where its frames come from and go to.
    address: SocketAddr,
    local: SocketAddr,
    client: TurnClient,
    state: State,
    peers: SmallVec<[Peer; 2]>,
    held: VecDeque<(SocketAddr, Vec<u8>)>,
    /// Zero of the crate's clock.
    epoch: Instant,
    /// When something came in last: what goes out goes out at that instant.
    now: Instant,
    /// When there is something to do; `None` if that is not known.
    timeout: Option<Instant>,
}

struct Peer {
    address: SocketAddr,
    channel: Channel,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Channel {
    Asked,
    Bound,
    Refused(Instant),
}

impl Relay {
    /// Asks `server`, which is at `address`, for an address of its own.
    ///
    /// `local` is where datagrams or the connection to it leave from: as exact as the
    /// shell knows it, for its own books only.
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
            held: VecDeque::new(),
            epoch: now,
            now,
            timeout: Some(now),
        }
    }

    /// Which server it is on.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Where frames for the server go.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where frames for the server leave from.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The address on the server at which peers reach us, once there is one.
    pub fn relayed(&self) -> Option<SocketAddr> {
        match self.state {
            State::Allocated(address) => Some(address),
            _ => None,
        }
    }

    /// What became of it.
    pub fn state(&self) -> State {
        self.state
    }

    /// Takes one frame from the server: a datagram, or what [`frame`] found in a stream.
    pub fn handle(&mut self, now: Instant, frame: &[u8]) -> Input {
        self.now = now;
        self.timeout = Some(now);
        let transport = self.client.transport();
        let transmit = Transmit::new(frame, transport, self.address, self.local);
        let input = match self.client.recv(transmit, self.clock()) {
            TurnRecvRet::PeerData(data) => {
                let peer = data.peer;
                // The part of `frame` that is meant: the crate tells it as a slice.
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

    /// Lets time pass.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        let clock = self.clock();
        let next = self.client.poll(clock);
        self.poll_events();
        self.timeout = match next {
            TurnPollRet::WaitUntil(at) => {
                let wait = at.saturating_duration_since(clock);
                // Not sooner: what cannot leave yet is paced by whole milliseconds.
                Some(now + wait.max(Duration::from_millis(1)))
            }
            TurnPollRet::Closed => {
                self.state = State::Failed;
                self.held.clear();
                None
            }
            // Connections to peers (RFC 6062) are never asked for.
            _ => Some(now + RETRY_FIRST),
        };
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timeout
    }

    /// Says what time it is without anything to do.
    pub(crate) fn note_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Writes the next frame for the server over `out`; false if there is none.
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
        let Some(index) = self.held.iter().position(|(peer, _)| bound(peer)) else {
            return false;
        };
        let (peer, datagram) = self.held.remove(index).expect("it was found");
        self.send(peer, &datagram, out)
    }

    /// Makes the frame that takes `datagram` to `peer`, over `out`. False if there is no
    /// channel yet: it is kept, and comes from [`poll_transmit`](Self::poll_transmit) later.
    pub fn wrap(&mut self, peer: SocketAddr, datagram: &[u8], out: &mut Vec<u8>) -> bool {
        match self.channel(peer) {
            Channel::Bound => self.send(peer, datagram, out),
            Channel::Refused(_) => false,
            Channel::Asked => {
                if self.held.len() >= HELD_MAX {
                    self.held.pop_front();
                }
                self.held.push_back((peer, datagram.to_vec()));
                false
            }
        }
    }

    /// Gives the allocation back; what [`poll_transmit`](Self::poll_transmit) then gives
    /// tells the server.
    pub fn close(&mut self) {
        if self.state == State::Failed {
            return;
        }
        // Without an allocation there is nothing to give back.
        let _ = self.client.delete(self.clock());
        self.state = State::Failed;
        self.held.clear();
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
            // RFC 8656 §12.5: on a stream, frames begin at multiples of four.
            Transport::Tcp | Transport::Tls => len.next_multiple_of(4),
        };
        out.clear();
        out.resize(padded, 0);
        transmit.write_into(&mut out[..len]);
        true
    }

    /// How the channel to `peer` stands; asks for one.
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
        let asked = self.client.bind_channel(TransportType::Udp, peer, clock);
        let channel = match asked {
            Ok(()) => Channel::Asked,
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
                    self.held.retain(|(held, _)| *held != peer);
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

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay")
            .field("server", &self.server)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// One frame at the head of a stream from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Bytes to hand to [`Relay::handle`].
    pub content: usize,
    /// Bytes to take off the stream: content and padding.
    pub length: usize,
}

/// Tells the frame at the head of `bytes` (RFC 8656 §3.1 and 12.5), `None` before its
/// first four bytes are there. It is 64 KiB at the most.
pub fn frame(bytes: &[u8]) -> Option<Frame> {
    let head: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
    Some(if head[0] & 0b1100_0000 == 0 {
        // A STUN message; its length counts neither the header nor less than four.
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
