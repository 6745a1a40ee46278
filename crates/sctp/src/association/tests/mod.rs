//! Two associations over a seeded path, in virtual time.

mod bounds;
mod delivery;
mod extensions;
mod lifecycle;
mod throughput;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_sim::{Clock, Conditions, End, Path, Rng};

use super::Association;
use crate::{CloseReason, Config, Event, Secrets, SendOptions, State};

pub(crate) const MS: Duration = Duration::from_millis(1);

/// Secrets that follow from a seed.
pub(crate) fn secrets(seed: u64) -> Secrets {
    let mut random = [0; 40];
    Rng::new(seed).fill(&mut random);
    Secrets::from_random(random)
}

/// One end, and what it was told.
pub(crate) struct Side {
    pub(crate) association: Association,
    pub(crate) events: Vec<Event>,
    /// Messages read: when, stream, bytes.
    pub(crate) messages: VecDeque<(Instant, u16, Bytes)>,
    pub(crate) received: u64,
    /// Takes messages as they come.
    pub(crate) reads: bool,
    /// Keeps what it takes.
    pub(crate) keeps: bool,
    /// The longest time between two messages after `steady`.
    pub(crate) gap: Duration,
    latest: Option<Instant>,
    /// Sends messages of this size without end, so that so much is buffered.
    pub(crate) bulk: Option<(usize, usize)>,
    payload: Bytes,
}

impl Side {
    fn new(association: Association) -> Self {
        Self {
            association,
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

    /// Restarts the measure of gaps.
    pub(crate) fn measure(&mut self) {
        self.gap = Duration::ZERO;
        self.received = 0;
        self.latest = None;
    }
}

/// A path with an association at either end.
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) path: Path,
    pub(crate) a: Side,
    pub(crate) b: Side,
    /// Larger packets vanish.
    pub(crate) narrow: Option<usize>,
    /// Two more on the same path.
    pub(crate) rivals: Option<Box<[Side; 2]>>,
    pub(crate) lost_and_found: Vec<crate::Dropped>,
}

impl World {
    pub(crate) fn new(config: &Config, conditions: Conditions, seed: u64) -> Self {
        Self::asymmetric(config.clone(), config.clone(), conditions, seed)
    }

    pub(crate) fn asymmetric(a: Config, b: Config, conditions: Conditions, seed: u64) -> Self {
        let clock = Clock::new();
        let now = clock.now();
        let path = Path::symmetric(conditions, seed);
        Self {
            clock,
            path,
            a: Side::new(Association::new(a, secrets(seed * 2), now)),
            b: Side::new(Association::new(b, secrets(seed * 2 + 1), now)),
            narrow: None,
            rivals: None,
            lost_and_found: Vec::new(),
        }
    }

    /// Another pair shares the path, and connects.
    pub(crate) fn add_rivals(&mut self, config: &Config) {
        let now = self.now();
        let side = |seed| Side::new(Association::new(config.clone(), secrets(seed), now));
        let mut rivals = Box::new([side(1001), side(1002)]);
        rivals[0].association.connect(now);
        self.rivals = Some(rivals);
    }

    /// Both connect, and are.
    pub(crate) fn connected(mut self) -> Self {
        self.a.association.connect(self.clock.now());
        self.b.association.connect(self.clock.now());
        let connected = self.run_until(Duration::from_secs(20), |world| {
            let open = |side: &Side| side.association.state == State::Established;
            open(&world.a) && open(&world.b)
        });
        assert!(connected, "the handshake ends");
        self
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// All that can happen at this moment.
    pub(crate) fn settle(&mut self) {
        let now = self.clock.now();
        let mut out = [0; 2048];
        let mut sides: Vec<(End, &mut Side)> = vec![(End::A, &mut self.a), (End::B, &mut self.b)];
        if let Some([a, b]) = self.rivals.as_deref_mut() {
            sides.extend([(End::A, a), (End::B, b)]);
        }
        loop {
            let mut busy = false;
            let mut touched = [false; 4];
            while let Some((end, mut bytes)) = self.path.poll(now) {
                busy = true;
                // The last byte tells the pairs apart.
                let pair = bytes.pop().expect("a packet");
                let index = 2 * usize::from(pair) + usize::from(end == End::B);
                touched[index] = true;
                if let Err(dropped) = sides[index].1.association.handle_packet(&bytes, now) {
                    self.lost_and_found.push(dropped);
                }
            }
            for (index, (end, side)) in sides.iter_mut().enumerate() {
                if touched[index] {
                    side.association.end_batch(now);
                }
                if side.association.poll_timeout().is_some_and(|at| at <= now) {
                    side.association.handle_timeout(now);
                    busy = true;
                }
                side.read(now);
                side.fill(now);
                while let Some(len) = side.association.poll_transmit(now, &mut out[..2047]) {
                    busy = true;
                    out[len] = u8::try_from(index / 2).expect("two pairs");
                    if self.narrow.is_none_or(|most| len <= most) {
                        self.path.send(*end, now, len + 1, out[..=len].to_vec());
                    }
                    side.fill(now);
                }
                side.read(now);
            }
            if !busy {
                return;
            }
        }
    }

    /// Goes on until `done` or for `time`; whether it was done.
    pub(crate) fn run_until(
        &mut self,
        time: Duration,
        mut done: impl FnMut(&mut Self) -> bool,
    ) -> bool {
        let end = self.now() + time;
        loop {
            self.settle();
            if done(self) {
                return true;
            }
            let deadlines = [
                self.path.next_arrival(),
                self.a.association.poll_timeout(),
                self.b.association.poll_timeout(),
                Some(end),
            ];
            let rivals = self.rivals.iter().flat_map(|it| it.iter());
            let rivals = rivals.map(|side| side.association.poll_timeout());
            self.clock
                .advance_to_earliest(deadlines.into_iter().chain(rivals));
            if self.now() >= end {
                self.settle();
                return done(self);
            }
        }
    }

    pub(crate) fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }
}

/// Bytes that tell which message they are.
pub(crate) fn numbered(number: u32, len: usize) -> Bytes {
    let mut bytes = vec![(number % 251) as u8; len.max(4)];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    Bytes::from(bytes)
}

pub(crate) fn number_of(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(*bytes.first_chunk().expect("four bytes"))
}
