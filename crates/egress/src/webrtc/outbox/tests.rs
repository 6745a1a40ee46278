use super::backlog::BACKLOG_BYTES_MAX;
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
        destination: receiver.local_addr().into(),
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

/// A socket with room for a number of datagrams, until a test gives it more.
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
        destination: SocketAddr::from(([127, 0, 0, 1], 9)).into(),
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
                // Runs of equal sizes, as fragments of a frame are.
                let size = [1200, 1200, 1200, 700, 100][usize::try_from(rng.below(5)).expect("5")];
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
        assert_eq!(outbox.backlog.bytes(), 0, "seed {seed}");
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
    assert!(outbox.backlog.bytes() <= BACKLOG_BYTES_MAX);
    assert_eq!(outbox.backlog.bytes() / 1000 + dropped, packets);
    outbox.socket.room.set(usize::MAX);
    outbox.resume();
    assert!(!outbox.is_blocked());
    assert_eq!(outbox.socket.taken.borrow().len(), packets - dropped);
}

/// A socket that refuses its first calls, each with the next error of a list.
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

/// However many answers of closed ports arrive one behind the other, no datagram is lost for them,
/// none overtakes another, and each turn of the thread makes few calls.
#[test]
fn answers_of_many_closed_ports_cost_the_others_no_datagram() {
    for answers in [1, 2, 16, 17, 64, 65, 1000] {
        let (mut outbox, counters) = after((0..answers).map(|_| SendError::Refused).collect());
        let mut turns = 1;
        while outbox.is_blocked() {
            assert!(outbox.is_congested(), "nothing else wakes the thread");
            let before = counters.sends.get();
            outbox.resume();
            assert!(counters.sends.get() - before <= 20, "a bounded turn");
            turns += 1;
            assert!(turns < 100, "{answers} answers");
        }
        assert_eq!(*outbox.socket.taken.borrow(), [1, 2, 3], "{answers}");
        assert_eq!(counters.peer_refused.get(), answers as u64);
        assert_eq!(counters.abandoned.get(), 0, "{answers}");
    }
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

#[test]
fn sixteen_runs_or_192_kib_are_worth_a_system_call() {
    let empty = || {
        let counters = Arc::new(SendCounters::default());
        Outbox::new(loopback(), counters)
    };
    let mut outbox = empty();
    for _ in 0..15 {
        assert!(!outbox.is_ripe());
        outbox.send(&[0; 20], anywhere());
    }
    assert!(!outbox.is_ripe(), "15 runs");
    outbox.send(&[0; 20], anywhere());
    assert!(outbox.is_ripe(), "16 runs");
    let mut outbox = empty();
    for _ in 0..3 {
        assert!(!outbox.is_ripe());
        outbox.send_segmented(&[0; 64 << 10], 1024, anywhere());
    }
    assert!(outbox.is_ripe(), "3 runs of 64 KiB");
}
