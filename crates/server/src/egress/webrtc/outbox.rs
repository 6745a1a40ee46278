//! Sealed datagrams on their way into the kernel.
//!
//! ```text
//!  viewer 1 ─ seal ─► ┌ scratch ──────────────────────┐
//!  viewer 2 ─ seal ─► │ run │ run │ run │ …           ├─ one sendmmsg ─► kernel
//!  …                  └───────────────────────────────┘      │ full
//!                                                            ▼
//!                                             backlog, bounded, in order
//! ```
//!
//! A run is datagrams of one size to one viewer, the last maybe shorter: one
//! message with `UDP_SEGMENT`. The runs of several viewers share a system call.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use glassline_net::{SEGMENTED_BYTES_MAX, SEGMENTS_MAX, SendError, Sent, Transmit, UdpSocket};

use super::counters::SendCounters;

/// Room for the runs of one system call: small enough to stay in the second
/// level cache, so that the kernel copies what the cipher just wrote.
const SCRATCH_BYTES: usize = 256 << 10;

/// Once this much is sealed it should go, even if more viewers wait.
const RIPE_BYTES: usize = SCRATCH_BYTES - (64 << 10);

/// So should this many runs: beyond about 16 messages a system call gains
/// nothing more, and the first viewer waits for the last one's cipher.
const RIPE_RUNS: usize = 16;

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
    /// Bytes of the scratch that are sealed and not handed over.
    filled: usize,
    runs: Vec<Run>,
    backlog: VecDeque<Waiting>,
    backlog_bytes: usize,
    /// The interface's queue was full, which makes no event when it ends.
    congested: bool,
    counters: Arc<SendCounters>,
}

/// Sealed datagrams of one size, the last one maybe shorter, in the scratch.
#[derive(Clone, Copy, Debug)]
struct Run {
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

/// What to do with a run that the kernel did not take.
enum Remedy {
    /// Keep it until there is room.
    Wait,
    /// The refusal was about an earlier datagram: try once more.
    Repeat,
    /// It can never be sent: counted and gone, as if lost on the way.
    GiveUp,
}

impl<S: Sink> Outbox<S> {
    pub(crate) fn new(socket: S, counters: Arc<SendCounters>) -> Self {
        Self {
            socket,
            scratch: vec![0; SCRATCH_BYTES].into(),
            filled: 0,
            runs: Vec::with_capacity(4 * RIPE_RUNS),
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            congested: false,
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

    /// Blocked by the interface, not by the socket: nobody tells when it ends,
    /// so [`resume`](Self::resume) has to be tried after a moment.
    pub(crate) fn is_congested(&self) -> bool {
        self.congested && self.is_blocked()
    }

    /// Enough is sealed for a system call of its own.
    pub(crate) fn is_ripe(&self) -> bool {
        self.runs.len() >= RIPE_RUNS || self.filled >= RIPE_BYTES
    }

    /// Queues one datagram of control (STUN, DTLS, RTCP) behind what is sealed.
    pub(crate) fn send(&mut self, datagram: &[u8], route: Route) {
        self.send_segmented(datagram, datagram.len(), route);
    }

    /// The same with several, each of `segment` bytes but the last.
    pub(crate) fn send_segmented(&mut self, datagrams: &[u8], segment: usize, route: Route) {
        self.make_room(datagrams.len());
        let start = self.filled;
        let Some(room) = self.scratch.get_mut(start..start + datagrams.len()) else {
            // Larger than the whole scratch: no datagram is.
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

    /// Collects media packets of one viewer.
    pub(crate) fn batch(&mut self, route: Route) -> Batch<'_, S> {
        Batch {
            start: self.filled,
            outbox: self,
            route,
            segment: 0,
            segments: 0,
        }
    }

    /// Hands everything sealed to the kernel, or to the backlog if that is full.
    pub(crate) fn flush(&mut self) {
        if self.runs.is_empty() {
            return;
        }
        let (mut next, mut offset, mut repeated) = (0, 0, false);
        while next < self.runs.len() && !self.is_blocked() {
            let transmits: Vec<_> = self.transmits(next, offset).collect();
            let sent = self.socket.send_batch(&transmits);
            self.counters.sends.add(1);
            if sent.transmits > 0 {
                next += sent.transmits;
                (offset, repeated) = (0, false);
            }
            offset += sent.offset;
            let Some(error) = sent.stopped else { break };
            match self.remedy(&error, self.runs[next].route) {
                Remedy::Wait => break,
                Remedy::Repeat if !repeated => repeated = true,
                Remedy::Repeat | Remedy::GiveUp => {
                    let run = self.runs[next];
                    let left = Run {
                        start: run.start + offset,
                        ..run
                    };
                    self.counters.abandoned.add(left.datagrams());
                    next += 1;
                    (offset, repeated) = (0, false);
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

    /// Sends what waits, now that there may be room.
    pub(crate) fn resume(&mut self) {
        self.congested = false;
        let mut repeated = false;
        while let Some(mut waiting) = self.backlog.pop_front() {
            self.backlog_bytes -= waiting.bytes.len();
            let transmit = Transmit::new(&waiting.bytes, waiting.route.destination)
                .segmented(waiting.segment)
                .from(waiting.route.source);
            let sent = self.socket.send_batch(&[transmit]);
            self.counters.sends.add(1);
            let Some(error) = sent.stopped else {
                repeated = false;
                continue;
            };
            waiting.bytes.drain(..sent.offset);
            match self.remedy(&error, waiting.route) {
                Remedy::Repeat if !repeated => repeated = true,
                Remedy::Wait => {
                    self.backlog_bytes += waiting.bytes.len();
                    self.backlog.push_front(waiting);
                    return;
                }
                Remedy::Repeat | Remedy::GiveUp => {
                    let left = waiting.bytes.len().div_ceil(waiting.segment.max(1));
                    self.counters.abandoned.add(left as u64);
                    repeated = false;
                    continue;
                }
            }
            self.backlog_bytes += waiting.bytes.len();
            self.backlog.push_front(waiting);
        }
    }

    /// The runs from `next` on, the first of them without its first `offset` bytes.
    fn transmits(&self, next: usize, offset: usize) -> impl Iterator<Item = Transmit<'_>> {
        let mut offset = offset;
        self.runs[next..].iter().map(move |run| {
            let bytes = &self.scratch[run.start + std::mem::take(&mut offset)..run.end];
            Transmit::new(bytes, run.route.destination)
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
        tracing::debug!(%error, destination = %route.destination, "datagrams given up");
        Remedy::GiveUp
    }

    /// Copies a run to the backlog, or drops and counts it if that is full.
    fn keep(&mut self, run: Run) {
        let bytes = &self.scratch[run.start..run.end];
        if self.backlog_bytes + bytes.len() > BACKLOG_BYTES_MAX {
            self.counters.dropped_backlog.add(run.datagrams());
            return;
        }
        self.backlog_bytes += bytes.len();
        self.backlog.push_back(Waiting {
            bytes: bytes.to_vec(),
            segment: run.segment,
            route: run.route,
        });
    }

    fn make_room(&mut self, bytes: usize) {
        if self.scratch.len() - self.filled < bytes {
            self.flush();
        }
    }
}

/// Sealed packets of one viewer, sent as few messages as their sizes allow.
#[derive(Debug)]
pub(crate) struct Batch<'a, S: Sink = UdpSocket> {
    outbox: &'a mut Outbox<S>,
    route: Route,
    /// Where the run under construction begins in the scratch.
    start: usize,
    /// Size of the run's packets, 0 for an empty run.
    segment: usize,
    segments: usize,
}

impl<S: Sink> Batch<'_, S> {
    /// Adds the packet that `seal` writes into the buffer it is given, of 1500
    /// bytes, returning its length; 0 adds nothing.
    #[inline]
    pub(crate) fn push(&mut self, seal: impl FnOnce(&mut [u8]) -> usize) {
        if self.outbox.scratch.len() - self.outbox.filled < PACKET_BYTES_MAX {
            self.end_run();
            self.outbox.flush();
            self.start = 0;
        }
        let at = self.outbox.filled;
        let len = seal(&mut self.outbox.scratch[at..at + PACKET_BYTES_MAX]);
        if len == 0 {
            return;
        }
        if len > self.segment || at + len - self.start > SEGMENTED_BYTES_MAX {
            // A longer one cannot follow: it begins a run.
            self.end_run();
            self.segment = len;
        }
        self.outbox.filled = at + len;
        self.segments += 1;
        // A shorter packet ends its run, and so does the kernel's bound.
        if len < self.segment || self.segments == SEGMENTS_MAX {
            self.end_run();
        }
    }

    fn end_run(&mut self) {
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
}

impl<S: Sink> Drop for Batch<'_, S> {
    fn drop(&mut self) {
        self.end_run();
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
        let counters = Arc::new(SendCounters::default());
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
        let runs: Vec<u64> = outbox.runs.iter().map(Run::datagrams).collect();
        assert_eq!(runs, [4, 1, 2], "1000,1000,1000,400 · 120 · 1200,1200");
        assert_eq!((counters.packets.get(), counters.sends.get()), (7, 0));
        outbox.flush();
        assert_eq!(counters.sends.get(), 1);
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
            let counters = Arc::new(SendCounters::default());
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
                if rng.chance(0.8) {
                    outbox.flush();
                }
            }
            outbox.socket.room.set(0);
            outbox.flush();
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
        let counters = Arc::new(SendCounters::default());
        let mut outbox = Outbox::new(Narrow::default(), Arc::clone(&counters));
        let packets = BACKLOG_BYTES_MAX / 1000 + 5_000;
        for _ in 0..packets {
            outbox.send(&[0; 1000], anywhere());
        }
        outbox.flush();
        let dropped = usize::try_from(counters.dropped_backlog.get()).expect("few");
        assert!(outbox.backlog_bytes <= BACKLOG_BYTES_MAX);
        assert_eq!(outbox.backlog_bytes / 1000 + dropped, packets);
        outbox.socket.room.set(usize::MAX);
        outbox.resume();
        assert!(!outbox.is_blocked());
        assert_eq!(outbox.socket.taken.borrow().len(), packets - dropped);
    }

    /// A socket that refuses its first so many calls, each for the next reason.
    struct Broken {
        reasons: RefCell<Vec<SendError>>,
        taken: RefCell<Vec<u8>>,
    }

    impl Sink for Broken {
        fn send_batch(&self, transmits: &[Transmit<'_>]) -> Sent {
            let stopped = self.reasons.borrow_mut().pop();
            let transmits = if stopped.is_some() { &[] } else { transmits };
            let first_bytes = transmits.iter().map(|transmit| transmit.contents[0]);
            self.taken.borrow_mut().extend(first_bytes);
            Sent {
                transmits: transmits.len(),
                offset: 0,
                bytes: transmits
                    .iter()
                    .map(|transmit| transmit.contents.len())
                    .sum(),
                stopped,
            }
        }
    }

    fn after(reasons: Vec<SendError>) -> (Outbox<Broken>, Arc<SendCounters>) {
        let counters = Arc::new(SendCounters::default());
        let socket = Broken {
            reasons: RefCell::new(reasons),
            taken: RefCell::default(),
        };
        let mut outbox = Outbox::new(socket, Arc::clone(&counters));
        for number in 1..=3 {
            outbox.send(&[number; 50], anywhere());
        }
        outbox.flush();
        (outbox, counters)
    }

    #[test]
    fn each_refusal_has_its_remedy_and_is_counted() {
        // An ICMP answer to an earlier datagram costs nothing but a second call.
        let (outbox, counters) = after(vec![SendError::Refused]);
        assert_eq!(*outbox.socket.taken.borrow(), [1, 2, 3]);
        assert_eq!(
            (counters.peer_refused.get(), counters.abandoned.get()),
            (1, 0)
        );
        // One that persists costs its own datagram, not the others.
        let (outbox, counters) = after(vec![SendError::Refused, SendError::Refused]);
        assert_eq!(*outbox.socket.taken.borrow(), [2, 3]);
        assert_eq!(
            (counters.peer_refused.get(), counters.abandoned.get()),
            (2, 1)
        );
        let (outbox, counters) = after(vec![SendError::TooLarge]);
        assert_eq!(*outbox.socket.taken.borrow(), [2, 3]);
        assert_eq!((counters.too_large.get(), counters.abandoned.get()), (1, 1));
        let (outbox, counters) = after(vec![SendError::Unreachable]);
        assert_eq!(*outbox.socket.taken.borrow(), [2, 3]);
        assert_eq!(
            (counters.unreachable.get(), counters.abandoned.get()),
            (1, 1)
        );
    }

    #[test]
    fn a_full_interface_is_tried_again_without_an_event() {
        let (mut outbox, counters) = after(vec![SendError::NoBuffers]);
        assert!(outbox.is_blocked() && outbox.is_congested());
        assert!(outbox.socket.taken.borrow().is_empty());
        outbox.resume();
        assert!(!outbox.is_blocked() && !outbox.is_congested());
        assert_eq!(*outbox.socket.taken.borrow(), [1, 2, 3], "all, in order");
        assert_eq!(counters.interface_full.get(), 1);
        let (outbox, _) = after(vec![SendError::WouldBlock]);
        assert!(outbox.is_blocked() && !outbox.is_congested());
    }
}
