//! Sealed datagrams on their way into the kernel.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use glassline_net::{SEGMENTS_MAX, SendError, Sent, Transmit, UdpSocket};

use super::counters::Counters;

/// Room for one segmented send and the packet behind it.
const SCRATCH_BYTES: usize = 64 << 10;

/// A sealed packet is no longer than this: one Ethernet frame.
const PACKET_BYTES_MAX: usize = 1500;

/// Bytes of sealed packets that wait for a full socket: they carry sequence
/// numbers already, so dropping them would look like loss on the way.
const BACKLOG_BYTES_MAX: usize = 16 << 20;

/// What takes datagrams: the kernel's socket. On loopback it never says that it
/// is full, whatever its send buffer, so tests have one that does.
pub(crate) trait Sink {
    /// See [`UdpSocket::send_batch`].
    fn send_batch(&self, transmits: &[Transmit<'_>]) -> Sent;
}

impl Sink for UdpSocket {
    fn send_batch(&self, transmits: &[Transmit<'_>]) -> Sent {
        self.send_batch(transmits)
    }
}

/// One shard's socket, its sealing scratch, and what the kernel did not take yet.
#[derive(Debug)]
pub(crate) struct Outbox<S: Sink = UdpSocket> {
    socket: S,
    scratch: Box<[u8]>,
    backlog: VecDeque<Waiting>,
    backlog_bytes: usize,
    counters: Arc<Counters>,
}

/// Datagrams that the socket had no room for.
#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    segment: usize,
    route: Route,
}

/// To whom, and from which of our addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) destination: SocketAddr,
    /// `None` leaves the choice to the system.
    pub(crate) source: Option<IpAddr>,
}

impl<S: Sink> Outbox<S> {
    pub(crate) fn new(socket: S, counters: Arc<Counters>) -> Self {
        Self {
            socket,
            scratch: vec![0; SCRATCH_BYTES].into(),
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            counters,
        }
    }

    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    /// Nothing more should be sealed until [`resume`](Self::resume) emptied the backlog.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Sends one datagram of control (STUN, DTLS, RTCP).
    pub(crate) fn send(&mut self, datagram: &[u8], route: Route) {
        self.transmit(datagram, datagram.len(), route);
    }

    /// Collects media packets of one viewer.
    pub(crate) fn batch(&mut self, route: Route) -> Batch<'_, S> {
        Batch {
            outbox: self,
            route,
            start: 0,
            filled: 0,
            segment: 0,
            segments: 0,
        }
    }

    /// Sends what waits, now that the socket has room.
    pub(crate) fn resume(&mut self) {
        while let Some(mut waiting) = self.backlog.pop_front() {
            self.backlog_bytes -= waiting.bytes.len();
            if let Some(taken) = self.attempt(&waiting.bytes, waiting.segment, waiting.route) {
                waiting.bytes.drain(..taken);
                self.backlog_bytes += waiting.bytes.len();
                self.backlog.push_front(waiting);
                return;
            }
        }
    }

    fn transmit(&mut self, bytes: &[u8], segment: usize, route: Route) {
        let taken = if self.is_blocked() {
            Some(0)
        } else {
            self.attempt(bytes, segment, route)
        };
        let Some(taken) = taken else { return };
        let rest = &bytes[taken..];
        if self.backlog_bytes + rest.len() > BACKLOG_BYTES_MAX {
            self.counters
                .dropped_backlog
                .add(rest.len().div_ceil(segment.max(1)) as u64);
            return;
        }
        self.backlog_bytes += rest.len();
        self.backlog.push_back(Waiting {
            bytes: rest.to_vec(),
            segment,
            route,
        });
    }

    /// Hands `bytes` to the kernel; `Some(taken)` if the rest has to wait.
    /// A datagram that cannot be sent at all is counted and passed over.
    fn attempt(&self, bytes: &[u8], segment: usize, route: Route) -> Option<usize> {
        let mut offset = 0;
        while offset < bytes.len() {
            let rest = &bytes[offset..];
            let transmit = Transmit::new(rest, route.destination)
                .segmented(segment)
                .from(route.source);
            let sent = self.socket.send_batch(&[transmit]);
            self.counters.sends.add(1);
            offset += sent.bytes;
            match sent.stopped {
                None => return None,
                Some(SendError::WouldBlock) => return Some(offset),
                Some(error) => {
                    tracing::debug!(%error, destination = %route.destination, "datagram given up");
                    self.counters.send_errors.add(1);
                    offset += segment.max(1);
                }
            }
        }
        None
    }
}

/// Sealed packets of one viewer, sent with as few system calls as their sizes
/// allow: a run of equal packets and one shorter at its end is one segmented send.
#[derive(Debug)]
pub(crate) struct Batch<'a, S: Sink = UdpSocket> {
    outbox: &'a mut Outbox<S>,
    route: Route,
    /// Where the run under construction begins in the scratch.
    start: usize,
    /// Where the next packet goes.
    filled: usize,
    /// Size of the run's packets, 0 for an empty run.
    segment: usize,
    segments: usize,
}

impl<S: Sink> Batch<'_, S> {
    /// Adds the packet that `seal` writes into the buffer it is given, of 1500
    /// bytes, returning its length; 0 adds nothing.
    pub(crate) fn push(&mut self, seal: impl FnOnce(&mut [u8]) -> usize) {
        if self.outbox.scratch.len() - self.filled < PACKET_BYTES_MAX {
            self.flush();
            self.filled = 0;
            self.start = 0;
        }
        let room = &mut self.outbox.scratch[self.filled..self.filled + PACKET_BYTES_MAX];
        let len = seal(room);
        if len == 0 {
            return;
        }
        self.outbox.counters.packets.add(1);
        self.outbox.counters.bytes.add(len as u64);
        if self.segments > 0 && len > self.segment {
            self.flush();
        }
        if self.segments == 0 {
            self.segment = len;
        }
        self.filled += len;
        self.segments += 1;
        // A shorter packet ends its run, and so does the kernel's bound.
        if len < self.segment || self.segments == SEGMENTS_MAX {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.segments == 0 {
            return;
        }
        // The scratch goes out of the box for the call and back in: no copy.
        let scratch = std::mem::take(&mut self.outbox.scratch);
        self.outbox
            .transmit(&scratch[self.start..self.filled], self.segment, self.route);
        self.outbox.scratch = scratch;
        self.start = self.filled;
        self.segments = 0;
        self.segment = 0;
    }
}

impl<S: Sink> Drop for Batch<'_, S> {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    use glassline_net::{Options, ReceiveBatch};
    use glassline_sim::Rng;

    fn loopback() -> UdpSocket {
        UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &Options::default())
            .expect("a free port")
    }

    #[test]
    fn packets_arrive_one_by_one_and_runs_share_a_system_call() {
        let receiver = loopback();
        let counters = Arc::new(Counters::default());
        let mut outbox = Outbox::new(loopback(), Arc::clone(&counters));
        let route = Route {
            destination: receiver.local_addr(),
            source: None,
        };
        let sizes = [1000, 1000, 1000, 400, 120, 1200, 1200];
        let mut batch = outbox.batch(route);
        for (number, size) in sizes.into_iter().enumerate() {
            batch.push(|out| {
                out[..size].fill(u8::try_from(number).unwrap_or(0));
                size
            });
        }
        batch.push(|_| 0);
        drop(batch);
        assert_eq!(counters.packets.get(), 7);
        assert_eq!(
            counters.sends.get(),
            3,
            "1000,1000,1000,400 · 120 · 1200,1200"
        );
        let mut received = ReceiveBatch::default();
        assert_eq!(receiver.receive_batch(&mut received).expect("readable"), 7);
        for (number, size) in sizes.into_iter().enumerate() {
            let datagram = received.datagram(number);
            assert_eq!(datagram.bytes.len(), size);
            assert!(
                datagram
                    .bytes
                    .iter()
                    .all(|byte| usize::from(*byte) == number)
            );
        }
    }

    /// A socket with room for so many datagrams until it is told of more.
    #[derive(Default)]
    struct Narrow {
        room: Cell<usize>,
        taken: RefCell<Vec<Vec<u8>>>,
    }

    impl Sink for Narrow {
        fn send_batch(&self, transmits: &[Transmit<'_>]) -> Sent {
            let mut bytes = 0;
            for (index, transmit) in transmits.iter().enumerate() {
                let segment = transmit.segment_size.max(1);
                let mut offset = 0;
                for datagram in transmit.contents.chunks(segment) {
                    if self.room.get() == 0 {
                        return Sent {
                            transmits: index,
                            offset,
                            bytes,
                            stopped: Some(SendError::WouldBlock),
                        };
                    }
                    self.room.set(self.room.get() - 1);
                    self.taken.borrow_mut().push(datagram.to_vec());
                    offset += datagram.len();
                    bytes += datagram.len();
                }
            }
            Sent {
                transmits: transmits.len(),
                offset: 0,
                bytes,
                stopped: None,
            }
        }
    }

    fn anywhere() -> Route {
        Route {
            destination: SocketAddr::from(([127, 0, 0, 1], 9)),
            source: None,
        }
    }

    #[test]
    fn a_full_socket_delays_packets_but_keeps_their_order_and_number() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let counters = Arc::new(Counters::default());
            let mut outbox = Outbox::new(Narrow::default(), Arc::clone(&counters));
            let mut sent = Vec::new();
            for _ in 0..20 {
                let room = usize::try_from(rng.below(40)).expect("few");
                outbox.socket.room.set(room);
                outbox.resume();
                let mut batch = outbox.batch(anywhere());
                for _ in 0..rng.below(60) {
                    // Runs of equal sizes, as fragments of a picture are.
                    let size =
                        [1200, 1200, 1200, 700, 100][usize::try_from(rng.below(5)).expect("5")];
                    let mut packet = vec![0; size];
                    rng.fill(&mut packet);
                    batch.push(|out| {
                        out[..size].copy_from_slice(&packet);
                        size
                    });
                    sent.push(packet);
                }
                drop(batch);
                if rng.chance(0.5) {
                    outbox.send(b"control", anywhere());
                    sent.push(b"control".to_vec());
                }
            }
            assert!(outbox.is_blocked(), "seed {seed}: nothing was tested");
            while outbox.is_blocked() {
                outbox.socket.room.set(7);
                outbox.resume();
            }
            assert!(*outbox.socket.taken.borrow() == sent, "seed {seed}");
            assert_eq!(outbox.backlog_bytes, 0, "seed {seed}");
            assert_eq!(counters.dropped_backlog.get(), 0, "seed {seed}");
        }
    }

    #[test]
    fn a_socket_that_stays_full_costs_bounded_memory_and_is_counted() {
        let counters = Arc::new(Counters::default());
        let mut outbox = Outbox::new(Narrow::default(), Arc::clone(&counters));
        let packets = BACKLOG_BYTES_MAX / 1000 + 5_000;
        for _ in 0..packets {
            outbox.send(&[0; 1000], anywhere());
        }
        let dropped = usize::try_from(counters.dropped_backlog.get()).expect("few");
        assert!(outbox.backlog_bytes <= BACKLOG_BYTES_MAX);
        assert_eq!(outbox.backlog_bytes / 1000 + dropped, packets);
        outbox.socket.room.set(usize::MAX);
        outbox.resume();
        assert!(!outbox.is_blocked());
        assert_eq!(outbox.socket.taken.borrow().len(), packets - dropped);
    }
}
