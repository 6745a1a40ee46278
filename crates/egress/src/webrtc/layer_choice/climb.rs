//! The way up: what is probed before a viewer moves to a better layer, and how often.
//!
//! ```text
//! trains of media ─► promise ─► short probe ─► probe at the rate of the layer ─► held ─► up
//!   └ none: a short train of padding  └────────────┴ failed: the next one later
//! ```
//!
//! Trains promise too much or too little behind jitter, so a probe begins with as many bytes as make a queue
//! of 50 ms if the trains are right.

use std::time::{Duration, Instant};

use glassline_congestion::{PathSigns, TRAIN_BYTES_MIN, TrainRate};
use glassline_media::Bitrate;

use super::jitter::Jitter;
use super::{Selection, Situation, TRAIN_SURE};

/// Part of a layer's cost that trains have to promise, in percent.
const PROMISE_PERCENT: u64 = 115;
/// Part of a layer's cost that all trains together have to have, in percent: jitter makes them slower.
const TRAINS_PERCENT: u64 = 75;
/// Rate of trains, as a part of that before a probe that failed, from which on the path counts as another one,
/// in percent.
const WIDER_PERCENT: u64 = 150;
/// Rate of a probe as a part of the layer's cost, in percent.
const PROBE_PERCENT: u64 = 110;
/// Rate that trains reach during a probe that clearly failed, as a part of the probe's, in percent.
const CLEAR_PERCENT: u64 = 80;
/// Length of a probe.
const PROBE: Duration = Duration::from_millis(200);
/// Least length of a probe before: a few packets of the media are among it.
const PROBE_MIN: Duration = Duration::from_millis(60);
/// Longest queue that a probe may make on a path that carries what its trains say.
const OVERSHOOT_MAX: Duration = Duration::from_millis(50);
/// Length of a probe behind a policer, which lets a burst through before it drops packets.
const PROBE_POLICED: Duration = Duration::from_millis(1_000);
/// Time after a switch before the next probe: the keyframe of the new layer has passed.
const REST: Duration = Duration::from_millis(600);
/// Time to the next probe after one that failed; each further failure doubles the time.
const AGAIN: Duration = Duration::from_secs(2);
/// Doublings of that time after probes, which cost a short queue at most.
const DOUBLINGS_MAX: u32 = 3;
/// Doublings of that time after a layer that was left soon, and behind a policer: viewers see both.
const DOUBLINGS_SEEN_MAX: u32 = 5;
/// Failures that count for a path that carries less than its trains promise, as behind a policer.
const FAILURES_POLICED: u32 = 4;
/// Time to the first probe of which nothing is known; each one doubles the time.
const BLIND: Duration = Duration::from_secs(15);
/// Time to the first such probe where trains promise too little.
const BLIND_AGAINST: Duration = Duration::from_secs(60);
/// Time to wait for feedback behind a probe.
const FEEDBACK_MAX: Duration = Duration::from_secs(1);
/// Growth of the queue by a probe that did not hold.
const QUEUE_GROWTH: Duration = Duration::from_millis(20);
/// Queue before a probe that may be jitter.
const QUEUE_BEFORE_MAX: Duration = Duration::from_millis(30);
/// Loss of a probe that did not hold: one packet in so many.
const LOST_ONE_IN: u64 = 20;
/// Time on a layer after which the step up was right.
const PROVEN: Duration = Duration::from_secs(10);

/// Bytes of padding in a packet, with headers.
pub(crate) const PADDING_PACKET: u64 = 291;
/// Bytes of padding in a train, which a packet of the media begins.
const TRAIN: u64 = TRAIN_BYTES_MIN.div_ceil(PADDING_PACKET) * PADDING_PACKET;
/// Shortest interval of trains of padding.
const TRAIN_INTERVAL: Duration = Duration::from_secs(1);
/// Part of the sent bytes that trains of padding may take: one in so many.
const TRAIN_ONE_IN: u64 = 45;
/// Most bytes that such trains save up.
const TRAIN_CREDIT_MAX: u64 = 3 * TRAIN;

/// Share of a new rate of trains in the steady one: jitter makes single ones too fast or too slow.
const STEADY_ONE_IN: u64 = 16;

/// Time after a failure in which the steady rate still approaches the one that failed.
const STEADY_AFTER: Duration = Duration::from_secs(2);

/// Rates of trains in bits a second.
#[derive(Clone, Copy, Debug, Default)]
struct Trains {
    /// Rate of the recent ones; 0 without any.
    recent: u64,
    /// The rate, smoothed over the last trains; 0 without any.
    steady: u64,
    /// Whether the recent ones are many.
    are_sure: bool,
}

impl Trains {
    fn note(&mut self, train: Option<TrainRate>) {
        self.are_sure = train.is_some_and(|it| it.bytes >= TRAIN_SURE);
        self.recent = train.map_or(0, |it| it.rate.bps());
        if let Some(recent) = train.map(|it| it.rate.bps()) {
            self.steady = match self.steady {
                0 => recent,
                steady => steady - steady / STEADY_ONE_IN + recent / STEADY_ONE_IN,
            };
        }
    }

    fn max(self, other: Self) -> Self {
        Self {
            recent: self.recent.max(other.recent),
            steady: self.steady.max(other.steady),
            ..self
        }
    }

    /// Returns the rate that the path carries at least, as far as trains can say.
    fn least(self) -> u64 {
        match self.are_sure {
            true => self.recent.min(self.steady),
            false => 0,
        }
    }

    /// Returns whether these are of a wider path than `before`.
    fn are_wider_than(self, before: Self) -> bool {
        let is_wider = |now: u64, before: u64| now > (before / 100).saturating_mul(WIDER_PERCENT);
        is_wider(self.recent, before.recent) || is_wider(self.steady, before.steady)
    }
}

/// Padding that is to be sent.
#[derive(Debug, Default)]
pub(super) struct Probing {
    probe: Option<Probe>,
    /// Bytes of padding that follow the next frame.
    train: u64,
}

/// A test of the path at the rate of a layer.
#[derive(Clone, Copy, Debug)]
struct Probe {
    to: Selection,
    rate: Bitrate,
    began: Instant,
    length: Duration,
    /// Rates of trains before.
    trains: Trains,
    /// Mean queue before, and the longest since.
    queue_before: Duration,
    queue: Duration,
    /// Length by which jitter made the queue seem longer.
    jitter: Duration,
    /// Bytes that had been sent before.
    sent_before: u64,
    /// Number of the first packet behind the probe.
    end: Option<u64>,
}

impl Probing {
    /// Returns whether padding leaves at `now` or soon.
    pub(super) fn is_on(&self) -> bool {
        self.probe.is_some_and(|it| it.end.is_none())
    }

    /// Returns whether padding leaves at `now`, soon, or behind the next frame.
    pub(super) fn is_due(&self) -> bool {
        self.train > 0 || self.is_on()
    }

    /// Returns the bytes of padding that may leave at `now`. `sent`: bytes sent so far. `next`: number of
    /// the next packet. `follows`: whether media has just left.
    pub(super) fn due(&mut self, sent: u64, next: u64, follows: bool, now: Instant) -> u64 {
        let Some(probe) = self.probe.as_mut().filter(|it| it.end.is_none()) else {
            // What has just left begins the train.
            return match follows {
                true => std::mem::take(&mut self.train),
                false => 0,
            };
        };
        let elapsed = now.saturating_duration_since(probe.began);
        if elapsed >= probe.length {
            probe.end = Some(next);
            return 0;
        }
        let ms = u64::try_from(elapsed.as_millis()).unwrap_or_default();
        let wanted = probe.rate.bps() / 8_000 * ms;
        wanted.saturating_sub(sent.saturating_sub(probe.sent_before))
    }
}

impl Probe {
    /// Returns whether neither queue nor losses speak against the layer so far.
    fn holds(&self, signs: &PathSigns) -> bool {
        let is_losing = signs.lost >= 3 && signs.lost * LOST_ONE_IN > signs.packets;
        self.queue < self.queue_before + QUEUE_GROWTH + self.jitter && !is_losing
    }
}

/// The viewer's way up.
#[derive(Debug)]
pub(super) struct Climb {
    pub(super) probing: Probing,
    pub(super) jitter: Jitter,
    /// Earliest time of the next probe.
    next: Instant,
    failures: u32,
    /// Rate in bits a second that the best train promises.
    promised: u64,
    /// Rates of trains, and the largest before a probe that failed. Behind a jitter, single trains promise
    /// anything.
    trains: Trains,
    in_vain: Trains,
    /// Time of the latest failure.
    failed: Option<Instant>,
    /// Whether the path drops what its trains promise, as a policer does.
    is_policed: bool,
    /// Time of the next probe of which nothing is promised, and its number.
    blind: Instant,
    blinds: u32,
    /// When the viewer moved up last.
    risen: Option<Instant>,
    trained: Instant,
    credit: u64,
    sent: u64,
}

impl Climb {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            probing: Probing::default(),
            jitter: Jitter::default(),
            next: now,
            failures: 0,
            promised: 0,
            trains: Trains::default(),
            in_vain: Trains::default(),
            failed: None,
            is_policed: false,
            blind: now + BLIND,
            blinds: 0,
            risen: None,
            trained: now,
            credit: TRAIN,
            sent: 0,
        }
    }

    /// Notes that the path drops what its trains promise.
    pub(super) fn doubt(&mut self) {
        self.failures = self.failures.max(FAILURES_POLICED);
        self.in_vain = Trains {
            recent: u64::MAX,
            steady: u64::MAX,
            are_sure: true,
        };
        self.is_policed = true;
    }

    /// Ends a probe without a result.
    pub(super) fn stop(&mut self) {
        (self.probing.probe, self.probing.train) = (None, 0);
    }

    /// Notes that the viewer has the best layer it may get, since `since`.
    pub(super) fn rest(&mut self, since: Instant, now: Instant) {
        self.stop();
        self.blind = now + BLIND;
        if now.saturating_duration_since(since) >= PROVEN {
            (self.failures, self.blinds) = (0, 0);
            self.in_vain = Trains::default();
            self.is_policed = false;
        }
    }

    /// Notes that the viewer moves down from a layer that it had since `since`.
    pub(super) fn fell(&mut self, since: Instant, now: Instant) {
        let is_wrong = self
            .risen
            .is_some_and(|at| now.saturating_duration_since(at) < PROVEN);
        if is_wrong || self.is_policed {
            self.fail(self.trains, DOUBLINGS_SEEN_MAX, now);
        } else if now.saturating_duration_since(since) >= PROVEN {
            (self.failures, self.in_vain) = (0, Trains::default());
        }
        self.risen = None;
        self.blind = now + BLIND;
    }

    /// Notes that the path does not hold `probe`, of which the trains meanwhile say more than those before.
    fn fail_probe(&mut self, probe: Probe, now: Instant) {
        let is_clear = self.trains.recent * 100 < probe.rate.bps() * CLEAR_PERCENT;
        self.failures += u32::from(is_clear);
        let doublings_max = match self.is_policed {
            true => DOUBLINGS_SEEN_MAX,
            false => DOUBLINGS_MAX,
        };
        self.fail(probe.trains, doublings_max, now);
    }

    /// Notes that the path does not hold what `trains` promised.
    fn fail(&mut self, trains: Trains, doublings_max: u32, now: Instant) {
        self.in_vain = self.in_vain.max(trains);
        self.failed = Some(now);
        self.next = now + AGAIN * 2_u32.pow(self.failures.min(doublings_max));
        self.failures += 1;
    }

    /// Returns the length of the first probe at `rate`.
    fn length(&self, rate: Bitrate) -> Duration {
        if self.is_policed {
            return PROBE_POLICED;
        }
        let least = self.trains.least();
        match rate.bps().saturating_sub(least) {
            0 => PROBE,
            above => {
                let us = u128::from(least) * OVERSHOOT_MAX.as_micros() / u128::from(above);
                let us = u64::try_from(us).unwrap_or(u64::MAX);
                Duration::from_micros(us).clamp(PROBE_MIN, PROBE)
            }
        }
    }

    /// Goes on with the way up from `place` to at most `ceiling`. Returns the place of the layer that the
    /// path has held a probe for.
    pub(super) fn climb(
        &mut self,
        situation: &Situation<'_>,
        place: usize,
        ceiling: usize,
        since: Instant,
    ) -> Option<usize> {
        let Situation { rungs, now, .. } = *situation;
        if let Some(probe) = &mut self.probing.probe {
            probe.queue = probe.queue.max(situation.signs.queue);
            let probe = *probe;
            if probe.end.is_none() && !probe.holds(&situation.signs) {
                self.stop();
                self.fail_probe(probe, now);
                return None;
            }
            let to = rungs.iter().position(|it| it.selection == probe.to);
            let to = to.filter(|to| place < *to && *to <= ceiling);
            if !self.result(probe, situation)? {
                return None;
            }
            if probe.length < PROBE && to.is_some() {
                // The short one held: the path carries more than its trains say. What the short one left in the
                // queue counts against the whole one.
                self.probe(probe.to, probe.rate, PROBE, situation);
                if let Some(whole) = &mut self.probing.probe {
                    whole.queue_before = probe.queue_before;
                }
                return None;
            }
            self.risen = Some(now);
            return to;
        }
        // What failed on a narrow path says nothing of a wider one.
        let is_wider = self.trains.are_wider_than(self.in_vain);
        if now.saturating_duration_since(since) < REST {
            return None;
        }
        if now < self.next && !is_wider {
            self.train(situation);
            return None;
        }
        // Where a probe failed, the next layer may fit all the same.
        let highest = match self.trains.are_sure && (self.failures == 0 || is_wider) {
            true => ceiling,
            false => place + 1,
        };
        let mut above = rungs[place + 1..=highest].iter();
        let trains = self.trains.recent * 100 / TRAINS_PERCENT;
        let best = above.rposition(|it| it.cost().bps() <= self.promised.min(trains));
        let against = match situation.signs.train {
            None => Duration::ZERO,
            Some(_) => BLIND_AGAINST - BLIND,
        };
        let to = match best {
            Some(best) => place + 1 + best,
            None if now >= self.blind + against => {
                self.blinds += 1;
                self.blind = now + BLIND * 2_u32.pow(self.blinds.min(3));
                place + 1
            }
            None => {
                self.train(situation);
                return None;
            }
        };
        if !situation.may_probe {
            // The layer itself is the probe.
            self.risen = Some(now);
            return Some(to);
        }
        let rate = Bitrate::from_bps(rungs[to].cost().bps() * PROBE_PERCENT / 100);
        let length = self.length(rate);
        self.probe(rungs[to].selection, rate, length, situation);
        None
    }

    /// Begins a probe for the layer `to`.
    fn probe(&mut self, to: Selection, rate: Bitrate, length: Duration, situation: &Situation<'_>) {
        self.probing.probe = Some(Probe {
            to,
            rate,
            began: situation.now,
            length,
            trains: self.trains,
            queue_before: match situation.signs.standing {
                // Another flow fills the queue.
                standing if standing > QUEUE_BEFORE_MAX => standing + standing / 4,
                _ if self.jitter.is_large() => situation.signs.queue * 5 / 4,
                _ => situation.signs.queue.min(QUEUE_BEFORE_MAX),
            },
            queue: Duration::ZERO,
            jitter: self.jitter.beyond_queue(),
            sent_before: self.sent,
            end: None,
        });
    }

    /// Notes what has left so far, and what trains promise.
    pub(super) fn note(&mut self, situation: &Situation<'_>) {
        let train = situation.signs.train;
        self.promised = train.map_or(0, |it| it.best.bps()) * 100 / PROMISE_PERCENT;
        self.trains.note(train);
        let is_recent = |at| situation.now.saturating_duration_since(at) < STEADY_AFTER;
        if self.failed.is_some_and(is_recent) {
            self.in_vain.steady = self.in_vain.steady.max(self.trains.steady);
        }
        let more = situation.sent.saturating_sub(self.sent);
        self.sent = situation.sent;
        self.credit = (self.credit + more / TRAIN_ONE_IN).min(TRAIN_CREDIT_MAX);
    }

    /// Returns whether a probe has held; `None` while that is not known.
    fn result(&mut self, probe: Probe, situation: &Situation<'_>) -> Option<bool> {
        let Situation { signs, now, .. } = *situation;
        let end = probe.end?;
        if signs.newest + 1 < end {
            if now.saturating_duration_since(probe.began) > probe.length + FEEDBACK_MAX {
                // The feedback is lost, which says nothing of the path.
                self.stop();
            }
            return None;
        }
        self.stop();
        let has_held = probe.holds(&signs);
        if !has_held {
            self.fail_probe(probe, now);
        }
        Some(has_held)
    }

    /// Asks for a train of padding if the media makes none, as far as there is credit.
    fn train(&mut self, situation: &Situation<'_>) {
        let Situation { signs, now, .. } = *situation;
        let is_soon = now.saturating_duration_since(self.trained) < TRAIN_INTERVAL;
        let is_known = signs
            .train
            .is_some_and(|it| it.bytes >= 2 * TRAIN_BYTES_MIN);
        if is_known || is_soon || self.credit < TRAIN || !situation.may_probe {
            return;
        }
        self.trained = now;
        self.credit -= TRAIN;
        self.probing.train = TRAIN;
    }
}
