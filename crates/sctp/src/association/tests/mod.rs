//! Tests of two associations over a seeded path, in virtual time.

mod beginning;
mod bounds;
mod delivery;
mod extensions;
mod lifecycle;
mod throughput;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_sim::{Conditions, Datagram, End, Network, Node, Rng, Simulation};

use super::Association;
use crate::{CloseReason, Config, Event, Secrets, SendOptions, State};

pub(crate) const MS: Duration = Duration::from_millis(1);

/// Returns secrets that follow from a seed.
pub(crate) fn secrets(seed: u64) -> Secrets {
    let mut random = [0; 40];
    Rng::new(seed).fill(&mut random);
    Secrets::from_random(random)
}

/// One end, with the events that it reported.
pub(crate) struct Side {
    pub(crate) association: Association,
    address: SocketAddr,
    peer: SocketAddr,
    dropped: Vec<crate::Dropped>,
    pub(crate) events: Vec<Event>,
    /// Messages that were read: time, stream, content.
    pub(crate) messages: VecDeque<(Instant, u16, Bytes)>,
    pub(crate) received: u64,
    /// Whether the end reads messages as they come.
    pub(crate) reads: bool,
    /// Whether the end keeps what it reads.
    pub(crate) keeps: bool,
    /// Longest time between two messages after `steady`.
    pub(crate) gap: Duration,
    latest: Option<Instant>,
    /// Size of messages that are sent without end, and how many bytes are kept buffered.
    pub(crate) bulk: Option<(usize, usize)>,
    payload: Bytes,
}

impl Side {
    fn new(association: Association, end: End) -> Self {
        Self {
            association,
            address: end.address(),
            peer: end.other().address(),
            dropped: Vec::new(),
            events: Vec::new(),
            messages: VecDeque::new(),
            received: 0,
            reads: true,
            keeps: true,
            gap: Duration::ZERO,
            latest: None,
            bulk: None,
            payload: Bytes::from(vec![0x5a; 1 << 20]),
        }
    }

    fn read(&mut self, now: Instant) {
        if !self.reads {
            return;
        }
        while let Some(event) = self.association.poll_event() {
            match event {
                Event::Message { stream, data, .. } => {
                    self.received += data.len() as u64;
                    if let Some(latest) = self.latest.replace(now) {
                        self.gap = self.gap.max(now - latest);
                    }
                    if self.keeps {
                        self.messages.push_back((now, stream, data));
                    }
                }
                event => self.events.push(event),
            }
        }
    }

    fn fill(&mut self, now: Instant) {
        let Some((size, high)) = self.bulk else {
            return;
        };
        while self.association.state == State::Established
            && self.association.buffered(0) < high
            && self
                .association
                .send(
                    0,
                    53,
                    self.payload.slice(..size),
                    SendOptions::default(),
                    now,
                )
                .is_ok()
        {}
    }

    /// Restarts the measurement of gaps.
    pub(crate) fn measure(&mut self) {
        self.gap = Duration::ZERO;
        self.received = 0;
        self.latest = None;
    }
}

impl Node for Side {
    fn is_at(&self, address: SocketAddr) -> bool {
        address == self.address
    }

    fn handle(&mut self, now: Instant, datagram: Datagram) {
        if let Err(dropped) = self.association.handle_packet(&datagram.bytes, now) {
            self.dropped.push(dropped);
        }
    }

    fn end_batch(&mut self, now: Instant) {
        self.association.end_batch(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        self.read(now);
        self.fill(now);
        let mut out = [0; 2048];
        let len = self.association.poll_transmit(now, &mut out)?;
        Some(Datagram {
            from: self.address,
            to: self.peer,
            bytes: out[..len].to_vec(),
        })
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.association.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.association.handle_timeout(now);
    }

    fn state(&self) -> String {
        format!("{:?}", self.association.report())
    }
}

/// A path with an association at either end.
pub(crate) struct World {
    pub(crate) network: Network,
    pub(crate) a: Side,
    pub(crate) b: Side,
    /// Another pair of associations on the same path.
    pub(crate) rivals: Option<Box<[Side; 2]>>,
}

impl Simulation for World {
    fn with_nodes<R>(&mut self, run: impl FnOnce(&mut Network, &mut [&mut dyn Node]) -> R) -> R {
        let (network, a, b) = (&mut self.network, &mut self.a, &mut self.b);
        match self.rivals.as_deref_mut() {
            None => run(network, &mut [a, b]),
            Some([c, d]) => run(network, &mut [a, b, c, d]),
        }
    }
}

impl World {
    pub(crate) fn new(config: &Config, conditions: Conditions, seed: u64) -> Self {
        Self::asymmetric(config.clone(), config.clone(), conditions, seed)
    }

    pub(crate) fn asymmetric(a: Config, b: Config, conditions: Conditions, seed: u64) -> Self {
        let network = Network::pair(conditions, seed);
        let now = network.now();
        let side = |config, seed, end| Side::new(Association::new(config, secrets(seed), now), end);
        Self {
            a: side(a, seed * 2, End::A),
            b: side(b, seed * 2 + 1, End::B),
            network,
            rivals: None,
        }
    }

    /// Adds another pair to the path, which connects.
    pub(crate) fn add_rivals(&mut self, config: &Config) {
        let now = self.now();
        let side = |seed, end: End| {
            let mut side = Side::new(Association::new(config.clone(), secrets(seed), now), end);
            side.address.set_port(RIVALS_PORT);
            side.peer.set_port(RIVALS_PORT);
            side
        };
        let mut rivals = Box::new([side(1001, End::A), side(1002, End::B)]);
        rivals[0].association.connect(now);
        self.rivals = Some(rivals);
        self.network.join(0, 2, 3);
    }

    /// Connects both ends, and waits until they are connected.
    pub(crate) fn connected(mut self) -> Self {
        let now = self.now();
        self.a.association.connect(now);
        self.b.association.connect(now);
        self.expect_within(Duration::from_secs(20), "both are connected", |world| {
            let open = |side: &Side| side.association.state == State::Established;
            open(&world.a) && open(&world.b)
        });
        self
    }

    pub(crate) fn now(&self) -> Instant {
        self.network.now()
    }
}

/// Port of the other pair, on the same hosts.
const RIVALS_PORT: u16 = 5001;

/// Returns content from which the message's number can be read.
pub(crate) fn numbered(number: u32, len: usize) -> Bytes {
    let mut bytes = vec![(number % 251) as u8; len.max(4)];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    Bytes::from(bytes)
}

pub(crate) fn number_of(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(*bytes.first_chunk().expect("four bytes"))
}
