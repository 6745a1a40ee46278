//! A network between the ends, in user space: the laboratory's links over sockets.
//!
//! ```text
//! client ◄─ socket ─► near ─► up: Link ──► far ◄─ socket ─► server
//!                       └◄─ down: Link ◄──┘
//! ```
//!
//! Needs no privilege. What differs from a real network is what a thread adds that
//! wakes a little late, and that datagrams pass the kernel twice as often.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glassline_media::Bitrate;
use glassline_net::{BindError, Options, ReceiveBatch, UdpSocket};
use glassline_sim::{Capacity, Conditions, Delays, Family, Link, Loss};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

/// What stands between the ends, the same each way.
#[derive(Clone, Debug, PartialEq)]
pub struct Impairment {
    /// One way.
    pub delay: Duration,
    /// Further delay, drawn for every 10 ms.
    pub jitter: Duration,
    /// Further delay that swings as voice calls' packets were seen to; 20 ms in the mean.
    pub family: Option<Family>,
    /// Probability that a datagram is lost, 0..=1.
    pub loss: f64,
    /// Bits a second; `None` bounds nothing.
    pub rate: Option<u64>,
    /// What the bottleneck's queue takes to empty; `None` takes one round trip, and
    /// 10 ms at the least.
    pub queue: Option<Duration>,
    /// Probability that a datagram is held back so that others overtake it.
    pub reorder: f64,
    /// Decides losses, jitter and reordering.
    pub seed: u64,
}

impl Default for Impairment {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            family: None,
            loss: 0.0,
            rate: None,
            queue: None,
            reorder: 0.0,
            seed: 1,
        }
    }
}

/// Longer is no network.
const DELAY_MAX: Duration = Duration::from_secs(10);
const QUEUE_MIN: Duration = Duration::from_millis(10);

impl FromStr for Impairment {
    type Err = String;

    /// `delay=10ms loss=1% rate=1gbit jitter=2ms queue=20ms reorder=0.1% seed=7`, apart
    /// by blanks or commas; `rtt=20ms` is twice a delay, `jitter=ar98` a family of delays.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut found = Self::default();
        let words = text.split([' ', ',']).filter(|word| !word.is_empty());
        for word in words {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| format!("{word:?} is not NAME=VALUE, as delay=10ms"))?;
            let wrong = |what: &str| format!("{name}={value}: give {what}");
            match name {
                "delay" => found.delay = time(value).ok_or_else(|| wrong("a time, as 10ms"))?,
                "rtt" => found.delay = time(value).ok_or_else(|| wrong("a time, as 20ms"))? / 2,
                "jitter" => match value.parse() {
                    Ok(family) => found.family = Some(family),
                    Err(_) => {
                        found.jitter = time(value)
                            .ok_or_else(|| wrong("a time, as 2ms, or a family, as ar98"))?;
                    }
                },
                "queue" => {
                    found.queue = Some(time(value).ok_or_else(|| wrong("a time, as 20ms"))?);
                }
                "loss" => found.loss = share(value).ok_or_else(|| wrong("a share, as 1%"))?,
                "reorder" => found.reorder = share(value).ok_or_else(|| wrong("a share, as 1%"))?,
                "rate" => {
                    found.rate = Some(rate(value).ok_or_else(|| wrong("a rate, as 1gbit"))?);
                }
                "seed" => found.seed = value.parse().map_err(|_| wrong("a number"))?,
                _ => {
                    return Err(format!(
                        "{name:?} is none of delay, rtt, jitter, loss, rate, queue, reorder, seed"
                    ));
                }
            }
        }
        Ok(found)
    }
}

impl fmt::Display for Impairment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(f, "delay={}ms", ms(self.delay))?;
        if !self.jitter.is_zero() {
            write!(f, " jitter={}ms", ms(self.jitter))?;
        }
        if let Some(family) = self.family {
            write!(f, " jitter={family}")?;
        }
        if self.loss > 0.0 {
            write!(f, " loss={}%", self.loss * 100.0)?;
        }
        if let Some(rate) = self.rate {
            write!(f, " rate={}mbit", rate as f64 / 1e6)?;
        }
        if let Some(queue) = self.queue {
            write!(f, " queue={}ms", ms(queue))?;
        }
        if self.reorder > 0.0 {
            write!(f, " reorder={}%", self.reorder * 100.0)?;
        }
        if self.seed != 1 {
            write!(f, " seed={}", self.seed)?;
        }
        Ok(())
    }
}

fn time(text: &str) -> Option<Duration> {
    let (number, worth) = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("", 1e-3)]
        .iter()
        .find_map(|(ending, worth)| Some((text.strip_suffix(ending)?, worth)))?;
    let seconds = number.parse::<f64>().ok()? * worth;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| *time <= DELAY_MAX)
}

fn share(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%').unwrap_or(text).parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

fn rate(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let text = text.strip_suffix("/s").unwrap_or(&text);
    let text = text.strip_suffix("bit").unwrap_or(text);
    let (number, worth) = [("k", 1e3), ("m", 1e6), ("g", 1e9), ("", 1.0)]
        .iter()
        .find_map(|(ending, worth)| Some((text.strip_suffix(ending)?, worth)))?;
    let bits = number.parse::<f64>().ok()? * worth;
    (1e3..=1e12).contains(&bits).then_some(bits as u64)
}

impl Impairment {
    fn conditions(&self) -> Conditions {
        let queue = self.queue.unwrap_or(self.delay * 2).max(QUEUE_MIN);
        let mut conditions = match self.rate {
            Some(rate) => Conditions::limited(Bitrate::from_bps(rate), self.delay, queue),
            None => Conditions {
                capacity: Capacity::Unlimited,
                ..Conditions::delayed(self.delay)
            },
        };
        if self.loss > 0.0 {
            conditions.loss = Loss::Random(self.loss);
        }
        conditions.jitter = self.jitter;
        conditions.reorder = self.reorder;
        conditions
    }
}

/// A thread that carries datagrams between a client and a server.
#[derive(Debug)]
pub struct Relay {
    /// Where the client sends what is for the server.
    near: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Starts it on loopback or, where the server is elsewhere, on all addresses.
    pub fn start(impairment: &Impairment, server: SocketAddr) -> Result<Self, BindError> {
        let options = Options {
            receive_buffer: Some(8 << 20),
            send_buffer: Some(8 << 20),
            coalescing: true,
            ..Options::default()
        };
        let loopback: SocketAddr = match server {
            SocketAddr::V4(_) => ([127, 0, 0, 1], 0).into(),
            SocketAddr::V6(_) => ([0, 0, 0, 0, 0, 0, 0, 1], 0).into(),
        };
        let any: SocketAddr = match server {
            _ if server.ip().is_loopback() => loopback,
            SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
            SocketAddr::V6(_) => ([0u16; 8], 0).into(),
        };
        let near = UdpSocket::bind(loopback, &options)?;
        let far = UdpSocket::bind(any, &options)?;
        let conditions = impairment.conditions();
        let carrier = Carrier {
            ways: [
                Way::new(conditions.clone(), impairment.family, impairment.seed),
                Way::new(
                    conditions,
                    impairment.family,
                    impairment.seed.wrapping_add(1),
                ),
            ],
            sockets: [near, far],
            server,
            client: None,
            batch: ReceiveBatch::for_coalescing(16),
            free: Vec::new(),
        };
        let address = carrier.sockets[0].local_addr();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("impair".to_owned())
            .spawn(move || {
                if let Err(error) = carrier.run(&flag) {
                    tracing::error!(%error, "the relay between the ends stopped");
                }
            });
        Ok(Self {
            near: address,
            stop,
            thread: Some(thread.expect("threads can be started")),
        })
    }

    /// Where the client sends what is for the server.
    pub const fn address(&self) -> SocketAddr {
        self.near
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the relay between the ends has panicked");
        }
    }
}

/// Puts a relay before the first host candidate of `answer`, and the relay's address in
/// place of all candidates.
pub fn through(
    answer: &str,
    impairment: &Impairment,
) -> Option<Result<(Relay, String), BindError>> {
    let first = answer.lines().find_map(|line| {
        let mut words = line.strip_prefix("a=candidate:")?.split(' ');
        let (_, _, protocol, _) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let (ip, port) = (words.next()?, words.next()?);
        if !protocol.eq_ignore_ascii_case("udp") {
            return None;
        }
        Some(SocketAddr::new(ip.parse().ok()?, port.parse().ok()?))
    })?;
    let relay = match Relay::start(impairment, first) {
        Ok(relay) => relay,
        Err(error) => return Some(Err(error)),
    };
    let at = relay.address();
    let mut out = String::new();
    let mut is_written = false;
    for line in answer.lines() {
        if !line.starts_with("a=candidate:") {
            out += line;
            out += "\r\n";
        } else if !std::mem::replace(&mut is_written, true) {
            let (ip, port) = (at.ip(), at.port());
            out += &format!("a=candidate:1 1 udp 2130706431 {ip} {port} typ host\r\n");
        }
    }
    Some(Ok((relay, out)))
}

/// Datagrams under way each way at the most: 200 MB.
const UNDER_WAY_MAX: usize = 160_000;
/// Headers of IP and UDP, which a bottleneck carries too.
const HEADER_BYTES: usize = 28;
/// Below this the thread sleeps in short steps: waits for sockets end at whole
/// milliseconds.
const FINE: Duration = Duration::from_millis(2);
const STEP: Duration = Duration::from_micros(60);
const IDLE: Duration = Duration::from_millis(20);
/// The most that goes out in one call.
const RUN_BYTES_MAX: usize = 60_000;
const RUN_SEGMENTS_MAX: usize = 60;

/// Delays of a family in time: whatever is sent at a moment meets that moment's.
struct Swings {
    delays: Delays,
    start: Option<Instant>,
    /// When each may enter the link, by that and by its number.
    waiting: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>,
    sent: u64,
}

/// Between two delays; a call's packets are no closer.
const SWING_STEP: Duration = Duration::from_millis(10);
/// Ten minutes of them, then they come again.
const SWING_STEPS: usize = 60_000;

impl Swings {
    fn new(family: Family, seed: u64) -> Self {
        Self {
            delays: Delays::of_family(family, seed, SWING_STEPS, SWING_STEP),
            start: None,
            waiting: BinaryHeap::new(),
            sent: 0,
        }
    }

    fn send(&mut self, now: Instant, datagram: Vec<u8>) {
        let start = *self.start.get_or_insert(now);
        let step = now.saturating_duration_since(start).as_nanos() / SWING_STEP.as_nanos();
        let all = self.delays.packets();
        let step = usize::try_from(step).unwrap_or_default() % all.len();
        let delay = all[step].unwrap_or_default();
        self.sent += 1;
        self.waiting
            .push(Reverse((now + delay, self.sent, datagram)));
    }

    fn next(&self) -> Option<Instant> {
        Some(self.waiting.peek()?.0.0)
    }

    fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, _, datagram)) = self.waiting.pop()?;
        Some(datagram)
    }
}

struct Way {
    link: Link<Vec<u8>>,
    /// Before the link.
    swings: Option<Swings>,
    /// Equal datagrams that go out together, and their size.
    run: Vec<u8>,
    segment: usize,
    segments: usize,
}

impl Way {
    fn new(conditions: Conditions, family: Option<Family>, seed: u64) -> Self {
        Self {
            link: Link::new(conditions, seed),
            swings: family.map(|family| Swings::new(family, seed)),
            run: Vec::with_capacity(RUN_BYTES_MAX),
            segment: 0,
            segments: 0,
        }
    }

    fn under_way(&self) -> usize {
        let swinging = self.swings.as_ref().map_or(0, |it| it.waiting.len());
        self.link.in_flight() + swinging
    }

    fn send(&mut self, now: Instant, datagram: Vec<u8>) {
        match &mut self.swings {
            Some(swings) => swings.send(now, datagram),
            None => self.enter(now, datagram),
        }
    }

    fn enter(&mut self, now: Instant, datagram: Vec<u8>) {
        self.link.send(now, datagram.len() + HEADER_BYTES, datagram);
    }

    /// What has waited long enough goes on.
    fn advance(&mut self, now: Instant) {
        while let Some(datagram) = self.swings.as_mut().and_then(|it| it.poll(now)) {
            self.enter(now, datagram);
        }
    }

    fn next(&self) -> Option<Instant> {
        let swinging = self.swings.as_ref().and_then(Swings::next);
        [self.link.next_arrival(), swinging]
            .into_iter()
            .flatten()
            .min()
    }
}

struct Carrier {
    /// Up and down.
    ways: [Way; 2],
    /// Near and far.
    sockets: [UdpSocket; 2],
    server: SocketAddr,
    /// Whoever sent to the near socket last.
    client: Option<SocketAddr>,
    batch: ReceiveBatch,
    free: Vec<Vec<u8>>,
}

impl Carrier {
    fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut poll = Poll::new()?;
        let mut events = Events::with_capacity(4);
        for (index, socket) in self.sockets.iter().enumerate() {
            let descriptor = socket.as_raw_fd();
            let mut source = SourceFd(&descriptor);
            let registry = poll.registry();
            registry.register(&mut source, Token(index), Interest::READABLE)?;
        }
        while !stop.load(Ordering::Relaxed) {
            let mut busy = false;
            for side in 0..2 {
                busy |= self.receive(side)?;
            }
            let now = Instant::now();
            for way in 0..2 {
                busy |= self.send(way, now);
            }
            if busy {
                continue;
            }
            let next = self.ways.iter().filter_map(Way::next).min();
            let wait = next
                .map_or(IDLE, |at| at.saturating_duration_since(now))
                .min(IDLE);
            if wait < FINE {
                std::thread::sleep(wait.min(STEP));
                continue;
            }
            match poll.poll(&mut events, Some(wait - FINE / 2)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn receive(&mut self, side: usize) -> io::Result<bool> {
        let count = self.sockets[side].receive_batch(&mut self.batch)?;
        let now = Instant::now();
        for datagram in self.batch.iter_mut() {
            if side == 0 {
                self.client = Some(datagram.source);
            } else if datagram.source != self.server {
                continue;
            }
            let size = datagram
                .segment
                .map_or(datagram.bytes.len(), usize::from)
                .max(1);
            for bytes in datagram.bytes.chunks(size) {
                if self.ways[side].under_way() >= UNDER_WAY_MAX {
                    continue;
                }
                let mut owned = self.free.pop().unwrap_or_default();
                owned.clear();
                owned.extend_from_slice(bytes);
                self.ways[side].send(now, owned);
            }
        }
        Ok(count > 0)
    }

    fn send(&mut self, way: usize, now: Instant) -> bool {
        let mut any = false;
        self.ways[way].advance(now);
        while let Some(arrival) = self.ways[way].link.poll(now) {
            any = true;
            let datagram = arrival.datagram;
            let it = &self.ways[way];
            let fits = it.segments < RUN_SEGMENTS_MAX
                && it.run.len() + datagram.len() <= RUN_BYTES_MAX
                && (it.segments == 0
                    || datagram.len() <= it.segment && it.run.len() == it.segment * it.segments);
            if !fits {
                self.flush(way);
            }
            let it = &mut self.ways[way];
            if it.segments == 0 {
                it.segment = datagram.len();
            }
            it.run.extend_from_slice(&datagram);
            it.segments += 1;
            if self.free.len() < 4096 {
                self.free.push(datagram);
            }
        }
        self.flush(way);
        any
    }

    fn flush(&mut self, way: usize) {
        let it = &mut self.ways[way];
        let to = if way == 0 {
            Some(self.server)
        } else {
            self.client
        };
        if it.segments > 0
            && let Some(to) = to
        {
            // What the kernel does not take is lost, as on a real network.
            let _ = self.sockets[1 - way].send_segmented(&it.run, it.segment, to);
        }
        it.run.clear();
        it.segments = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn impairments_are_written_as_with_netem() {
        let found: Impairment = "delay=10ms loss=1% rate=1gbit jitter=2ms"
            .parse()
            .expect("all known");
        let expected = Impairment {
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(2),
            loss: 0.01,
            rate: Some(1_000_000_000),
            ..Impairment::default()
        };
        assert_eq!(found, expected);
        assert_eq!(
            "rtt=20ms,loss=1,rate=1Gbit/s,jitter=2".parse(),
            Ok(expected)
        );
        let voice: Impairment = "delay=40ms jitter=ar98 loss=1%".parse().expect("known");
        assert_eq!(voice.family, Some(Family::Ar98));
        assert_eq!(voice.to_string(), "delay=40ms jitter=ar98 loss=1%");
        for (text, wanted) in [
            ("jitter=ar99", "as ar98"),
            ("delay", "NAME=VALUE"),
            ("delay=x", "as 10ms"),
            ("delay=20s", "as 10ms"),
            ("loss=101%", "as 1%"),
            ("rate=0", "as 1gbit"),
            ("speed=1", "none of delay"),
        ] {
            let error = text.parse::<Impairment>().expect_err(text);
            assert!(error.contains(wanted), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_again(delay_us in 0u64..1_000_000, loss in 0u32..100, seed: u64) {
            let impairment = Impairment {
                delay: Duration::from_micros(delay_us),
                loss: f64::from(loss) / 100.0,
                seed,
                ..Impairment::default()
            };
            let again: Impairment = impairment.to_string().parse().expect("our own");
            prop_assert!((again.loss - impairment.loss).abs() < 1e-9);
            prop_assert_eq!(again.seed, impairment.seed);
            let apart = again.delay.abs_diff(impairment.delay);
            prop_assert!(apart < Duration::from_micros(1));
        }

        #[test]
        fn any_text_is_taken_or_refused(text in "\\PC{0,40}") {
            let _ = text.parse::<Impairment>();
        }
    }

    #[test]
    fn a_family_s_delays_come_in_their_time() {
        let mut swings = Swings::new(Family::Ar98, 5);
        let start = Instant::now();
        for number in 0..200u8 {
            let now = start + SWING_STEP * u32::from(number);
            swings.send(now, vec![number]);
        }
        let delays: Vec<_> = swings.delays.packets()[..200].to_vec();
        let mut at = start;
        let mut came = Vec::new();
        while let Some(next) = swings.next() {
            at = at.max(next);
            let datagram = swings.poll(at).expect("it is due");
            let sent = start + SWING_STEP * u32::from(datagram[0]);
            assert_eq!(Some(at - sent), delays[usize::from(datagram[0])]);
            came.push(datagram[0]);
        }
        assert!(came.is_sorted() && came.len() == 200, "nobody overtakes");
    }

    #[test]
    fn datagrams_come_late_and_in_order_both_ways() {
        let socket = || std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let (client, server) = (socket(), socket());
        for socket in [&client, &server] {
            let patience = Some(Duration::from_secs(10));
            socket.set_read_timeout(patience).expect("a time");
        }
        let address = server.local_addr().expect("bound");
        let impairment: Impairment = "delay=20ms".parse().expect("a delay");
        let relay = Relay::start(&impairment, address).expect("loopback");
        let start = Instant::now();
        for number in 0..10u8 {
            client
                .send_to(&[number; 100], relay.address())
                .expect("sent");
        }
        let mut bytes = [0; 200];
        for number in 0..10u8 {
            let (len, from) = server.recv_from(&mut bytes).expect("it comes");
            assert_eq!((len, bytes[0]), (100, number));
            assert!(start.elapsed() >= Duration::from_millis(20));
            server.send_to(&[number], from).expect("sent");
        }
        for number in 0..10u8 {
            assert_eq!(client.recv(&mut bytes).expect("it comes"), 1);
            assert_eq!(bytes[0], number);
        }
        assert!(start.elapsed() >= Duration::from_millis(40));
    }
}
