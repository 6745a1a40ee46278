//! Flows over one bottleneck in virtual time, for tests: a rate, a drop-tail queue, a
//! token-bucket policer behind it, a delay with jitter, random and bursty loss, aggregated
//! acknowledgements. Losses are detected by three later acknowledgements (RFC 9002 §6.1.1),
//! the rest after two round trips of silence.
//!
//! It does not use `glassline_sim::Simulation`: there are no datagrams to carry and no
//! cores with timers, only counts of packets, of which a run makes millions. Time advances
//! in steps of 250 µs; the curves that are kept as text depend on it to the last digit.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use glassline_sim::Rng;

use crate::{Algorithm, Controller, Flow, PathModel};

mod tests;

/// Size of a packet, in bytes.
pub(crate) const PACKET: u64 = 1200;
/// Step of virtual time.
const STEP: Duration = Duration::from_micros(250);
/// Steps between two points of a curve: 100 ms.
const POINT_STEPS: usize = 400;

/// The path that the flows share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bottleneck {
    /// Rate of the bottleneck, in Mbit/s.
    pub(crate) mbps: f64,
    /// Round trip without a queue.
    pub(crate) round_trip: Duration,
    /// Most bytes that wait.
    pub(crate) queue_bytes: u64,
    /// Share of packets that random loss takes, 0 to 1.
    pub(crate) loss: f64,
    /// Packets that random loss takes at a time, on average.
    pub(crate) loss_burst: f64,
    /// Policer behind the queue.
    pub(crate) policer: Option<Policer>,
    /// Largest addition to the round trip, evenly distributed; the order is kept.
    pub(crate) jitter: Duration,
    /// Period with which acknowledgements come together; zero for each at once.
    pub(crate) lumps: Duration,
}

/// A path without faults: 10 Mbit/s, 40 ms, 400 ms of buffer.
pub(crate) const PLAIN: Bottleneck = Bottleneck {
    mbps: 10.0,
    round_trip: Duration::from_millis(40),
    queue_bytes: 500_000,
    loss: 0.0,
    loss_burst: 1.0,
    policer: None,
    jitter: Duration::ZERO,
    lumps: Duration::ZERO,
};

/// A token bucket that drops what exceeds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policer {
    /// Rate at which tokens come, in Mbit/s.
    pub(crate) mbps: f64,
    /// Capacity of the bucket.
    pub(crate) bucket_bytes: f64,
}

/// A bottleneck in use; its conditions may change between runs.
pub(crate) struct Path {
    pub(crate) bottleneck: Bottleneck,
    now: Instant,
    turn: usize,
    rng: Rng,
    queue: VecDeque<(usize, u64, Instant)>,
    back: VecDeque<(Instant, usize, u64)>,
    served: f64,
    tokens: f64,
    losing: bool,
}

/// The source of the data that an application gives its sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TrafficSource {
    Bulk,
    /// An even rate, in Mbit/s.
    Even(f64),
    /// An even rate in Mbit/s, without telling the controller when there is nothing to
    /// send.
    Unmarked(f64),
    /// 30 frames per second, every 60th five times as large, in Mbit/s.
    Camera(f64),
}

/// One sender on the simulated bottleneck.
pub(crate) struct Sender {
    pub(crate) flow: Flow,
    pub(crate) source: TrafficSource,
    /// When the sender begins and ends, in seconds.
    active: (f64, f64),
    frames: u64,
    made: f64,
    next: u64,
    /// Bytes that pacing allows to be sent.
    credit: f64,
    unacked: BTreeSet<u64>,
    last_ack: Option<Instant>,
    /// Time in the queue of each packet that came through.
    pub(crate) queued: Vec<Duration>,
    pub(crate) curve: Vec<Point>,
}

/// State of a sender at a point in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) seconds: f64,
    pub(crate) window: u64,
    pub(crate) delivered: u64,
    /// Rate for an encoder, in Mbit/s.
    pub(crate) deliverable: Option<f64>,
    pub(crate) path_model: PathModel,
}

impl Sender {
    pub(crate) fn bulk(algorithm: Algorithm) -> Self {
        Self::with(algorithm.start(PACKET))
    }

    pub(crate) fn live(algorithm: Algorithm, mbps: f64) -> Self {
        Self::with(algorithm.start(PACKET)).from(TrafficSource::Even(mbps))
    }

    pub(crate) fn from(self, source: TrafficSource) -> Self {
        Self { source, ..self }
    }

    pub(crate) fn active(self, from: f64, until: f64) -> Self {
        let active = (from, until);
        Self { active, ..self }
    }

    /// Adds a frame of `bytes` to what is to be sent.
    pub(crate) const fn make(&mut self, bytes: f64) {
        self.made += bytes;
    }

    /// Returns a bulk sender with this controller.
    pub(crate) fn with(controller: Box<dyn Controller>) -> Self {
        Self {
            flow: Flow::new(controller),
            source: TrafficSource::Bulk,
            active: (0.0, f64::INFINITY),
            frames: 0,
            made: 0.0,
            next: 0,
            credit: 0.0,
            unacked: BTreeSet::new(),
            last_ack: None,
            queued: Vec::new(),
            curve: Vec::new(),
        }
    }

    /// Adds what the application makes until `seconds`.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn film(&mut self, seconds: f64) {
        match self.source {
            TrafficSource::Bulk => {}
            TrafficSource::Even(mbps) | TrafficSource::Unmarked(mbps) => {
                self.made += mbps * 125_000.0 * STEP.as_secs_f64();
            }
            TrafficSource::Camera(mbps) => {
                while self.frames as f64 / 30.0 <= seconds {
                    let weight = if self.frames.is_multiple_of(60) {
                        5.0
                    } else {
                        55.0 / 59.0
                    };
                    self.made += mbps * 125_000.0 / 30.0 * weight;
                    self.frames += 1;
                }
            }
        }
    }

    /// Sends packets; returns how many leave in this step.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn due(&mut self, now: Instant, passed: f64) -> u64 {
        if !(self.active.0..=self.active.1).contains(&passed) {
            return 0;
        }
        self.film(passed);
        let seconds = STEP.as_secs_f64();
        let burst = 4.0 * PACKET as f64;
        self.credit = match self.flow.pacing_rate() {
            Some(rate) => (self.credit + rate.bps() as f64 / 8.0 * seconds).min(burst),
            None => burst,
        };
        let mut count = 0;
        while self.flow.allowance() >= PACKET && self.credit >= PACKET as f64 {
            if self.source != TrafficSource::Bulk && self.made < PACKET as f64 {
                if !matches!(self.source, TrafficSource::Unmarked(_)) {
                    self.flow.on_app_limited();
                }
                break;
            }
            if self.source != TrafficSource::Bulk {
                self.made -= PACKET as f64;
            }
            self.credit -= PACKET as f64;
            self.flow.on_sent(now, self.next, PACKET);
            self.unacked.insert(self.next);
            self.next += 1;
            count += 1;
        }
        count
    }

    fn acknowledge(&mut self, numbers: &[u64], now: Instant) {
        let Some(number) = numbers.last() else {
            return;
        };
        self.last_ack = Some(now);
        for number in numbers {
            self.unacked.remove(number);
        }
        self.flow
            .on_acked(now, numbers.iter().copied(), Duration::ZERO);
        let lost: Vec<u64> = self
            .unacked
            .range(..number.saturating_sub(2))
            .copied()
            .collect();
        for number in &lost {
            self.unacked.remove(number);
        }
        self.lose(lost, false, now);
    }

    fn time_out(&mut self, now: Instant, after: Duration) {
        let silent = self
            .last_ack
            .is_some_and(|at| now.duration_since(at) > after);
        if silent && !self.unacked.is_empty() {
            let lost: Vec<u64> = std::mem::take(&mut self.unacked).into_iter().collect();
            self.lose(lost, true, now);
            self.last_ack = Some(now);
        }
    }

    fn draw(&mut self, seconds: f64) {
        self.curve.push(Point {
            seconds,
            window: self.flow.window(),
            delivered: self.flow.totals().delivered,
            deliverable: self
                .flow
                .deliverable_rate()
                .map(glassline_media::Bitrate::mbps),
            path_model: self.flow.controller().path_model(),
        });
    }

    /// Handles lost packets, which are to be sent again.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn lose(&mut self, lost: Vec<u64>, persistent: bool, now: Instant) {
        if !lost.is_empty() {
            if self.source != TrafficSource::Bulk {
                self.made += lost.len() as f64 * PACKET as f64;
            }
            self.flow.on_lost(now, lost, persistent);
        }
    }
}

impl Bottleneck {
    /// Runs the senders for `seconds`; drops the queueing delays of the first third.
    pub(crate) fn run(&self, senders: &mut [Sender], seconds: u64, seed: u64) {
        let mut path = Path::new(*self, seed);
        let time = Duration::from_secs(seconds);
        path.run(senders, time / 3);
        for sender in &mut *senders {
            sender.queued.clear();
        }
        path.run(senders, time - time / 3);
    }
}

impl Path {
    pub(crate) fn new(bottleneck: Bottleneck, seed: u64) -> Self {
        Self {
            bottleneck,
            now: Instant::now(),
            turn: 0,
            rng: Rng::new(seed),
            queue: VecDeque::new(),
            back: VecDeque::new(),
            served: 0.0,
            tokens: bottleneck
                .policer
                .map_or(0.0, |policer| policer.bucket_bytes),
            losing: false,
        }
    }

    /// Returns the virtual time.
    pub(crate) const fn now(&self) -> Instant {
        self.now
    }

    /// Runs the senders for `time` of virtual time.
    pub(crate) fn run(&mut self, senders: &mut [Sender], time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step(senders);
            self.now += STEP;
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn step(&mut self, senders: &mut [Sender]) {
        let now = self.now;
        let lumps = self.bottleneck.lumps.as_micros() / STEP.as_micros();
        if (self.turn as u128).is_multiple_of(lumps.max(1)) {
            self.deliver(senders);
        }
        let passed = STEP.as_secs_f64() * self.turn as f64;
        if self.turn.is_multiple_of(POINT_STEPS) {
            senders.iter_mut().for_each(|sender| sender.draw(passed));
        }
        self.turn += 1;
        for index in 0..senders.len() {
            let index = (index + self.turn) % senders.len();
            let first = senders[index].next;
            let count = senders[index].due(now, passed);
            for number in first..first + count {
                if (self.queue.len() as u64 + 1) * PACKET <= self.bottleneck.queue_bytes {
                    self.queue.push_back((index, number, now));
                }
            }
            let silence = self.bottleneck.round_trip * 4 + Duration::from_secs(1);
            senders[index].time_out(now, silence);
        }
        self.serve(senders);
    }

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn serve(&mut self, senders: &mut [Sender]) {
        let bytes = |mbps: f64| mbps * 125_000.0 * STEP.as_secs_f64();
        self.served += bytes(self.bottleneck.mbps);
        if let Some(policer) = self.bottleneck.policer {
            self.tokens = (self.tokens + bytes(policer.mbps)).min(policer.bucket_bytes);
        }
        while self.served >= PACKET as f64 {
            let Some((sender, number, entered)) = self.queue.pop_front() else {
                self.served = 0.0;
                break;
            };
            self.served -= PACKET as f64;
            senders[sender].queued.push(self.now - entered);
            if self.bottleneck.policer.is_some() {
                if self.tokens < PACKET as f64 {
                    continue;
                }
                self.tokens -= PACKET as f64;
            }
            if !self.loses() {
                let jitter = self.bottleneck.jitter;
                let late = if jitter.is_zero() {
                    jitter
                } else {
                    jitter.mul_f64(self.rng.unit())
                };
                let arrives = self.now + self.bottleneck.round_trip + late;
                let last = self.back.back().map_or(arrives, |back| back.0);
                self.back.push_back((arrives.max(last), sender, number));
            }
        }
    }

    /// Decides whether random loss takes this packet, by Gilbert's model, whose bursts end
    /// at random.
    fn loses(&mut self) -> bool {
        let (loss, burst) = (self.bottleneck.loss, self.bottleneck.loss_burst);
        self.losing = if burst <= 1.0 {
            self.rng.chance(loss)
        } else if self.losing {
            self.rng.chance(1.0 - 1.0 / burst)
        } else {
            self.rng.chance(loss / burst / (1.0 - loss))
        };
        self.losing
    }

    fn deliver(&mut self, senders: &mut [Sender]) {
        let now = self.now;
        let due = |back: &(Instant, usize, u64)| back.0 <= now;
        let mut lumps = vec![Vec::new(); senders.len()];
        while let Some((_, sender, number)) = self.back.front().copied().filter(due) {
            self.back.pop_front();
            if self.bottleneck.lumps.is_zero() {
                senders[sender].acknowledge(&[number], now);
            } else {
                lumps[sender].push(number);
            }
        }
        for (sender, lump) in senders.iter_mut().zip(lumps) {
            sender.acknowledge(&lump, now);
        }
    }
}

/// Returns the goodput, in Mbit/s.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub(crate) fn goodput(sender: &Sender, seconds: u64) -> f64 {
    sender.flow.totals().delivered as f64 / 125_000.0 / seconds as f64
}

/// Returns the goodput between two times, in Mbit/s.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub(crate) fn goodput_between(sender: &Sender, from: f64, until: f64) -> f64 {
    let at = |seconds: f64| {
        let point = sender.curve.iter().find(|point| point.seconds >= seconds);
        point.map_or(sender.flow.totals().delivered, |point| point.delivered)
    };
    (at(until) - at(from)) as f64 / 125_000.0 / (until - from)
}

/// Returns the ratio of lost to delivered bytes, 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub(crate) fn loss_ratio(sender: &Sender) -> f64 {
    let totals = sender.flow.totals();
    totals.lost as f64 / totals.delivered.max(1) as f64
}

/// Returns a quantile of the queueing delays, in ms.
pub(crate) fn queue_ms(sender: &mut Sender, quantile: f64) -> u128 {
    sender.queued.sort_unstable();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index"
    )]
    let place = (quantile * (sender.queued.len() - 1) as f64) as usize;
    sender.queued[place].as_millis()
}
