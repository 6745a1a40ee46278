//! Hands sealed datagrams to the kernel.
//!
//! ```text
//!  viewer 1 ─ seal ─► ┌ scratch ──────────────────────┐
//!  viewer 2 ─ seal ─► │ run │ run │ run │ …           ├─ one sendmmsg ─► kernel
//!  …                  └───────────────────────────────┘      │ full
//!                                                            ▼
//!                                             backlog, bounded, in order
//! ```
//!
//! Media for a peer behind a TCP connection is sealed with room for the length in front of each
//! packet, and goes to that connection when the batch ends.
//!
//! A run is a number of datagrams of one size to one viewer, except that the last may be shorter:
//! one message with `UDP_SEGMENT`. The runs of several viewers share a system call.

mod backlog;
mod connection;
mod connections;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use glassline_net::{SEGMENTED_BYTES_MAX, SEGMENTS_MAX, SendError, Sent, Transmit, UdpSocket};

use glassline_webrtc::{Transport, TransportAddress, framing};

use backlog::Backlog;
pub use connection::TcpConnection;
pub use connections::TcpConnections;

use super::counters::SendCounters;

/// Buffer for the runs of one system call, in bytes: small enough to stay in the second level
/// cache, so that the kernel copies what the cipher just wrote.
const SCRATCH_BYTES: usize = 256 << 10;

/// Sealed bytes after which the outbox should be flushed, even if more viewers wait.
const RIPE_BYTES: usize = SCRATCH_BYTES - (64 << 10);

/// Number of runs after which the outbox should be flushed. Beyond about 16 messages a system call
/// gains nothing more, and the first viewer waits for the last one's cipher.
const RIPE_RUNS: usize = 16;

/// Longest sealed packet: one Ethernet frame.
const PACKET_BYTES_MAX: usize = 1500;

/// Framed bytes of one batch that are handed to a connection together. The kernel is offered the
/// first ones while the others are still sealed.
const CONNECTION_BYTES: usize = 64 << 10;

/// The socket that takes datagrams. On loopback the kernel's socket never reports that it is full,
/// whatever its send buffer, so tests use one that does.
pub trait Sink {
    /// Hands datagrams to the kernel, as [`UdpSocket::send_batch`] does.
    fn send_batch(&self, transmits: &[Transmit<'_>]) -> Sent;
}

impl Sink for UdpSocket {
    fn send_batch(&self, transmits: &[Transmit<'_>]) -> Sent {
        self.send_batch(transmits)
    }
}

/// One shard's socket, its buffer for sealing, and the datagrams that the kernel did not take yet.
#[derive(Debug)]
pub struct Outbox<S: Sink = UdpSocket> {
    socket: S,
    scratch: Box<[u8; SCRATCH_BYTES]>,
    /// Bytes of the buffer that are sealed and not handed over.
    filled: usize,
    runs: Vec<Run>,
    backlog: Backlog,
    /// Whether sending must be tried again without an event: the interface's queue was full, or the
    /// answers of closed ports failed one call after the other.
    congested: bool,
    /// Connections of peers that UDP does not reach.
    connections: TcpConnections,
    counters: Arc<SendCounters>,
}

/// Sealed datagrams of one size in the buffer, except that the last may be shorter.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Position in the buffer where the present run begins.
    start: usize,
    end: usize,
    segment: usize,
    route: Route,
}

impl Run {
    fn datagrams(&self) -> u64 {
        (self.end - self.start).div_ceil(self.segment.max(1)) as u64
    }
}

/// Times that a datagram is tried again at once because of errors about earlier ones. Each answer
/// of a closed port fails one call, whichever datagram that call carries, and on a busy machine
/// answers arrive one behind the other. After so many errors the datagram waits for the next turn:
/// answers take neither the thread's time nor another viewer's datagrams.
const REPEATS_MAX: u32 = 16;

/// The addresses that a datagram goes to and from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Address and transport of the peer.
    pub destination: TransportAddress,
    /// The server's address to send from; `None` leaves the choice to the system.
    pub source: Option<IpAddr>,
}

/// The treatment of a run that the kernel did not take.
enum Remedy {
    /// Keep the run until there is room.
    Wait,
    /// Try again: the error was about an earlier datagram.
    Repeat,
    /// Drop and count the run, which can never be sent.
    GiveUp,
}

impl<S: Sink> Outbox<S> {
    /// Creates an outbox that sends by `socket`.
    pub fn new(socket: S, counters: Arc<SendCounters>) -> Self {
        Self {
            socket,
            scratch: vec![0; SCRATCH_BYTES]
                .try_into()
                .expect("the length is that of the type"),
            filled: 0,
            runs: Vec::with_capacity(4 * RIPE_RUNS),
            backlog: Backlog::default(),
            congested: false,
            connections: TcpConnections::default(),
            counters,
        }
    }

    /// Returns the socket that datagrams leave by.
    pub fn socket(&self) -> &S {
        &self.socket
    }

    /// Returns whether nothing more should be sealed until [`resume`](Self::resume) has emptied the
    /// backlog.
    pub fn is_blocked(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Returns whether nothing more should be sealed for `destination`: the socket or its connection
    /// is full.
    #[inline]
    pub fn is_blocked_to(&self, destination: TransportAddress) -> bool {
        match destination.transport {
            Transport::Udp => self.is_blocked(),
            Transport::Tcp => self.connections.is_blocked(destination.socket),
        }
    }

    /// Returns the connections of peers that UDP does not reach.
    pub const fn connections(&mut self) -> &mut TcpConnections {
        &mut self.connections
    }

    /// Offers the kernel what waits for the connection of `peer`, which has room again. Returns
    /// whether everything is gone now that waited before.
    pub fn resume_connection(&mut self, peer: SocketAddr) -> bool {
        self.connections.write(peer, &self.counters)
    }

    /// Returns whether the interface or answers of closed ports block, and not the socket. No event
    /// reports the end of either, so [`resume`](Self::resume) must be tried after a moment.
    pub fn is_congested(&self) -> bool {
        self.congested && self.is_blocked()
    }

    /// Returns whether enough is sealed for a system call.
    pub fn is_ripe(&self) -> bool {
        self.runs.len() >= RIPE_RUNS || self.filled >= RIPE_BYTES
    }

    /// Queues one control datagram (STUN, DTLS, RTCP) behind the sealed media.
    pub fn send(&mut self, datagram: &[u8], route: Route) {
        self.send_segmented(datagram, datagram.len(), route);
    }

    /// Size of the present run's packets in bytes; 0 for an empty run.
    pub fn send_segmented(&mut self, datagrams: &[u8], segment: usize, route: Route) {
        if route.destination.is_tcp() {
            let (peer, counters) = (route.destination.socket, &self.counters);
            self.connections.queue(peer, datagrams, segment, counters);
            return;
        }
        self.make_room(datagrams.len());
        let start = self.filled;
        let Some(room) = self.scratch.get_mut(start..start + datagrams.len()) else {
            // Nothing that a session makes is larger than the whole buffer.
            self.counters.too_large.add(1);
            return;
        };
        room.copy_from_slice(datagrams);
        self.filled += datagrams.len();
        self.runs.push(Run {
            start,
            end: self.filled,
            segment,
            route,
        });
    }

    /// Starts to collect media packets of one viewer.
    pub fn batch(&mut self, route: Route) -> Batch<'_, S> {
        let prefix = match route.destination.transport {
            Transport::Udp => 0,
            Transport::Tcp => framing::PREFIX_BYTES,
        };
        Batch {
            start: self.filled,
            outbox: self,
            route,
            prefix,
            segment: 0,
            segments: 0,
        }
    }

    /// Hands everything sealed to the kernel, or to the backlog if the socket is full.
    pub fn flush(&mut self) {
        if self.connections.is_ready() {
            self.connections.flush(&self.counters);
        }
        if self.runs.is_empty() {
            self.filled = 0;
            return;
        }
        let (mut next, mut offset, mut repeats) = (0, 0, 0);
        while next < self.runs.len() && !self.is_blocked() {
            let transmits: Vec<_> = self.transmits(next, offset).collect();
            let sent = self.socket.send_batch(&transmits);
            self.counters.sends.add(1);
            if sent.transmits > 0 {
                next += sent.transmits;
                (offset, repeats) = (0, 0);
            }
            if sent.offset > 0 {
                offset += sent.offset;
                repeats = 0;
            }
            let Some(error) = sent.stopped else { break };
            match self.remedy(&error, self.runs[next].route) {
                Remedy::Wait => break,
                Remedy::Repeat if repeats < REPEATS_MAX => repeats += 1,
                Remedy::Repeat => {
                    self.congested = true;
                    break;
                }
                Remedy::GiveUp => {
                    let run = self.runs[next];
                    let left = Run {
                        start: run.start + offset,
                        ..run
                    };
                    self.counters.abandoned.add(left.datagrams());
                    next += 1;
                    (offset, repeats) = (0, 0);
                }
            }
        }
        for index in next..self.runs.len() {
            let run = self.runs[index];
            self.keep(Run {
                start: run.start + std::mem::take(&mut offset),
                ..run
            });
        }
        self.runs.clear();
        self.filled = 0;
    }

    /// Sends the backlog, because there may be room again.
    pub fn resume(&mut self) {
        self.congested = false;
        let mut repeats = 0;
        while let Some(mut waiting) = self.backlog.pop_front() {
            let transmit = Transmit::new(&waiting.bytes, waiting.route.destination.socket)
                .segmented(waiting.segment)
                .from(waiting.route.source);
            let sent = self.socket.send_batch(&[transmit]);
            self.counters.sends.add(1);
            let Some(error) = sent.stopped else {
                repeats = 0;
                continue;
            };
            if sent.offset > 0 {
                repeats = 0;
            }
            waiting.bytes.drain(..sent.offset);
            match self.remedy(&error, waiting.route) {
                Remedy::Repeat if repeats < REPEATS_MAX => repeats += 1,
                remedy @ (Remedy::Wait | Remedy::Repeat) => {
                    self.congested |= matches!(remedy, Remedy::Repeat);
                    self.backlog.push_front(waiting);
                    return;
                }
                Remedy::GiveUp => {
                    let left = waiting.bytes.len().div_ceil(waiting.segment.max(1));
                    self.counters.abandoned.add(left as u64);
                    repeats = 0;
                    continue;
                }
            }
            self.backlog.push_front(waiting);
        }
    }

    /// Keeps a datagram as if the socket was full, for tests: the loopback interface always has room.
    #[cfg(debug_assertions)]
    pub fn hold(&mut self, datagram: &[u8], route: Route) {
        assert!(self.backlog.push(datagram, datagram.len(), route));
    }

    /// Drops everything that the kernel did not take yet, whatever state that is in.
    pub fn discard(&mut self) {
        self.runs.clear();
        self.filled = 0;
        self.backlog = Backlog::default();
        self.connections = TcpConnections::default();
        self.congested = false;
    }

    /// Iterates over the runs from `next` on; the first one begins at its byte `offset`.
    fn transmits(&self, next: usize, offset: usize) -> impl Iterator<Item = Transmit<'_>> {
        let mut offset = offset;
        self.runs[next..].iter().map(move |run| {
            let bytes = &self.scratch[run.start + std::mem::take(&mut offset)..run.end];
            Transmit::new(bytes, run.route.destination.socket)
                .segmented(run.segment)
                .from(run.route.source)
        })
    }

    fn remedy(&mut self, error: &SendError, route: Route) -> Remedy {
        let counters = &self.counters;
        match error {
            SendError::WouldBlock => {
                counters.socket_full.add(1);
                return Remedy::Wait;
            }
            SendError::NoBuffers => {
                counters.interface_full.add(1);
                self.congested = true;
                return Remedy::Wait;
            }
            SendError::Refused => {
                counters.peer_refused.add(1);
                return Remedy::Repeat;
            }
            SendError::TooLarge => counters.too_large.add(1),
            SendError::Unreachable => counters.unreachable.add(1),
            _ => counters.unsendable.add(1),
        }
        tracing::debug!(%error, destination = %route.destination, "datagrams dropped: the kernel will never take them");
        Remedy::GiveUp
    }

    /// Copies a run to the backlog; drops and counts it if the backlog is full.
    fn keep(&mut self, run: Run) {
        let bytes = &self.scratch[run.start..run.end];
        if !self.backlog.push(bytes, run.segment, run.route) {
            self.counters.dropped_backlog.add(run.datagrams());
        }
    }

    fn make_room(&mut self, bytes: usize) {
        if self.scratch.len() - self.filled < bytes {
            self.flush();
        }
    }
}

/// Sealed packets of one viewer, sent in as few messages as their sizes allow.
#[derive(Debug)]
pub struct Batch<'a, S: Sink = UdpSocket> {
    outbox: &'a mut Outbox<S>,
    route: Route,
    /// Bytes in front of each packet: its length, for a peer behind a TCP connection.
    prefix: usize,
    /// Where the run under construction begins in the scratch.
    start: usize,
    /// Size of the run's packets, 0 for an empty run.
    segment: usize,
    segments: usize,
}

impl<S: Sink> Batch<'_, S> {
    /// Returns what carries the packets.
    pub const fn transport(&self) -> Transport {
        self.route.destination.transport
    }

    /// Adds the packet that `seal` writes into its buffer of 1500 bytes. `seal` returns the
    /// packet's length; 0 adds nothing.
    #[inline]
    pub fn push(&mut self, seal: impl FnOnce(&mut [u8]) -> usize) {
        if self.outbox.scratch.len() - self.outbox.filled < framing::PREFIX_BYTES + PACKET_BYTES_MAX
        {
            self.end_run();
            self.outbox.flush();
            self.start = 0;
        }
        let at = self.outbox.filled + self.prefix;
        let len = seal(&mut self.outbox.scratch[at..at + PACKET_BYTES_MAX]);
        if len == 0 {
            return;
        }
        if self.prefix > 0 {
            self.frame(at, len);
            return;
        }
        if len > self.segment || at + len - self.start > SEGMENTED_BYTES_MAX {
            // A longer packet cannot join the run: it begins a new one.
            self.end_run();
            self.segment = len;
        }
        self.outbox.filled = at + len;
        self.segments += 1;
        // A shorter packet ends its run, and so does the kernel's limit on segments.
        if len < self.segment || self.segments == SEGMENTS_MAX {
            self.end_run();
        }
    }

    /// Writes the length of the packet at `at` in front of the packet.
    #[inline]
    fn frame(&mut self, at: usize, len: usize) {
        // A packet is shorter than a length field can say.
        let Some(prefix) = framing::prefix(len) else {
            return;
        };
        self.outbox.scratch[at - prefix.len()..at].copy_from_slice(&prefix);
        self.outbox.filled = at + len;
        self.segments += 1;
        if self.outbox.filled - self.start >= CONNECTION_BYTES {
            self.end_run();
        }
    }

    fn end_run(&mut self) {
        if self.prefix > 0 {
            self.end_frames();
            return;
        }
        let end = self.outbox.filled;
        if self.segments > 0 {
            self.outbox.counters.packets.add(self.segments as u64);
            self.outbox.counters.bytes.add((end - self.start) as u64);
            self.outbox.runs.push(Run {
                start: self.start,
                end,
                segment: self.segment,
                route: self.route,
            });
        }
        self.start = end;
        self.segments = 0;
        self.segment = 0;
    }

    /// Hands the framed packets to the peer's connection, and frees their place.
    fn end_frames(&mut self) {
        let Outbox {
            scratch,
            filled,
            connections,
            counters,
            ..
        } = &mut *self.outbox;
        if self.segments > 0 {
            let framed = &scratch[self.start..*filled];
            let packets = self.segments as u64;
            counters.packets.add(packets);
            let prefixes = self.segments * framing::PREFIX_BYTES;
            counters.bytes.add((framed.len() - prefixes) as u64);
            let peer = self.route.destination.socket;
            connections.send(peer, framed, packets, counters);
        }
        *filled = self.start;
        self.segments = 0;
    }
}

impl<S: Sink> Drop for Batch<'_, S> {
    fn drop(&mut self) {
        self.end_run();
    }
}

#[cfg(test)]
mod tests;
