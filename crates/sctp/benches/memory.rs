//! Associations in memory: what they cost, and what they make of a path.
//!
//! ```text
//! cargo bench -p glassline-sctp --bench memory            # everything, a few minutes
//! cargo bench -p glassline-sctp --bench memory -- cost    # one of the three parts
//! cargo bench -p glassline-sctp --bench memory -- paths ours
//! ```
//!
//! `cost`: two ends on one thread, nothing lost, 64 KiB messages one way; bits of user
//! data per second of processor time of both ends together, the queue between them
//! included. Beside ours, in the same run: dcsctp and sctp-proto as released, so that
//! the ratio stands whatever the machine.
//!
//! `messages`: the same with messages of 16 bytes, and the processor time of each end apart.
//!
//! `paths`: virtual time. 1 Gbit/s, a queue of one bandwidth-delay product, random loss
//! both ways; goodput from the third second on, packets sent again per packet lost, and
//! the longest time in which nothing was delivered.

#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark may anchor virtual time anywhere"
)]

#[path = "../../../benches/figure.rs"]
mod figure;
#[path = "../tests/network.rs"]
#[expect(dead_code, reason = "the tests use all of it")]
mod network;
#[path = "../tests/peers/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the tests use all of it")]
mod peers;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_media::Bitrate;
use glassline_sctp::SendOptions;
use glassline_sim::{Capacity, Clock, Conditions, End, Loss, Simulation};
use network::Pair;
use peers::{Dcsctp, Happened, Ours, Peer, SctpProto, Setup};

/// Bytes of a message of bulk data.
const MESSAGE: usize = 64 * 1024;
/// Bytes of a small message, of which one packet carries 35.
const SMALL_MESSAGE: usize = 16;

/// Parts of the benchmark, by name.
const PARTS: [&str; 3] = ["cost", "messages", "paths"];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // Cargo adds an argument of its own.
    let wanted = |names: &[&str], name: &str| {
        let named = |word: &&String| names.contains(&word.as_str());
        let mut words = words.iter().filter(named).peekable();
        words.peek().is_none() || words.any(|word| word == name)
    };
    let makes: Vec<Make> = [Make::Ours, Make::Dcsctp, Make::SctpProto]
        .into_iter()
        .filter(|make| wanted(&["ours", "dcsctp", "sctp-proto"], make.name()))
        .collect();
    if wanted(&PARTS, "cost") {
        cost(&makes);
    }
    if wanted(&PARTS, "messages") {
        messages(&makes);
    }
    if wanted(&PARTS, "paths") {
        paths(&makes);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Make {
    Ours,
    Dcsctp,
    SctpProto,
}

impl Make {
    fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Dcsctp => "dcsctp",
            Self::SctpProto => "sctp-proto",
        }
    }

    fn pair(self, setup: Setup, now: Instant) -> [Box<dyn Peer>; 2] {
        [1, 2].map(|seed| -> Box<dyn Peer> {
            match self {
                Self::Ours => Box::new(Ours::new(setup, seed, now)),
                Self::Dcsctp => Box::new(Dcsctp::new(setup, seed, now)),
                Self::SctpProto => Box::new(SctpProto::new(setup)),
            }
        })
    }
}

/// A bulk transfer: keeps the sender busy, and counts what arrives.
struct Transfer {
    message: Bytes,
    connected: [bool; 2],
    delivered: u64,
    /// Number of messages that were delivered.
    messages: u64,
    /// When something was last delivered, and the longest gap since `reset`.
    last: Instant,
    gap: Duration,
}

impl Transfer {
    fn new(message_bytes: usize, now: Instant) -> Self {
        Self {
            message: Bytes::from(vec![0xa5; message_bytes]),
            connected: [false; 2],
            delivered: 0,
            messages: 0,
            last: now,
            gap: Duration::ZERO,
        }
    }

    /// Handles an event of an end.
    fn take(&mut self, end: usize, happened: Happened, now: Instant) {
        match happened {
            Happened::Connected => self.connected[end] = true,
            Happened::Message { data, .. } => {
                self.delivered += data.len() as u64;
                self.messages += 1;
                self.gap = self.gap.max(now - self.last);
                self.last = now;
            }
            other => panic!("{other:?}"),
        }
    }

    /// Queues messages so that the sender stays busy.
    fn fill(&self, sender: &mut dyn Peer, now: Instant) {
        if self.connected == [true; 2] {
            // More than the send buffer holds is refused.
            while sender.buffered(0) < BACKLOG
                && sender.send(0, &self.message, SendOptions::default(), now)
            {}
        }
    }
}

/// Most bytes that wait in the sender.
const BACKLOG: usize = 4 * MESSAGE;

fn cost(makes: &[Make]) {
    println!("user data per second of processor time, both ends on one core, Gbit/s");
    println!(
        "{:12} {:>8} {:>8} {:>7} {:>9} {:>11}",
        "", "window", "RTT ms", "check", "Gbit/s", "ns/packet"
    );
    for (window, rtt) in [(4 << 20, 0), (4 << 20, 20), (64 << 20, 20)] {
        for zero_checksum in [true, false] {
            for &make in makes {
                let setup = Setup {
                    window,
                    send_buffer: window + (1 << 20),
                    zero_checksum,
                    ..Setup::default()
                };
                let spent = spend(make, MESSAGE, setup, Duration::from_millis(rtt));
                println!(
                    "{:12} {:>6} M {rtt:>8} {:>7} {:>9.3} {:>11.0}",
                    make.name(),
                    window >> 20,
                    if zero_checksum { "zero" } else { "crc32c" },
                    spent.bits / spent.seconds / 1e9,
                    spent.seconds / spent.packets * 1e9,
                );
                let check = if zero_checksum { "zero" } else { "crc32c" };
                let name = format!("{}, {} MiB, {rtt} ms, {check}", make.name(), window >> 20);
                let rate = spent.bits / spent.seconds / 1e9;
                figure::print(&name, rate, "Gbit/s", "more", None);
            }
        }
    }
}

fn messages(makes: &[Make]) {
    println!("messages of {SMALL_MESSAGE} bytes in order, by processor time of each end");
    println!(
        "{:12} {:>8} {:>9} {:>9} {:>9} {:>14} {:>14}",
        "", "RTT ms", "ns send", "ns recv", "ns else", "M/s of a core", "M/s, both on 1"
    );
    for rtt in [0, 5] {
        for &make in makes {
            let rtt = Duration::from_millis(rtt);
            let spent = spend(make, SMALL_MESSAGE, Setup::default(), rtt);
            let each = |seconds: f64| seconds / spent.messages * 1e9;
            let [sender, receiver] = spent.ends.map(each);
            let total = each(spent.seconds);
            println!(
                "{:12} {:>8} {sender:>9.0} {receiver:>9.0} {:>9.0} {:>14.2} {:>14.2}",
                make.name(),
                rtt.as_millis(),
                total - sender - receiver,
                1e3 / sender.max(receiver),
                1e3 / total,
            );
            let name = format!(
                "{}, {} ms, {SMALL_MESSAGE} bytes",
                make.name(),
                rtt.as_millis()
            );
            figure::print(&name, 1e3 / total, "million messages/s", "more", None);
        }
    }
}

/// Result of [`spend`].
struct Spent {
    /// Bits and messages of user data that were delivered.
    bits: f64,
    messages: f64,
    /// Packets that the sender sent.
    packets: f64,
    /// Processor seconds of everything, with the queues between the ends.
    seconds: f64,
    /// Processor seconds of the sender and of the receiver.
    ends: [f64; 2],
}

/// Processor time of each end.
struct Account {
    at: Duration,
    ends: [Duration; 2],
}

impl Account {
    /// Adds the time since the last call to `end`; to neither if that is `None`.
    fn charge(&mut self, end: Option<usize>) {
        let now = glassline_net::thread_cpu();
        if let Some(end) = end {
            self.ends[end] += now - self.at;
        }
        self.at = now;
    }
}

/// Packets that are handed over before the other end runs: what one read of coalesced
/// datagrams returns.
const BATCH: usize = 44;

/// Moves packets by itself rather than with a `Simulation`: what a network does to each of
/// them would be counted, too.
///
/// Measures three processor seconds or so, after a while to get going.
fn spend(make: Make, message_bytes: usize, setup: Setup, rtt: Duration) -> Spent {
    let mut clock = Clock::new();
    let mut ends = make.pair(setup, clock.now());
    ends[0].connect(clock.now());
    let mut transfer = Transfer::new(message_bytes, clock.now());
    let mut wires: [Wire; 2] = Default::default();
    let mut counted: Option<Counted> = None;
    let began = processor_time();
    let mut account = Account {
        at: glassline_net::thread_cpu(),
        ends: [Duration::ZERO; 2],
    };
    for turn in 0u64.. {
        let now = clock.now();
        account.charge(None);
        for (index, end) in ends.iter_mut().enumerate() {
            while let Some(happened) = end.poll(now) {
                transfer.take(index, happened, now);
            }
            account.charge(Some(index));
        }
        transfer.fill(&mut *ends[0], now);
        account.charge(Some(0));
        let mut idle = true;
        for from in [0, 1] {
            for _ in 0..BATCH {
                let mut packet = wires[from].spare.pop().unwrap_or_default();
                if !ends[from].transmit(now, &mut packet) {
                    wires[from].spare.push(packet);
                    break;
                }
                wires[from].sent += 1;
                wires[from].flight.push_back((now + rtt / 2, packet));
            }
            account.charge(Some(from));
        }
        for (from, wire) in wires.iter_mut().enumerate() {
            let end = &mut ends[1 - from];
            let mut handed = 0;
            while handed < BATCH && wire.flight.front().is_some_and(|(at, _)| *at <= now) {
                let (_, packet) = wire.flight.pop_front().expect("it is there");
                end.handle(&packet, now);
                wire.spare.push(packet);
                handed += 1;
            }
            if handed > 0 {
                end.end_batch(now);
                idle = false;
            }
            account.charge(Some(1 - from));
        }
        // Reading the time costs as much as a few packets.
        let spent = turn.is_multiple_of(64).then(|| processor_time() - began);
        match (&counted, spent) {
            // Long enough for a window to open to its full size.
            (None, Some(spent)) if spent > Duration::from_secs(1) => {
                counted = Some(Counted::now(spent, &transfer, &wires[0], &account));
            }
            (Some(before), Some(spent)) if spent > before.time + Duration::from_secs(3) => {
                return Counted::now(spent, &transfer, &wires[0], &account).since(before);
            }
            _ => {}
        }
        if idle {
            let arrivals = wires.iter().map(|wire| Some(wire.flight.front()?.0));
            let deadlines = ends.iter().map(|end| end.deadline());
            let next = arrivals.chain(deadlines).flatten().min();
            clock.advance_to(next.expect("something to come"));
        }
        let now = clock.now();
        for end in &mut ends {
            if end.deadline().is_some_and(|at| at <= now) {
                end.on_deadline(now);
            }
        }
    }
    unreachable!("turns do not run out")
}

/// Counters at one time of a run.
struct Counted {
    time: Duration,
    bytes: u64,
    messages: u64,
    packets: u64,
    ends: [Duration; 2],
}

impl Counted {
    fn now(time: Duration, transfer: &Transfer, wire: &Wire, account: &Account) -> Self {
        Self {
            time,
            bytes: transfer.delivered,
            messages: transfer.messages,
            packets: wire.sent,
            ends: account.ends,
        }
    }

    fn since(&self, before: &Self) -> Spent {
        Spent {
            bits: (self.bytes - before.bytes) as f64 * 8.0,
            messages: (self.messages - before.messages) as f64,
            packets: (self.packets - before.packets) as f64,
            seconds: (self.time - before.time).as_secs_f64(),
            ends: [0, 1].map(|end| (self.ends[end] - before.ends[end]).as_secs_f64()),
        }
    }
}

/// Packets in flight in one direction, in order, and buffers to be used again.
#[derive(Default)]
struct Wire {
    flight: VecDeque<(Instant, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    sent: u64,
}

/// Returns the processor time of this thread, or wall-clock time where the system does not
/// provide it.
fn processor_time() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat");
    let first = |text: String| text.split(' ').next()?.parse().ok();
    match schedstat.ok().and_then(first) {
        Some(nanoseconds) => Duration::from_nanos(nanoseconds),
        None => ANCHOR.with(Instant::elapsed),
    }
}

thread_local! {
    static ANCHOR: Instant = Instant::now();
}

fn paths(makes: &[Make]) {
    println!("1 Gbit/s, queue 1 BDP: user data from the third to the tenth second");
    println!(
        "{:12} {:>7} {:>7} {:>9} {:>10} {:>8} {:>9} {:>7}",
        "", "RTT ms", "loss %", "Mbit/s", "gap ms", "lost", "re-sent", "ratio"
    );
    for rtt in [20, 100] {
        for loss in [0.0, 0.001, 0.01] {
            for &make in makes {
                path(make, Duration::from_millis(rtt), loss);
            }
        }
    }
}

const RATE: u64 = 1_000_000_000;
/// UDP, IP and a DTLS record with AES-GCM around each packet.
const AROUND: usize = 28 + 37;

fn path(make: Make, rtt: Duration, loss: f64) {
    let setup = Setup {
        window: 64 << 20,
        send_buffer: 64 << 20,
        ..Setup::default()
    };
    let bdp = (RATE as f64 / 8.0 * rtt.as_secs_f64()) as usize;
    let conditions = Conditions {
        capacity: Capacity::Rate(Bitrate::from_bps(RATE)),
        queue_bytes: bdp,
        ..Conditions::delayed(rtt / 2).with_loss(Loss::Random(loss))
    };
    let mut pair = Pair::new(conditions, 7, |now| make.pair(setup, now));
    pair.network = pair.network.with_header_bytes(AROUND);
    let start = pair.now();
    pair.end(0).connect(start);
    let mut transfer = Transfer::new(MESSAGE, start);
    let mut counted = None;
    pair.run_until(Duration::from_secs(10), |pair| {
        let now = pair.now();
        for (index, end) in pair.ends.iter_mut().enumerate() {
            while let Some(happened) = end.happened.pop_front() {
                transfer.take(index, happened, now);
            }
        }
        transfer.fill(pair.end(0), now);
        if counted.is_none() && now > start + Duration::from_secs(3) {
            counted = Some(transfer.delivered);
            transfer.gap = Duration::ZERO;
        }
        false
    });
    let bits = (transfer.delivered - counted.unwrap_or_default()) as f64 * 8.0;
    let counts = pair.network.link(End::A).counts();
    let lost = counts.lost + counts.dropped;
    let resent = pair.end(0).figures().resent;
    println!(
        "{:12} {:>7} {:>7} {:>9.1} {:>10.1} {lost:>8} {resent:>9} {:>7.2}",
        make.name(),
        rtt.as_millis(),
        loss * 100.0,
        bits / 7e6,
        transfer.gap.as_secs_f64() * 1e3,
        resent as f64 / lost as f64,
    );
    let name = format!(
        "{}, 1 Gbit/s, {} ms, {} % lost",
        make.name(),
        rtt.as_millis(),
        loss * 100.0
    );
    figure::print(&name, bits / 7e6, "Mbit/s", "more", None);
}
