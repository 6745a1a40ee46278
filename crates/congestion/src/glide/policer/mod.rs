//! Detects policers, and buffers too short to show as a queue.
//!
//! ```text
//!          loss without a queue         it vanished
//!   Free ──────────────────────► Trial ─────────────► Holding ◄──────┐
//!    ▲                             │  rate × 0.9        │ rate       │ loss: hold
//!    │       it did not: random    │                    ▼ a while    │ twice as long
//!    └─────────────────────────────┴──── clear ────── Probing ───────┘
//! ```
//!
//! Flach et al. (SIGCOMM 2016) find policers by replaying a trace against a token bucket
//! afterwards; a sender can test the path itself. It slows a little: loss that vanishes was
//! caused by speed, and what arrived meanwhile is the rate of the bucket. Loss that stays
//! is random (radio), and is ignored up to its floor from then on. BBR v1's long-term model
//! (Linux `lt_bw`) does not test, and needs 20 % of loss to be sure; BBRv3 (§5.5.10) reacts
//! to 2 % whatever the cause.
//!
//! A sender with pauses, such as a stream of which most frames are left out, uses a probe little. What
//! passes between the pauses counts then, and the probe becomes faster.
//!
//! The second probe in a row that loses nothing tells that the path has another limit: each next one is
//! faster, so that four times the rate is found within five seconds for most paths.
//!
//! A sender whose source is slower than the path has no trial for little loss: the trial would delay its
//! data by more than repairs do.
//!
//! No trial is needed where the losses themselves tell: [`Evidence`] replays the latest
//! packets, and a bucket that explains their fates far better than chance is taken for one, a
//! second after the first loss at the earliest. The other way round, a test whose losses no
//! bucket explains confirms nothing.

use std::time::{Duration, Instant};

use crate::Acked;

use super::bucket::Bucket;
use super::constants::{self, Constants};
use super::delivery_history::DeliveryHistory;
use super::loss_count::{BurstDetector, LossCount};
use super::random_loss::RandomLoss;

mod evidence;
mod overdraft;
mod probe;
mod replay;
mod short_queue;

#[cfg(test)]
mod tests;

use evidence::Evidence;
use probe::Probe;
use short_queue::ShortQueue;

/// The policer model, with what is known of random loss.
#[derive(Clone, Debug)]
pub(super) struct Policer {
    /// Constants of the test whether a loss is a policer's.
    test: constants::LossTest,
    /// Constants of the time behind a policer.
    policed: constants::Policed,
    /// State of the model.
    phase: Phase,
    /// Packets since the state began.
    count: LossCount,
    /// Tells bursts of loss apart.
    burst_detector: BurstDetector,
    /// Random loss of the path.
    random_loss: RandomLoss,
    /// Until when no test begins.
    quiet_until: Option<Instant>,
    /// Time before the next probe.
    rest: Duration,
    /// Factor of the bucket's rate at which packets leave during a probe.
    gain: f64,
    /// The bytes that were delivered lately.
    history: DeliveryHistory,
    /// A queue that was full before it was as long as wanted.
    short: Option<ShortQueue>,
    /// Whether a probe confirmed the policer.
    confirmed: bool,
    /// Count that led to holding.
    before: Option<TrialBaseline>,
    /// Packets since holding began.
    held: LossCount,
    /// Packets that tell of a bucket without a test.
    evidence: Evidence,
    /// Rate of the path, in bytes/s, where a queue has taken the place of a policer.
    measured: Option<f64>,
}

/// State of the policer model; see the drawing at the head of the module.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// No policer is suspected.
    Free,
    /// The rate is reduced, to see whether loss vanishes.
    Trial { before: TrialBaseline, tries: u32 },
    /// A policer is assumed, and packets leave at its rate.
    Holding { bucket: Bucket, probe_at: Instant },
    /// A policer is assumed, and packets leave faster to see whether it still holds.
    Probing(Probe),
}

/// The baseline of a trial: the period before it.
#[derive(Clone, Copy, Debug)]
struct TrialBaseline {
    /// Delivery rate, in bytes/s.
    rate: f64,
    /// Count of delivered and lost packets.
    count: LossCount,
}

impl TrialBaseline {
    /// Whether much loss on an empty path makes a confirmation unnecessary.
    fn is_plain(&self, noise: Duration, test: &constants::LossTest) -> bool {
        let empty = test.empty + noise * 2;
        let empty = self.count.queue_at_loss.is_some_and(|it| it <= empty);
        empty && self.count.loss_ratio() >= test.plain_loss
    }
}

/// State of the queue, for judging a loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct PolicerInputs {
    /// Time at which the loss is judged.
    pub(super) now: Instant,
    /// Smoothed round-trip time of the path (RFC 6298 §2).
    pub(super) smoothed: Duration,
    /// Queueing delay of the latest packet.
    pub(super) queue: Duration,
    /// Mean deviation of round trips.
    pub(super) variation: Duration,
    /// Queueing delay that the flow aims at.
    pub(super) target: Duration,
    /// Size of datagrams, in bytes.
    pub(super) mtu: f64,
    /// Whether data has waited in the application for long.
    pub(super) is_backlogged: bool,
}

impl PolicerInputs {
    /// Whether the queue is no longer than the flow makes it.
    fn is_ours(&self) -> bool {
        self.queue <= self.target * 5 / 2
    }
}

impl Policer {
    /// Returns a model that suspects nothing.
    pub(super) fn new(constants: &Constants, now: Instant) -> Self {
        Self {
            test: constants.test,
            policed: constants.policed,
            phase: Phase::Free,
            count: LossCount::new(now),
            burst_detector: BurstDetector::default(),
            random_loss: RandomLoss::new(constants.random),
            quiet_until: None,
            rest: constants.policed.rest_min,
            gain: constants.policed.probe_gain,
            history: DeliveryHistory::default(),
            short: None,
            confirmed: false,
            before: None,
            held: LossCount::new(now),
            evidence: Evidence::new(now),
            measured: None,
        }
    }

    /// Returns the rate of the path in bytes/s once a probe has found a queue in place of a policer.
    pub(super) const fn take_measured(&mut self) -> Option<f64> {
        self.measured.take()
    }

    /// Records that `bytes` were sent at `now`.
    pub(super) fn on_sent(&mut self, now: Instant, bytes: f64) {
        match &mut self.phase {
            Phase::Holding { bucket, .. } | Phase::Probing(Probe { bucket, .. }) => {
                bucket.take(now, bytes);
            }
            Phase::Free | Phase::Trial { .. } => {}
        }
    }

    /// Whether [`on_sent`](Self::on_sent) does something in the present state.
    pub(super) const fn heeds_sending(&self) -> bool {
        matches!(self.phase, Phase::Holding { .. } | Phase::Probing(_))
    }

    /// Handles newly acknowledged packets. `round`: a round trip ended with them.
    pub(super) fn on_ack(&mut self, packets: &[Acked], round: bool, of: &PolicerInputs) {
        let (mut bytes, mut since) = (0.0, 0.0);
        for packet in packets {
            #[expect(clippy::cast_precision_loss, reason = "packets are small")]
            let size = packet.bytes as f64;
            bytes += size;
            if packet.sent >= self.count.began {
                since += size;
                if let Phase::Probing(Probe {
                    bucket, overdraft, ..
                }) = &mut self.phase
                {
                    overdraft.on_arrived(packet.sent, size, bucket.rate);
                }
            }
            self.burst_detector.on_arrived(packet.sent);
            self.evidence.on_arrived(packet.sent, size, of);
        }
        self.history.record(of.now, bytes);
        // While free, loss is detected as late as arrivals are; on trial, what was sent
        // before does not count.
        self.count.delivered += if matches!(self.phase, Phase::Free) {
            bytes
        } else {
            since
        };
        if round && since > 0.0 {
            self.count.rounds += 1;
        }
        self.count.queue_max = self.count.queue_max.max(of.queue);
        self.try_longer(of.now);
        self.judge(of);
        self.recognize(of);
    }

    /// Handles a loss of `bytes`. `newest_sent`: when the newest lost packet was sent.
    pub(super) fn on_loss(&mut self, bytes: f64, newest_sent: Instant, of: &PolicerInputs) {
        let burst = self.burst_detector.on_lost(newest_sent);
        self.evidence.on_lost(newest_sent, bytes, of);
        match &mut self.phase {
            Phase::Free => {
                if self.count.bursts == 0 {
                    self.random_loss.learn(&self.count, of.mtu);
                    // What arrived before the bucket was empty says nothing of its rate.
                    self.count = LossCount::new(of.now);
                    self.count.bursts = 1;
                    return;
                }
            }
            Phase::Trial { .. } | Phase::Probing(_) if newest_sent < self.count.began => {
                return;
            }
            Phase::Holding { bucket, .. } => {
                bucket.drop_seen();
                if newest_sent < self.count.began {
                    return;
                }
            }
            Phase::Trial { .. } | Phase::Probing(_) => {}
        }
        self.count.lost += bytes;
        self.count.bursts += u32::from(burst);
        let queue = self.count.queue_at_loss.unwrap_or(of.queue);
        self.count.queue_at_loss = Some(queue.min(of.queue));
        self.judge(of);
    }

    /// Advances the state by what was counted.
    fn judge(&mut self, of: &PolicerInputs) {
        match self.phase {
            Phase::Free => self.suspect(of),
            Phase::Trial { before, tries } => self.try_on(of, &before, tries),
            Phase::Holding { bucket, probe_at } => self.hold(of, bucket, probe_at),
            Phase::Probing(probe) => self.probe(of, probe),
        }
    }

    /// Enters a state and begins a new count.
    fn enter(&mut self, phase: Phase, now: Instant) {
        self.phase = phase;
        self.count = LossCount::new(now);
    }

    /// Enters a state whose count begins when the queue before the policer has drained.
    fn enter_after_drain(&mut self, phase: Phase, of: &PolicerInputs) {
        self.enter(phase, of.now + of.smoothed);
    }

    /// Returns the share of loss from which a test begins.
    fn threshold(&self) -> f64 {
        self.test
            .loss_min
            .max(self.test.floor_margin * self.random_loss.floor())
    }

    /// Whether random loss explains the count.
    fn is_chance(&self, mtu: f64) -> bool {
        self.random_loss.explains(&self.count, mtu)
    }

    /// Whether a trial costs less than the loss that it may end. A sender of which nothing waits sends
    /// what its source makes: at nine tenths of that, each second of a trial delays its data by 100 ms.
    /// Little loss is repaired sooner, and [`Evidence`] finds a policer without a trial.
    fn is_worth_a_trial(&self, of: &PolicerInputs) -> bool {
        of.is_backlogged || self.count.loss_ratio() >= self.test.plain_loss
    }

    /// Returns the time after which a count without a result ends.
    fn count_time_max(&self, of: &PolicerInputs) -> Duration {
        self.test.count_time_max.max(of.smoothed * 8)
    }

    /// Begins a trial if the loss cannot be random.
    fn suspect(&mut self, of: &PolicerInputs) {
        let count = self.count;
        let elapsed = count.elapsed(of.now);
        let enough =
            count.bursts >= self.test.bursts_min && count.lost >= self.test.packets_min * of.mtu;
        if enough
            && elapsed >= of.smoothed.max(self.test.rate_time_min)
            && count.loss_ratio() > self.threshold()
            && !self.is_chance(of.mtu)
            && self.is_worth_a_trial(of)
        {
            let quiet = self.quiet_until.is_some_and(|until| of.now < until);
            let quiet = quiet && count.loss_ratio() < self.test.loud;
            if !quiet && of.is_ours() {
                let before = TrialBaseline {
                    rate: count.rate(of.now),
                    count,
                };
                let phase = Phase::Trial { before, tries: 1 };
                return self.enter_after_drain(phase, of);
            }
        }
        if elapsed > self.count_time_max(of) {
            self.random_loss.learn(&count, of.mtu);
            self.count = LossCount::new(of.now);
        }
    }

    /// Ends a trial when it has seen enough packets: a policer, a short queue, another
    /// trial, or random loss.
    fn try_on(&mut self, of: &PolicerInputs, before: &TrialBaseline, tries: u32) {
        let count = self.count;
        let packets = |count: &LossCount| (count.delivered + count.lost) / of.mtu;
        let expected = packets(&count) * f64::from(before.count.bursts) / packets(&before.count);
        let wanted =
            self.test.trial_bursts * packets(&before.count) / f64::from(before.count.bursts);
        let pace = self.test.trial_share * before.rate / of.mtu;
        let is_endless = wanted > pace * self.test.trial_time_max.as_secs_f64();
        if is_endless && count.elapsed(of.now) > self.count_time_max(of) {
            // What came through while a path stood is no rate of a bucket, and ends no trial.
            return self.clear(of);
        }
        if count.rounds < 2 || expected < self.test.trial_bursts {
            return;
        }
        let left = count.loss_ratio() / before.count.loss_ratio();
        if left <= self.test.vanished && f64::from(count.bursts) <= self.test.vanished * expected {
            if let Some(queue) = before.count.full_queue(of.variation, &self.test) {
                return self.shorten(queue, before.rate, of.now);
            }
            let burst_max = self.policed.burst_max;
            let burst = self.history.burst(before.rate, burst_max);
            let bucket = Bucket::new(before.rate, burst, of.now);
            self.rest = self.policed.rest_first;
            let plain = before.is_plain(of.variation, &self.test);
            self.confirmed = plain && self.is_evident(of);
            self.before = Some(*before);
            self.held = LossCount::new(of.now);
            self.rest(bucket, of);
        } else if left <= self.test.abated && tries < self.test.tries_max {
            let before = TrialBaseline {
                rate: count.rate(of.now - of.smoothed).min(before.rate),
                ..*before
            };
            let tries = tries + 1;
            self.enter_after_drain(Phase::Trial { before, tries }, of);
        } else {
            self.random_loss.learn(&before.count, of.mtu);
            self.clear(of);
        }
    }

    /// Concludes that the loss is random.
    fn clear(&mut self, of: &PolicerInputs) {
        self.random_loss.learn(&self.count, of.mtu);
        self.quiet_until = Some(of.now + self.test.quiet);
        self.enter(Phase::Free, of.now);
    }

    /// Holds the bucket's rate until the next probe.
    fn rest(&mut self, bucket: Bucket, of: &PolicerInputs) {
        let probe_at = of.now + self.rest;
        self.enter(Phase::Holding { bucket, probe_at }, of.now);
    }

    /// Holds the policer's rate: corrects it, doubts it, or begins a probe.
    fn hold(&mut self, of: &PolicerInputs, mut bucket: Bucket, probe_at: Instant) {
        let count = self.count;
        let due = of.now >= probe_at;
        let lossy = count.rounds >= 2
            && count.lost >= self.test.packets_min / 2.0 * of.mtu
            && count.loss_ratio() > self.test.loss_min / 2.0
            && !self.is_chance(of.mtu);
        if !lossy && !due && count.elapsed(of.now) <= self.test.count_time_max {
            return;
        }
        if let Some(queue) = count.full_queue(of.variation, &self.test).filter(|_| lossy) {
            // At less than its rate a bucket has no queue: others fill this one.
            return self.shorten(queue, bucket.rate, of.now);
        }
        self.held.add(&count);
        if lossy {
            bucket.rate = count.rate(of.now - of.smoothed).min(bucket.rate * 0.97);
        }
        if self.is_doubtful(bucket.rate) {
            self.random_loss.learn(&self.held, of.mtu);
            self.evidence = Evidence::new(of.now);
            return self.clear(of);
        }
        let phase = if due && !lossy {
            Phase::Probing(Probe::new(bucket, of.now))
        } else {
            Phase::Holding { bucket, probe_at }
        };
        self.enter(phase, of.now);
    }

    /// Whether holding the rate does not reduce the loss.
    fn is_doubtful(&self, rate: f64) -> bool {
        let held = &self.held;
        self.before.is_some_and(|before| {
            let stayed = held.loss_ratio() > self.policed.doubt * before.count.loss_ratio();
            let many = f64::from(held.bursts) >= self.test.trial_bursts;
            (many && stayed) || rate < self.policed.rate_share_min * before.rate
        })
    }

    /// Returns the fastest rate to send at, in bytes/s. `mtu`: size of datagrams, in bytes.
    pub(super) fn pacing(&self, mtu: f64) -> Option<f64> {
        match self.phase {
            Phase::Free => None,
            Phase::Trial { before, .. } => Some(self.test.trial_share * before.rate),
            // A keyframe may use what the bucket holds, except for a reserve, as that is an
            // estimate.
            Phase::Holding { bucket, .. } => {
                let spare = bucket.tokens() > (bucket.burst / 4.0).max(2.0 * mtu);
                Some(if spare { 2.0 } else { self.policed.hold_share } * bucket.rate)
            }
            Phase::Probing(probe) => Some(self.gain * probe.bucket.rate),
        }
    }

    /// Returns the policer's rate in bytes/s, if the model knows one.
    pub(super) const fn rate(&self) -> Option<f64> {
        match self.phase {
            Phase::Holding { bucket, .. } | Phase::Probing(Probe { bucket, .. }) => {
                Some(bucket.rate)
            }
            Phase::Free | Phase::Trial { .. } => None,
        }
    }

    /// Returns the bytes of burst that may be in flight beyond the rate.
    pub(super) fn spare(&self) -> f64 {
        match self.phase {
            Phase::Holding { bucket, .. } => bucket.tokens().max(0.0),
            _ => 0.0,
        }
    }

    /// Whether a trial is under way.
    pub(super) const fn is_on_trial(&self) -> bool {
        matches!(self.phase, Phase::Trial { .. })
    }

    /// Whether a trial or a probe is under way.
    pub(super) const fn is_testing(&self) -> bool {
        matches!(self.phase, Phase::Trial { .. } | Phase::Probing(_))
    }

    /// Whether a policer is confirmed: loss vanished when the flow slowed, did not come
    /// from the end of a queue, and came back with a higher rate.
    pub(super) const fn is_policed(&self) -> bool {
        self.confirmed && self.rate().is_some()
    }

    /// Whether so much is lost that the path must be the limit.
    pub(super) fn is_losing(&self) -> bool {
        self.count.bursts >= self.test.bursts_min && self.count.loss_ratio() >= self.test.plain_loss
    }

    /// Returns the share of packets that the path loses whatever is sent, 0 to 1.
    pub(super) fn floor(&self) -> f64 {
        self.random_loss.floor()
    }

    /// Forgets the present state, because another flow is the cause.
    pub(super) fn forget(&mut self, now: Instant) {
        self.evidence = Evidence::new(now);
        self.enter(Phase::Free, now);
    }
}
