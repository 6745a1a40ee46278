use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use glassline_sim::{Clock, Conditions, End, Path, Rng};

use crate::peers::{Happened, Peer};

/// Two ends, the path between them, and what has happened at each.
pub(crate) struct Network {
    pub(crate) clock: Clock,
    pub(crate) path: Path,
    pub(crate) ends: [Box<dyn Peer>; 2],
    pub(crate) happened: [VecDeque<Happened>; 2],
    /// Share of packets that arrive twice.
    pub(crate) repeated: f64,
    rng: Rng,
    packet: Vec<u8>,
    sent: DefaultHasher,
}

pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;

impl Network {
    /// `make` gets the time at which both ends begin.
    pub(crate) fn new(
        conditions: Conditions,
        seed: u64,
        make: impl FnOnce(Instant) -> [Box<dyn Peer>; 2],
    ) -> Self {
        let clock = Clock::new();
        Self {
            ends: make(clock.now()),
            clock,
            path: Path::symmetric(conditions, seed),
            happened: Default::default(),
            repeated: 0.0,
            rng: Rng::new(seed).fork(7),
            packet: Vec::new(),
            sent: DefaultHasher::new(),
        }
    }

    /// Of all that was sent: what, when and by whom.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.sent.finish()
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(crate) fn end(&mut self, end: usize) -> &mut dyn Peer {
        &mut *self.ends[end]
    }

    /// What leaves now, leaves; what happened is collected.
    pub(crate) fn drain(&mut self) {
        let now = self.clock.now();
        for end in [A, B] {
            while let Some(happened) = self.ends[end].poll(now) {
                self.happened[end].push_back(happened);
            }
            let from = [End::A, End::B][end];
            while self.ends[end].transmit(now, &mut self.packet) {
                (end, self.clock.elapsed(), &self.packet).hash(&mut self.sent);
                let len = self.packet.len();
                if self.rng.chance(self.repeated) {
                    self.path.send(from, now, len, self.packet.clone());
                }
                self.path
                    .send(from, now, len, std::mem::take(&mut self.packet));
            }
        }
    }

    /// Goes to whatever comes next, at most to `until`; false if that is reached.
    pub(crate) fn step(&mut self, until: Instant) -> bool {
        self.drain();
        let next = [
            self.path.next_arrival(),
            self.ends[A].deadline(),
            self.ends[B].deadline(),
        ];
        let next = next.into_iter().flatten().min();
        let Some(next) = next.filter(|&next| next <= until) else {
            self.clock.advance_to(until);
            return false;
        };
        self.clock.advance_to(next);
        let now = self.clock.now();
        let mut heard = [false; 2];
        while let Some((end, packet)) = self.path.poll(now) {
            let end = usize::from(end == End::B);
            self.ends[end].handle(&packet, now);
            heard[end] = true;
        }
        for end in [A, B] {
            if heard[end] {
                self.ends[end].end_batch(now);
            }
            if self.ends[end].deadline().is_some_and(|at| at <= now) {
                self.ends[end].on_deadline(now);
            }
        }
        self.drain();
        true
    }

    /// Until `done` says so; false if that takes longer than `limit`.
    pub(crate) fn run(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let until = self.now() + limit;
        self.drain();
        while !done(self) {
            if !self.step(until) {
                return done(self);
            }
        }
        true
    }

    /// Both ends say that they are connected, and nothing else happens until then.
    #[track_caller]
    pub(crate) fn establish(&mut self) {
        let mut connected = [false; 2];
        let established = self.run(Duration::from_secs(60), |network| {
            for (connected, happened) in connected.iter_mut().zip(&mut network.happened) {
                while let Some(happened) = happened.pop_front() {
                    assert_eq!(happened, Happened::Connected);
                    *connected = true;
                }
            }
            connected == [true, true]
        });
        assert!(established, "not connected after a minute: {connected:?}");
    }
}
