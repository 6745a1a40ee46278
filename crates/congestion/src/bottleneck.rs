//! Flows over one bottleneck in virtual time, for tests: a rate, a drop-tail queue,
//! a delay, random loss. Losses are found by three later acknowledgements (RFC 9002
//! §6.1.1), the rest after two round trips of silence.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use glassline_sim::Rng;

use crate::{Algorithm, Controller, Flow};

pub(crate) const PACKET: u64 = 1200;
const STEP: Duration = Duration::from_micros(250);

/// What the flows share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bottleneck {
    pub(crate) mbps: f64,
    pub(crate) round_trip: Duration,
    /// Bytes that wait at most.
    pub(crate) queue_bytes: u64,
    pub(crate) loss: f64,
    /// Behind the queue.
    pub(crate) policer: Option<Policer>,
}

/// A token bucket that drops what exceeds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policer {
    pub(crate) mbps: f64,
    pub(crate) bucket_bytes: f64,
}

/// A bottleneck at work; its conditions may change between runs.
pub(crate) struct Path {
    pub(crate) bottleneck: Bottleneck,
    now: Instant,
    turn: usize,
    rng: Rng,
    queue: VecDeque<(usize, u64, Instant)>,
    back: VecDeque<(Instant, usize, u64)>,
    served: f64,
    tokens: f64,
}

/// One sender, always full or at a rate of its own.
pub(crate) struct Sender {
    pub(crate) flow: Flow,
    /// Megabits a second that the application makes; `None` for bulk.
    pub(crate) source_mbps: Option<f64>,
    made: f64,
    next: u64,
    /// Bytes that pacing allows.
    credit: f64,
    unacked: BTreeSet<u64>,
    last_ack: Option<Instant>,
    /// Of the packets that came through: time in the queue.
    pub(crate) queued: Vec<Duration>,
}

impl Sender {
    pub(crate) fn bulk(algorithm: Algorithm) -> Self {
        Self::with(algorithm.start(PACKET))
    }

    pub(crate) fn live(algorithm: Algorithm, mbps: f64) -> Self {
        Self {
            source_mbps: Some(mbps),
            ..Self::with(algorithm.start(PACKET))
        }
    }

    /// A frame of `bytes` more is there to send.
    pub(crate) const fn make(&mut self, bytes: f64) {
        self.made += bytes;
    }

    /// Bulk, steered by `controller`.
    pub(crate) fn with(controller: Box<dyn Controller>) -> Self {
        Self {
            flow: Flow::new(controller),
            source_mbps: None,
            made: 0.0,
            next: 0,
            credit: 0.0,
            unacked: BTreeSet::new(),
            last_ack: None,
            queued: Vec::new(),
        }
    }

    /// How many packets leave in this step.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn due(&mut self, now: Instant) -> u64 {
        let seconds = STEP.as_secs_f64();
        if let Some(mbps) = self.source_mbps {
            self.made += mbps * 125_000.0 * seconds;
        }
        let burst = 4.0 * PACKET as f64;
        self.credit = match self.flow.pacing_rate() {
            Some(rate) => (self.credit + rate.bps() as f64 / 8.0 * seconds).min(burst),
            None => burst,
        };
        let mut count = 0;
        while self.flow.allowance() >= PACKET && self.credit >= PACKET as f64 {
            if self.source_mbps.is_some() && self.made < PACKET as f64 {
                self.flow.on_app_limited();
                break;
            }
            self.made -= PACKET as f64;
            self.credit -= PACKET as f64;
            self.flow.on_sent(now, self.next, PACKET);
            self.unacked.insert(self.next);
            self.next += 1;
            count += 1;
        }
        count
    }

    fn acknowledge(&mut self, number: u64, now: Instant) {
        self.last_ack = Some(now);
        self.unacked.remove(&number);
        self.flow.on_acked(now, [number], Duration::ZERO);
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

    /// Lost packets are to be sent again.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn lose(&mut self, lost: Vec<u64>, persistent: bool, now: Instant) {
        if !lost.is_empty() {
            self.made += lost.len() as f64 * PACKET as f64;
            self.flow.on_lost(now, lost, persistent);
        }
    }
}

impl Bottleneck {
    /// Runs the senders for `seconds`; sets the queue's delays aside after a third.
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
        }
    }

    /// Virtual time.
    pub(crate) const fn now(&self) -> Instant {
        self.now
    }

    /// Goes on for `time`.
    pub(crate) fn run(&mut self, senders: &mut [Sender], time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step(senders);
            self.now += STEP;
        }
    }

    fn step(&mut self, senders: &mut [Sender]) {
        let now = self.now;
        let due = |back: &(Instant, usize, u64)| back.0 <= now;
        while let Some((_, sender, number)) = self.back.front().copied().filter(due) {
            self.back.pop_front();
            senders[sender].acknowledge(number, now);
        }
        self.turn += 1;
        for index in 0..senders.len() {
            let index = (index + self.turn) % senders.len();
            let first = senders[index].next;
            let count = senders[index].due(now);
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
            if !self.rng.chance(self.bottleneck.loss) {
                let arrives = self.now + self.bottleneck.round_trip;
                self.back.push_back((arrives, sender, number));
            }
        }
    }
}

/// Megabits a second that arrived.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub(crate) fn goodput(sender: &Sender, seconds: u64) -> f64 {
    sender.flow.totals().delivered as f64 / 125_000.0 / seconds as f64
}

/// The share of `queued` times, in milliseconds, below which `quantile` lie.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copa::{self, Copa};

    const HOME: Bottleneck = Bottleneck {
        mbps: 10.0,
        round_trip: Duration::from_millis(40),
        // 400 ms, a bloated one.
        queue_bytes: 500_000,
        loss: 0.0,
        policer: None,
    };

    fn alone(bottleneck: Bottleneck, algorithm: Algorithm) -> Sender {
        let mut senders = [Sender::bulk(algorithm)];
        bottleneck.run(&mut senders, 30, 1);
        let [sender] = senders;
        sender
    }

    #[test]
    fn every_controller_fills_the_pipe_alone() {
        for algorithm in Algorithm::ALL {
            let sender = alone(HOME, algorithm);
            let found = goodput(&sender, 30);
            assert!(found > 9.0, "{algorithm}: {found} Mbit/s");
        }
    }

    #[test]
    fn copa_keeps_the_queue_that_delta_says_and_cubic_fills_it() {
        let cubic = queue_ms(&mut alone(HOME, Algorithm::Cubic), 0.5);
        let copa = queue_ms(&mut alone(HOME, Algorithm::Copa), 0.5);
        let paper = queue_ms(&mut alone(HOME, Algorithm::CopaCompetitive), 0.5);
        println!("median queue: cubic {cubic} ms, copa {copa} ms, paper's {paper} ms");
        assert!(cubic > 150, "{cubic}");
        // 25 packets are 24 ms here; the window swings around that.
        assert!((5..=60).contains(&copa), "{copa}");
        assert!(paper <= 15, "{paper}");
    }

    #[test]
    fn cubic_shares_with_cubic() {
        let mut senders = [
            Sender::bulk(Algorithm::Cubic),
            Sender::bulk(Algorithm::Cubic),
        ];
        HOME.run(&mut senders, 90, 2);
        let shares = [goodput(&senders[0], 90), goodput(&senders[1], 90)];
        let fairness = shares[0].min(shares[1]) / shares[0].max(shares[1]);
        assert!(fairness > 0.6, "{shares:?}");
    }

    #[test]
    fn random_loss_stops_cubic_and_not_copa() {
        let wifi = Bottleneck {
            loss: 0.02,
            mbps: 4.0,
            ..HOME
        };
        let cubic = goodput(&alone(wifi, Algorithm::Cubic), 30);
        let copa = goodput(&alone(wifi, Algorithm::Copa), 30);
        println!("2 % loss on 4 Mbit/s: cubic {cubic:.2}, copa {copa:.2}");
        assert!(cubic < 2.5, "{cubic}");
        assert!(copa > 3.4, "{copa}");
    }

    #[test]
    fn the_competitive_mode_gets_more_beside_cubic_than_its_delta_would() {
        let share = |config: copa::Config| {
            let controller = Box::new(Copa::new(config, PACKET));
            let mut senders = [Sender::with(controller), Sender::bulk(Algorithm::Cubic)];
            HOME.run(&mut senders, 60, 3);
            goodput(&senders[0], 60)
        };
        let competitive = copa::Config::competitive();
        let meek = share(copa::Config {
            competes: false,
            ..competitive
        });
        let found = share(competitive);
        println!("beside CUBIC on 10 Mbit/s: {found:.2} with competitive mode, {meek:.2} without");
        assert!(found > 1.5 * meek, "{found} and {meek}");
    }

    #[test]
    fn a_live_stream_does_not_run_its_window_away() {
        for algorithm in Algorithm::ALL {
            let mut senders = [Sender::live(algorithm, 3.0)];
            HOME.run(&mut senders, 30, 4);
            let sender = &senders[0];
            let (window, found) = (sender.flow.controller().window(), goodput(sender, 30));
            assert!(found > 2.9, "{algorithm}: {found}");
            assert!(window < 500_000, "{algorithm}: {window} bytes");
            let rate = sender.flow.deliverable_rate().expect("measured").mbps();
            assert!((2.5..40.0).contains(&rate), "{algorithm}: {rate}");
        }
    }
}
