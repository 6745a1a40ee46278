//! Whether loss is the price of speed: a policer, or a buffer too short to notice.
//!
//! ```text
//!          loss without a queue         it vanished
//!   Free ──────────────────────► Trial ─────────────► Holding ◄──────┐
//!    ▲                             │  rate × 0.9        │ rate       │ loss: rest
//!    │       it did not: random    │                    ▼ a while    │ twice as long
//!    └─────────────────────────────┴──── clear ────── Probing ───────┘
//! ```
//!
//! Flach et al. (SIGCOMM 2016) find policers by replaying a trace against a token
//! bucket afterwards; a sender can ask the path itself. It slows a little: loss that
//! goes away was caused by speed, and what arrived meanwhile is the rate of the
//! bucket. Loss that stays is not ours (radio), and is ignored up to its floor from
//! then on. BBR v1's long-term model (Linux `lt_bw`) does not ask, and needs 20 % of
//! loss to be sure; BBRv3 (§5.5.10) takes 2 % for a reason whatever the cause.

use std::time::{Duration, Instant};

use crate::Acked;

use super::background::Background;
use super::bucket::Bucket;
use super::history::History;
use super::tally::{Rows, Tally};

/// Loss that is nobody's business (BBRv3 `LossThresh`).
const LOSS_MIN: f64 = 0.02;
/// Beyond the floor, loss must be this much above it to be asked about again.
const FLOOR_MARGIN: f64 = 1.7;
/// Bursts of loss before anything is asked. Fewer are found sooner and are chance
/// more often; BBRv3 asks for 6 in slow start (`StartupFullLossCnt`).
const BURSTS_MIN: u32 = 4;
/// Packets lost before anything is asked.
const PACKETS_MIN: f64 = 6.0;
/// Over less than this no rate can be told from the lumps of acknowledgements.
const RATE_TIME_MIN: Duration = Duration::from_millis(120);
/// A count without cause ends after so long.
const COUNT_TIME_MAX: Duration = Duration::from_secs(2);
/// How much a trial slows.
const TRIAL_SHARE: f64 = 0.9;
/// Bursts of loss that a trial would see if the loss were random. With 6, no more than
/// one is seen in 1.7 % of trials by chance (Poisson).
const TRIAL_BURSTS: f64 = 6.0;
/// Loss that fell below this share has vanished.
const VANISHED: f64 = 0.25;
/// Loss that fell below this share is caused by speed, but the rate was not right.
const ABATED: f64 = 0.65;
const TRIES_MAX: u32 = 3;
/// So much loss is more than radio links have, and so short a queue is none.
const PLAIN_LOSS: f64 = 0.1;
const EMPTY: Duration = Duration::from_millis(5);
/// A path that was cleared is left alone for so long ...
const QUIET: Duration = Duration::from_secs(10);
/// ... unless so much is lost that whatever cleared it was a mistake.
const LOUD: f64 = 0.2;
/// We keep so little below the rate of the bucket.
const HOLD_SHARE: f64 = 0.98;
/// A probe asks for this much more.
const PROBE_GAIN: f64 = 1.2;
/// While we hold, loss is at most this share of what made us hold, or it was not the
/// rate. Loss of a bucket whose rate we overrate by a tenth is a tenth.
const DOUBT: f64 = 0.4;
/// A policer's rate is not so far below what it first let through.
const RATE_SHARE_MIN: f64 = 0.6;
/// Rest before the first probe: what it finds is the second witness.
const REST_FIRST: Duration = Duration::from_millis(500);
/// Rest before another, doubled with each that failed.
const REST_MIN: Duration = Duration::from_secs(2);
const REST_MAX: Duration = Duration::from_secs(30);
/// Of a queue that is too short this much is ours: its swing is 2.5 times as long.
const SHORT_SHARE: f64 = 0.4;
/// Before a longer one is tried, doubled with each failure up to eight times.
const REST_SHORT: Duration = Duration::from_secs(8);
/// No target is longer than this: a queue that may be as long is not short.
const SHORT_MAX: Duration = Duration::from_millis(400);
/// A probe that the application does not use ends after so long.
const PROBE_TIME_MAX: Duration = Duration::from_secs(5);
/// One that was used by so much of its gain and lost nothing in that time shows that
/// the rate is higher, however large the burst.
const PROBE_USED: f64 = (PROBE_GAIN - 1.0) / 2.0;
/// The model and what is known of random loss.
#[derive(Clone, Debug)]
pub(super) struct Policer {
    phase: Phase,
    tally: Tally,
    rows: Rows,
    background: Background,
    quiet_until: Option<Instant>,
    rest: Duration,
    history: History,
    /// A queue so short that it was full before it was as long as we want it.
    short: Option<Short>,
    /// A probe showed the policer, too.
    confirmed: bool,
    /// What made us hold.
    before: Option<Before>,
    /// Since then.
    held: Tally,
}

/// A queue shorter than our target.
#[derive(Clone, Copy, Debug)]
struct Short {
    queue: Duration,
    /// When to try for more.
    until: Instant,
    /// Times that more was too much.
    failures: u32,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Free,
    Trial { before: Before, tries: u32 },
    Holding { bucket: Bucket, probe_at: Instant },
    Probing { bucket: Bucket },
}

/// What a trial is compared with.
#[derive(Clone, Copy, Debug)]
struct Before {
    /// Bytes a second that arrived.
    rate: f64,
    tally: Tally,
}

impl Before {
    /// Much loss on an empty path needs no second witness.
    fn is_plain(&self, noise: Duration) -> bool {
        let empty = EMPTY + noise * 2;
        let empty = self.tally.queue_at_loss.is_some_and(|it| it <= empty);
        empty && self.tally.loss_ratio() >= PLAIN_LOSS
    }
}

/// What the queue looked like, for judging a loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances {
    pub(super) now: Instant,
    pub(super) smoothed: Duration,
    /// Queue delay of the latest packet.
    pub(super) queue: Duration,
    /// Mean deviation of round trips.
    pub(super) variation: Duration,
    pub(super) target: Duration,
    pub(super) mtu: f64,
}

impl Circumstances {
    /// The queue is no longer than we make it ourselves.
    fn is_ours(&self) -> bool {
        self.queue <= self.target * 5 / 2
    }
}

impl Policer {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            phase: Phase::Free,
            tally: Tally::new(now),
            rows: Rows::default(),
            background: Background::default(),
            quiet_until: None,
            rest: REST_MIN,
            history: History::default(),
            short: None,
            confirmed: false,
            before: None,
            held: Tally::new(now),
        }
    }

    /// Bytes left at `now`.
    pub(super) fn on_sent(&mut self, now: Instant, bytes: f64) {
        match &mut self.phase {
            Phase::Holding { bucket, .. } | Phase::Probing { bucket } => bucket.take(now, bytes),
            Phase::Free | Phase::Trial { .. } => {}
        }
    }

    /// These arrived.
    pub(super) fn on_ack(&mut self, packets: &[Acked], round: bool, of: &Circumstances) {
        let (mut bytes, mut since) = (0.0, 0.0);
        for packet in packets {
            #[expect(clippy::cast_precision_loss, reason = "packets are small")]
            let size = packet.bytes as f64;
            bytes += size;
            if packet.sent >= self.tally.began {
                since += size;
            }
            self.rows.on_arrived(packet.sent);
        }
        self.history.record(of.now, bytes);
        // While free, loss is found as late as arrivals are; on trial what left before
        // does not count.
        self.tally.delivered += if matches!(self.phase, Phase::Free) {
            bytes
        } else {
            since
        };
        if round && since > 0.0 {
            self.tally.rounds += 1;
        }
        self.tally.queue_max = self.tally.queue_max.max(of.queue);
        if self.short.is_some_and(|short| of.now >= short.until) {
            self.try_longer(of.now);
        }
        self.judge(of);
    }

    /// `bytes` were lost; `newest_sent`: when the last of them had left.
    pub(super) fn on_loss(&mut self, bytes: f64, newest_sent: Instant, of: &Circumstances) {
        let burst = self.rows.on_lost(newest_sent);
        match &mut self.phase {
            Phase::Free => {
                if self.tally.bursts == 0 {
                    self.background.learn(&self.tally, of.mtu);
                    // What arrived before the bucket was empty says nothing of its rate.
                    self.tally = Tally::new(of.now);
                    self.tally.bursts = 1;
                    return;
                }
            }
            Phase::Trial { .. } | Phase::Probing { .. } if newest_sent < self.tally.began => {
                return;
            }
            Phase::Holding { bucket, .. } => {
                bucket.drop_seen();
                if newest_sent < self.tally.began {
                    return;
                }
            }
            Phase::Trial { .. } | Phase::Probing { .. } => {}
        }
        self.tally.lost += bytes;
        self.tally.bursts += u32::from(burst);
        let queue = self.tally.queue_at_loss.unwrap_or(of.queue);
        self.tally.queue_at_loss = Some(queue.min(of.queue));
        self.judge(of);
    }

    fn judge(&mut self, of: &Circumstances) {
        match self.phase {
            Phase::Free => self.suspect(of),
            Phase::Trial { before, tries } => self.try_on(of, &before, tries),
            Phase::Holding { bucket, probe_at } => self.hold(of, bucket, probe_at),
            Phase::Probing { bucket } => self.probe(of, bucket),
        }
    }

    fn enter(&mut self, phase: Phase, now: Instant) {
        self.phase = phase;
        self.tally = Tally::new(now);
    }

    /// A trial counts from when the queue before the policer has drained.
    fn ask(&mut self, phase: Phase, of: &Circumstances) {
        self.enter(phase, of.now + of.smoothed);
    }

    /// Loss worth asking about.
    fn threshold(&self) -> f64 {
        LOSS_MIN.max(FLOOR_MARGIN * self.background.floor())
    }

    fn is_chance(&self, mtu: f64) -> bool {
        self.background.explains(&self.tally, mtu)
    }

    fn suspect(&mut self, of: &Circumstances) {
        let tally = self.tally;
        let elapsed = tally.elapsed(of.now);
        let enough = tally.bursts >= BURSTS_MIN && tally.lost >= PACKETS_MIN * of.mtu;
        if enough
            && elapsed >= of.smoothed.max(RATE_TIME_MIN)
            && tally.loss_ratio() > self.threshold()
            && !self.is_chance(of.mtu)
        {
            let quiet = self.quiet_until.is_some_and(|until| of.now < until);
            let quiet = quiet && tally.loss_ratio() < LOUD;
            if !quiet && of.is_ours() {
                let before = Before {
                    rate: tally.rate(of.now),
                    tally,
                };
                let phase = Phase::Trial { before, tries: 1 };
                return self.ask(phase, of);
            }
        }
        if elapsed > COUNT_TIME_MAX.max(of.smoothed * 8) {
            self.background.learn(&tally, of.mtu);
            self.tally = Tally::new(of.now);
        }
    }

    fn try_on(&mut self, of: &Circumstances, before: &Before, tries: u32) {
        let tally = self.tally;
        let packets = |tally: &Tally| (tally.delivered + tally.lost) / of.mtu;
        let expected = packets(&tally) * f64::from(before.tally.bursts) / packets(&before.tally);
        if tally.rounds < 2 || expected < TRIAL_BURSTS {
            return;
        }
        let left = tally.loss_ratio() / before.tally.loss_ratio();
        if left <= VANISHED && f64::from(tally.bursts) <= VANISHED * expected {
            if let Some(queue) = before.tally.full_queue(of.variation) {
                return self.shorten(queue, of.now);
            }
            let bucket = Bucket::new(before.rate, self.history.burst(before.rate), of.now);
            self.rest = REST_FIRST;
            self.confirmed = before.is_plain(of.variation);
            self.before = Some(*before);
            self.held = Tally::new(of.now);
            self.rest(bucket, of);
        } else if left <= ABATED && tries < TRIES_MAX {
            let before = Before {
                rate: tally.rate(of.now - of.smoothed).min(before.rate),
                ..*before
            };
            let tries = tries + 1;
            self.ask(Phase::Trial { before, tries }, of);
        } else {
            self.background.learn(&before.tally, of.mtu);
            self.clear(of);
        }
    }

    /// It was the end of a queue, of so long: half of it is for us. BBRv3's bound of the
    /// long term (§5.5.10, `inflight_longterm`), as a time.
    fn shorten(&mut self, queue: Duration, now: Instant) {
        let failures = self.short.map_or(0, |short| short.failures + 1);
        let patience = REST_SHORT * (1 << failures.min(3));
        self.short = Some(Short {
            queue: queue.mul_f64(SHORT_SHARE),
            until: now + patience,
            failures,
        });
        self.enter(Phase::Free, now);
    }

    /// The path may have changed.
    fn try_longer(&mut self, now: Instant) {
        if let Some(short) = &mut self.short {
            short.queue = short.queue.mul_f64(1.5);
            short.until = now + REST_SHORT;
            if short.queue > SHORT_MAX {
                self.short = None;
            }
        }
    }

    /// No longer queue than this.
    pub(super) fn queue_limit(&self) -> Option<Duration> {
        self.short.map(|short| short.queue)
    }

    /// The loss is not ours to avoid.
    fn clear(&mut self, of: &Circumstances) {
        self.background.learn(&self.tally, of.mtu);
        self.quiet_until = Some(of.now + QUIET);
        self.enter(Phase::Free, of.now);
    }

    /// Keeps to the bucket's rate until the next probe.
    fn rest(&mut self, bucket: Bucket, of: &Circumstances) {
        let probe_at = of.now + self.rest;
        self.enter(Phase::Holding { bucket, probe_at }, of.now);
    }

    fn hold(&mut self, of: &Circumstances, mut bucket: Bucket, probe_at: Instant) {
        let tally = self.tally;
        let due = of.now >= probe_at;
        let lossy = tally.rounds >= 2
            && tally.lost >= PACKETS_MIN / 2.0 * of.mtu
            && tally.loss_ratio() > LOSS_MIN / 2.0
            && !self.is_chance(of.mtu);
        if !lossy && !due && tally.elapsed(of.now) <= COUNT_TIME_MAX {
            return;
        }
        if let Some(queue) = tally.full_queue(of.variation).filter(|_| lossy) {
            // At less than its rate a bucket has no queue: others fill this one.
            return self.shorten(queue, of.now);
        }
        self.held.add(&tally);
        if lossy {
            bucket.rate = tally.rate(of.now - of.smoothed).min(bucket.rate * 0.97);
        }
        if self.is_doubtful(bucket.rate) {
            self.background.learn(&self.held, of.mtu);
            return self.clear(of);
        }
        let phase = if due && !lossy {
            Phase::Probing {
                bucket: Bucket::new(bucket.rate, bucket.burst, of.now),
            }
        } else {
            Phase::Holding { bucket, probe_at }
        };
        self.enter(phase, of.now);
    }

    /// Holding does not help.
    fn is_doubtful(&self, rate: f64) -> bool {
        let held = &self.held;
        self.before.is_some_and(|before| {
            let stayed = held.loss_ratio() > DOUBT * before.tally.loss_ratio();
            let many = f64::from(held.bursts) >= TRIAL_BURSTS;
            (many && stayed) || rate < RATE_SHARE_MIN * before.rate
        })
    }

    fn probe(&mut self, of: &Circumstances, mut bucket: Bucket) {
        let tally = self.tally;
        let elapsed = tally.elapsed(of.now).as_secs_f64();
        // What went above the rate: the bucket must have noticed.
        let sent = tally.delivered + tally.lost;
        let above = sent - bucket.rate * elapsed;
        if tally.bursts > 1 && !self.is_chance(of.mtu) {
            self.rest = (self.rest * 2).min(REST_MAX);
            if let Some(queue) = tally.full_queue(of.variation) {
                return self.shorten(queue, of.now);
            }
            self.confirmed = true;
            bucket.drop_seen();
            self.rest(bucket, of);
        } else if above > bucket.burst + 8.0 * of.mtu
            || (tally.elapsed(of.now) > PROBE_TIME_MAX
                && above > PROBE_USED * bucket.rate * elapsed)
        {
            bucket.rate *= PROBE_GAIN;
            self.rest = REST_MIN;
            self.before = self.before.map(|before| Before {
                rate: bucket.rate,
                ..before
            });
            if of.queue > of.target / 2 {
                // The path has a queue that shows: no need for a model of it.
                return self.enter(Phase::Free, of.now);
            }
            let phase = Phase::Probing {
                bucket: Bucket::new(bucket.rate, bucket.burst, of.now),
            };
            self.enter(phase, of.now);
        } else if tally.elapsed(of.now) > PROBE_TIME_MAX {
            self.rest(bucket, of);
        }
    }

    /// No faster than this, in bytes a second.
    pub(super) fn pacing(&self, mtu: f64) -> Option<f64> {
        match self.phase {
            Phase::Free => None,
            Phase::Trial { before, .. } => Some(TRIAL_SHARE * before.rate),
            // A keyframe may have what the bucket holds, but for a reserve: it is an
            // estimate.
            Phase::Holding { bucket, .. } => {
                let spare = bucket.tokens() > (bucket.burst / 4.0).max(2.0 * mtu);
                Some(if spare { 2.0 } else { HOLD_SHARE } * bucket.rate)
            }
            Phase::Probing { bucket } => Some(PROBE_GAIN * bucket.rate),
        }
    }

    /// What the path carries for long, if the model knows.
    pub(super) const fn rate(&self) -> Option<f64> {
        match self.phase {
            Phase::Holding { bucket, .. } | Phase::Probing { bucket } => Some(bucket.rate),
            Phase::Free | Phase::Trial { .. } => None,
        }
    }

    /// Bytes of burst that may be on their way on top of the rate.
    pub(super) fn spare(&self) -> f64 {
        match self.phase {
            Phase::Holding { bucket, .. } => bucket.tokens().max(0.0),
            _ => 0.0,
        }
    }

    pub(super) const fn is_on_trial(&self) -> bool {
        matches!(self.phase, Phase::Trial { .. })
    }

    pub(super) const fn is_asking(&self) -> bool {
        matches!(self.phase, Phase::Trial { .. } | Phase::Probing { .. })
    }

    /// Loss is caused by speed, and not by the end of a queue: it went when we slowed,
    /// and came back when we tried more.
    pub(super) const fn is_policed(&self) -> bool {
        self.confirmed && self.rate().is_some()
    }

    /// So much is lost lately that the path must be the limit.
    pub(super) fn is_losing(&self) -> bool {
        self.tally.bursts >= BURSTS_MIN && self.tally.loss_ratio() >= PLAIN_LOSS
    }

    /// Share of packets that the path loses whatever one does, 0 to 1.
    pub(super) fn floor(&self) -> f64 {
        self.background.floor()
    }

    /// Somebody else is the cause: nothing is known.
    pub(super) fn forget(&mut self, now: Instant) {
        self.enter(Phase::Free, now);
    }
}
