//! Replays recent packets against a token bucket, and says whether a bucket or chance
//! explains better which of them were lost.
//!
//! Flach et al. (SIGCOMM 2016, §3.1) take the rate between the first and the last loss of a
//! trace, and require that losses met an empty bucket and that arrivals met tokens. Here many
//! rates and depths are tried, and each packet counts by how likely its fate was: with the
//! best bucket, and by the chance that explains the losses best, which may lose in bursts.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::PolicerInputs;

/// Most packets that are remembered, 8 bytes each: two keyframes of 3 Mbit/s apart.
const PACKETS_MAX: usize = 1024;
/// Unit of a packet's time: three days fit into 32 bits.
const TICK: Duration = Duration::from_micros(64);

/// Unit of a packet's queueing delay: up to a second fits into 8 bits.
const QUEUE_STEP: Duration = Duration::from_millis(4);
/// Share of its longest up to which a queue is not full.
const QUEUE_FREE: f64 = 0.5;
/// Share of the longest queue that a loss met from which the others were as long.
const QUEUE_ALIKE: f64 = 0.7;
/// Longest queue, in steps, that jitter explains.
const QUEUE_LEAST: u8 = 2;
/// Share of the losses that must meet a queue that is not full.
const LOSSES_FREE: f64 = 0.25;

/// Chance that a bucket that lacks many tokens drops a packet. Below 1, because packets reach
/// the policer less evenly than they are sent.
const LOSS_EMPTY: f64 = 0.9;
/// Chance that a packet is lost though the bucket has many tokens.
const LOSS_FULL: f64 = 0.006;
/// Tokens, in packets after this one, from which a loss has another cause.
const ROOM_CLEAR: f64 = 2.5;
/// Fewest tokens, in packets: the bucket would have dropped before.
const ROOM_LEAST: f64 = -2.5;
/// Tokens, in packets, of the first and the last step of the table of chances.
const ROOM_RANGE: (f64, f64) = (-3.0, 6.0);
/// Steps of the table of chances.
const STEPS: usize = 72;

/// Depths of buckets that are tried, in seconds at their rate.
const DEPTHS: [f64; 9] = [0.02, 0.03, 0.045, 0.07, 0.1, 0.15, 0.22, 0.34, 0.5];
/// Rates that are tried, as powers of `RATE_STEP` of what arrived since the first loss. An
/// encoder sends less than the bucket's rate except at keyframes.
const RATE_STEPS: std::ops::RangeInclusive<i32> = -9..=18;
/// Ratio of neighboring rates.
const RATE_STEP: f64 = 1.07;
/// Ratios by which the best rate and the best depth are refined.
const RATES_FINE: [f64; 6] = [0.955, 0.97, 0.985, 1.015, 1.03, 1.045];
/// Ratios by which the best depth is refined.
const DEPTHS_FINE: [f64; 3] = [0.85, 1.0, 1.18];
/// Evidence against a bucket that finer values may still turn.
const COARSE_MARGIN: f64 = 15.0;

/// Shortest time from the first loss to a conclusion, in seconds: what arrived in less time is
/// far less than a bucket carries, and an encoder that is held to that rate stays there.
const SPAN_MIN: f64 = 1.0;

/// A packet whose fate is known.
#[derive(Clone, Copy, Debug)]
struct Outgoing {
    /// When the packet was sent, in ticks since the record began.
    sent: u32,
    /// Size, in bytes.
    bytes: u16,
    /// Queueing delay when the fate became known, in steps of `QUEUE_STEP`.
    queue: u8,
    /// Whether the packet was lost.
    is_lost: bool,
}

/// The fates of recent packets, in the order in which they were sent.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    /// When the record began.
    began: Instant,
    /// The packets, oldest first.
    packets: VecDeque<Outgoing>,
}

/// The token bucket that explains the losses best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Explanation {
    /// Rate of the bucket, in bytes/s.
    pub(super) rate: f64,
    /// The rate that arrived since the first loss, in bytes/s: hardly more than the bucket's rate.
    pub(super) arrived: f64,
    /// Time since the first loss, in seconds.
    pub(super) span: f64,
    /// Depth of the bucket, in bytes.
    pub(super) burst: f64,
    /// Natural logarithm of how many times likelier the fates are with this bucket than by
    /// chance.
    pub(super) evidence: f64,
}

impl Explanation {
    /// Whether this bucket is taken for a policer without a test. `least`: evidence that this
    /// takes.
    pub(super) fn is_conclusive(&self, least: f64) -> bool {
        self.evidence >= least && self.span >= SPAN_MIN
    }
}

impl Replay {
    /// Returns an empty record.
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            began: now,
            packets: VecDeque::new(),
        }
    }

    /// Records that a packet of `bytes` arrived that was sent at `sent`.
    /// `queue`: queueing delay that it met.
    pub(super) fn on_arrived(&mut self, sent: Instant, bytes: f64, queue: Duration) {
        self.record(sent, bytes, queue, false);
    }

    /// Records that packets of `bytes` in all were lost, the newest of which was sent at
    /// `sent`.
    pub(super) fn on_lost(&mut self, sent: Instant, bytes: f64, of: &PolicerInputs) {
        let mut rest = bytes;
        for _ in 0..PACKETS_MAX {
            if rest <= 0.0 {
                break;
            }
            self.record(sent, rest.min(of.mtu), of.queue, true);
            rest -= of.mtu;
        }
    }

    /// Adds a packet at its place in the order of sending.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a datagram has less than 2^16 bytes"
    )]
    fn record(&mut self, sent: Instant, bytes: f64, queue: Duration, is_lost: bool) {
        let Some(since) = sent.checked_duration_since(self.began) else {
            return;
        };
        let Ok(ticks) = u32::try_from(since.as_micros() / TICK.as_micros()) else {
            self.began = sent;
            return self.packets.clear();
        };
        let later = self.packets.iter().rev();
        let later = later.take_while(|it| it.sent > ticks).count();
        let packet = Outgoing {
            sent: ticks,
            bytes: bytes as u16,
            queue: u8::try_from(queue.as_millis() / QUEUE_STEP.as_millis()).unwrap_or(u8::MAX),
            is_lost,
        };
        self.packets.insert(self.packets.len() - later, packet);
        if self.packets.len() > PACKETS_MAX {
            self.packets.pop_front();
        }
    }

    /// Whether the losses met a queue that was about as long as it ever was, or always the
    /// same, so that its end dropped the packets: by the rule of a bucket, too. What counts
    /// as no queue may have changed meanwhile, so the longest one is not enough.
    fn is_queue(&self) -> bool {
        let longest = self.packets.iter().map(|it| it.queue).max();
        let longest = longest.unwrap_or_default();
        let lost = || self.packets.iter().filter(|it| it.is_lost);
        let lost = || lost().map(|it| f64::from(it.queue));
        let free = lost().filter(|queue| *queue <= QUEUE_FREE * f64::from(longest));
        let full = (free.count() as f64) < LOSSES_FREE * lost().count() as f64;
        let most = lost().fold(0.0, f64::max);
        let alike = lost().all(|queue| queue >= QUEUE_ALIKE * most);
        longest > QUEUE_LEAST && full || most > f64::from(QUEUE_LEAST) && alike
    }

    /// Returns the bucket that explains the losses best, if there is one that explains them
    /// better than chance, and no full queue does. `mtu`: size of datagrams, in bytes.
    pub(super) fn explain(&self, mtu: f64) -> Option<Explanation> {
        if self.is_queue() {
            return None;
        }
        let first = self.packets.iter().position(|it| it.is_lost)?;
        let newest = self.packets.back()?;
        let span = seconds(newest.sent - self.packets.get(first)?.sent).max(0.05);
        let arrived = self.packets.range(first..).filter(|it| !it.is_lost);
        let base = arrived.map(|it| f64::from(it.bytes)).sum::<f64>() / span;
        if base <= 0.0 {
            return None;
        }
        let chance = by_chance(self.packets.iter().map(|it| it.is_lost));
        let fit = Fit {
            packets: &self.packets,
            chances: chances(),
            mtu,
        };
        let mut best = Bucket {
            likelihood: chance - COARSE_MARGIN,
            rate: 0.0,
            depth: 0.0,
        };
        for step in RATE_STEPS {
            let rate = base * RATE_STEP.powi(step);
            for depth in DEPTHS {
                fit.improve(&mut best, rate, depth);
            }
        }
        let Bucket { rate, depth, .. } = best;
        for finer in RATES_FINE {
            for deeper in DEPTHS_FINE {
                fit.improve(&mut best, rate * finer, depth * deeper);
            }
        }
        (best.rate > 0.0 && best.likelihood > chance).then_some(Explanation {
            rate: best.rate,
            arrived: base,
            span,
            burst: best.depth * best.rate,
            evidence: best.likelihood - chance,
        })
    }
}

/// The bucket that explains the packets' fates best so far.
struct Bucket {
    /// Log likelihood of the fates.
    likelihood: f64,
    /// Bytes a second that flow in.
    rate: f64,
    /// Seconds for which the rate fills the bucket.
    depth: f64,
}

/// The deliveries that buckets are fitted to.
struct Fit<'a> {
    /// The packets, oldest first.
    packets: &'a VecDeque<Outgoing>,
    /// Logarithms of the chances of arrival and loss, by tokens.
    chances: [[f64; 2]; STEPS + 1],
    /// Size of datagrams, in bytes.
    mtu: f64,
}

impl Fit<'_> {
    /// Replaces the best bucket if the one of `rate` and `depth` explains more.
    fn improve(&self, best: &mut Bucket, rate: f64, depth: f64) {
        if let Some(likelihood) = self.likelihood(rate, depth * rate, best.likelihood) {
            best.likelihood = likelihood;
            (best.rate, best.depth) = (rate, depth);
        }
    }

    /// Returns the log likelihood of the packets' fates with a bucket, or `None` if it is
    /// not above `least`.
    fn likelihood(&self, rate: f64, burst: f64, least: f64) -> Option<f64> {
        // Nothing is known of the tokens before: the first loss tells that there are none.
        let mut tokens = burst;
        let mut anchored = false;
        let mut likelihood = 0.0;
        let mut before = self.packets.front()?.sent;
        for it in self.packets {
            let bytes = f64::from(it.bytes);
            tokens = (tokens + seconds(it.sent - before) * rate).min(burst);
            before = it.sent;
            let room = if it.is_lost && !anchored {
                0.0
            } else {
                (tokens - bytes) / self.mtu
            };
            likelihood += self.chances[step(room)][usize::from(it.is_lost)];
            if !it.is_lost {
                tokens = (tokens - bytes).max(ROOM_LEAST * self.mtu);
            } else if room < ROOM_CLEAR {
                anchored = true;
                tokens = tokens.min(bytes / 2.0);
            }
            if likelihood <= least {
                return None;
            }
        }
        Some(likelihood)
    }
}

/// Returns a time in seconds.
fn seconds(ticks: u32) -> f64 {
    f64::from(ticks) * TICK.as_secs_f64()
}

/// Returns the step of the table of chances for tokens in packets.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "limited to the table"
)]
fn step(room: f64) -> usize {
    let (least, most) = ROOM_RANGE;
    let step = (room - least) / (most - least) * STEPS as f64 + 0.5;
    step.clamp(0.0, STEPS as f64) as usize
}

/// Returns the logarithms of the chances of arrival and loss, by tokens. A logistic curve
/// stands for how unevenly packets reach the policer.
#[expect(clippy::cast_precision_loss, reason = "few steps")]
fn chances() -> [[f64; 2]; STEPS + 1] {
    let (least, most) = ROOM_RANGE;
    std::array::from_fn(|step| {
        let room = least + (most - least) * step as f64 / STEPS as f64;
        let empty = 1.0 / (1.0 + (1.3 * (room + 0.3)).exp());
        let loss = LOSS_FULL + (LOSS_EMPTY - LOSS_FULL) * empty;
        [(1.0 - loss).ln(), loss.ln()]
    })
}

/// Returns the log likelihood of `losses` under the Markov chain of two states that explains
/// them best: losses that come singly or in bursts, whatever is sent.
fn by_chance(losses: impl Iterator<Item = bool>) -> f64 {
    let mut counts = [[0.0_f64; 2]; 2];
    let mut before = false;
    for is_lost in losses {
        counts[usize::from(before)][usize::from(is_lost)] += 1.0;
        before = is_lost;
    }
    let term = |count: f64, of: f64| {
        if count > 0.0 {
            count * (count / of).ln()
        } else {
            0.0
        }
    };
    let row =
        |[arrived, lost]: [f64; 2]| term(arrived, arrived + lost) + term(lost, arrived + lost);
    counts.into_iter().map(row).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const MTU: f64 = 1200.0;

    /// The way of a camera's packets.
    struct Camera {
        replay: Replay,
        start: Instant,
        of: PolicerInputs,
        /// State of the generator of random numbers.
        random: u64,
    }

    impl Camera {
        fn new() -> Self {
            let start = Instant::now();
            let of = PolicerInputs {
                now: start,
                smoothed: MS * 60,
                queue: Duration::ZERO,
                variation: Duration::ZERO,
                target: MS * 60,
                mtu: MTU,
                is_backlogged: false,
            };
            Self {
                replay: Replay::new(start),
                start,
                of,
                random: 7,
            }
        }

        /// Returns a number from 0 to 1 (xorshift).
        #[expect(clippy::cast_precision_loss, reason = "a chance")]
        fn chance(&mut self) -> f64 {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            (self.random >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// Sends 30 frames a second of 1.1 Mbit/s, a keyframe of five times the size every
        /// two seconds, in packets 3 ms apart. `is_lost`: by the time in seconds and a chance.
        fn send(&mut self, frames: u32, mut is_lost: impl FnMut(f64, f64) -> bool) {
            let mut free = Duration::ZERO;
            for frame in 0..frames {
                free = free.max(Duration::from_secs(1) * frame / 30);
                let packets = if frame % 60 == 0 { 18 } else { 4 };
                for _ in 0..packets {
                    free += MS * 3;
                    let chance = self.chance();
                    if is_lost(free.as_secs_f64(), chance) {
                        self.replay.on_lost(self.start + free, MTU, &self.of);
                    } else {
                        let queue = self.of.queue;
                        self.replay.on_arrived(self.start + free, MTU, queue);
                    }
                }
            }
        }
    }

    /// Rate of a policer of 1.2 Mbit/s, in bytes/s.
    const RATE: f64 = 150_000.0;

    /// Returns a policer of `rate` bytes/s that holds 60 ms.
    fn bucket(rate: f64) -> impl FnMut(f64, f64) -> bool {
        let burst = 0.06 * rate;
        let (mut tokens, mut before) = (burst, 0.0);
        move |now, _| {
            tokens = f64::min(burst, tokens + (now - before) * rate);
            before = now;
            let is_lost = tokens < MTU;
            tokens -= if is_lost { 0.0 } else { MTU };
            is_lost
        }
    }

    #[test]
    fn a_bucket_that_drops_only_keyframes_is_evident_at_the_second_one() {
        let mut camera = Camera::new();
        camera.send(70, bucket(RATE));
        let found = camera.replay.explain(MTU).expect("a bucket");
        assert!(found.evidence > 15.0, "{found:?}");
        assert!((100_000.0..250_000.0).contains(&found.rate), "{found:?}");
        assert!(found.arrived < 1.1 * 150_000.0, "{found:?}");
    }

    #[test]
    fn a_bucket_that_is_evident_at_once_is_concluded_a_second_after_its_first_loss() {
        // Half of what is sent fits through the bucket: there is evidence within 0.3 s.
        let explained = |frames| {
            let mut camera = Camera::new();
            camera.send(frames, bucket(75_000.0));
            camera.replay.explain(MTU).expect("a bucket")
        };
        let (early, late) = (explained(20), explained(60));
        assert!(early.evidence > 15.0 && early.span < 1.0, "{early:?}");
        assert!(!early.is_conclusive(15.0), "{early:?}");
        assert!(late.is_conclusive(15.0), "{late:?}");
        assert!(!late.is_conclusive(late.evidence + 1.0), "{late:?}");
    }

    #[test]
    fn losses_that_come_by_chance_are_no_bucket_however_many_and_in_bursts_or_not() {
        for share in [0.005, 0.02, 0.05, 0.1] {
            let mut single = Camera::new();
            single.send(300, |_, chance| chance < share);
            let found = single.replay.explain(MTU);
            assert!(
                found.is_none_or(|it| it.evidence < 12.0),
                "{share} {found:?}"
            );
            let mut bursts = Camera::new();
            let mut until = 0.0;
            bursts.send(300, |now, chance| {
                if chance < share / 2.0 {
                    until = now + 0.006;
                }
                now < until
            });
            let found = bursts.replay.explain(MTU);
            assert!(
                found.is_none_or(|it| it.evidence < 12.0),
                "{share} {found:?}"
            );
        }
    }

    #[test]
    fn losses_at_the_end_of_a_full_queue_are_no_bucket() {
        let mut camera = Camera::new();
        camera.of.queue = MS * 40;
        camera.send(70, bucket(RATE));
        assert_eq!(camera.replay.explain(MTU), None);
    }

    #[test]
    fn losses_that_meet_the_same_queue_are_no_bucket_though_it_seemed_longer_before() {
        let mut camera = Camera::new();
        camera.replay.on_arrived(camera.start, MTU, MS * 150);
        camera.of.queue = MS * 60;
        camera.send(70, bucket(RATE));
        assert_eq!(camera.replay.explain(MTU), None);
    }

    #[test]
    fn the_record_is_bounded_and_a_loss_of_any_size_is_taken() {
        let mut camera = Camera::new();
        camera.send(600, |_, _| false);
        assert_eq!(camera.replay.packets.len(), PACKETS_MAX);
        assert_eq!(camera.replay.explain(MTU), None, "nothing was lost");
        let sent = camera.start + Duration::from_secs(20);
        camera.replay.on_lost(sent, 1e12, &camera.of);
        assert_eq!(camera.replay.packets.len(), PACKETS_MAX);
        assert_eq!(camera.replay.explain(MTU), None, "nothing arrived");
    }
}
