//! Target: the playout delay to aim for.
//!
//! All delays here are one-way delays between two clocks that were not compared, so only
//! their differences mean anything. A packet that is played at media time `t` waits for the
//! difference between the playout delay and its own delay.
//!
//! ```text
//! playout delay = highest of the last 120 ms
//!               + margin × (part of that highest above the floor, and part of the spread)
//!               + 1 ms and half a pull
//! ```
//!
//! The delay of a path at its floor seldom jumps far. The delay of a path with a queue does,
//! and further with a longer queue. So the margin of a pace that moves readily grows with the
//! level, and calm moments cost almost nothing. A pace that keeps its delay until the next pause
//! must be ready for what comes until then, so its margin grows with the spread of the last
//! seconds. Where one delay does not predict the next (their correlation shows that),
//! the median and the upper tail of the last seconds replace the highest of the last moments:
//! following it would only cause stretching.
//!
//! A packet that has not come yet counts as well: while it is missing, its delay is at least the
//! time since it would have come without any. So the playout delay begins to rise before a late
//! packet is there. A lost packet looks the same until the next one arrives; where losses are the
//! reason, delays seldom predict each other, and the highest delay counts little.
//!
//! The necessary margin is not known beforehand and differs between paths, so it is learned
//! from its failures. Each millisecond that is concealed because a packet was late widens the
//! margin, and each second that passes narrows it, so that in the long run the late share is
//! the configured one. (The idea is that of adaptive conformal inference, Gibbs and Candès,
//! NeurIPS 2021: correct the quantile by its own failures instead of trusting a model of the
//! distribution.) The margin is bounded, because waiting does not always help: a sudden stall
//! of 200 ms is not worth waiting for.

use std::collections::VecDeque;

use super::pace::{Follows, PaceParameters, Reserve};

#[cfg(test)]
mod tests;

/// Fewest packets over which the highest delay is taken, if packets are long.
const RECENT_PACKETS_MIN: usize = 3;
/// Most packets over which the highest delay is taken, if a sender floods.
const RECENT_PACKETS_MAX: usize = 512;
/// Time within which packets count as arriving at once, in ms.
const BURST_MS: f64 = 5.0;
/// Window over which the delay floor and spread are measured, in ms.
const LONG_MS: f64 = 8_000.0;
/// Most packets in that window, at 2.5 ms a packet; if there are more, the oldest are
/// forgotten earlier.
const LONG_PACKETS: usize = 3_200;
/// Time between two computations of floor and spread, in ms.
const REVIEW_MS: f64 = 100.0;

/// Part of the spread assumed at the beginning that counts towards the spread.
const SPREAD_FIRST_SHARE: f64 = 0.15;
/// Share of the steps from one delay to the next that are no longer than what counts as a jump.
const JUMP_SHARE: f64 = 0.98;
/// Change of the margin's logarithm for each late millisecond.
const LEARN_PER_MS: f64 = 0.0025;
/// Most lateness that a single event may add to the margin, in ms.
const EVENT_MS: f64 = 100.0;
/// Rate at which charged lateness is forgotten, per unit of time that passes.
const EVENT_FADES: f64 = 0.1;
/// Smallest margin that the target may take.
const MARGIN_MIN: f64 = 0.15;
/// Largest margin that the target may take.
const MARGIN_MAX: f64 = 2.5;
/// Fewest packets from which the correlation of delays is estimated.
const FOLLOWS_PACKETS: usize = 100;
/// Margin at the beginning of a stream.
const MARGIN_FIRST: f64 = 0.8;
/// Spread assumed at the beginning of a stream, in ms; it fades as time passes.
const SPREAD_FIRST_MS: f64 = 20.0;
/// Time constant with which [`SPREAD_FIRST_MS`] fades where packets have come evenly, in ms.
const SPREAD_FIRST_FADES_EVEN_MS: f64 = 200.0;
/// Time constant with which [`SPREAD_FIRST_MS`] fades where packets have come unevenly, in
/// ms.
const SPREAD_FIRST_FADES_UNEVEN_MS: f64 = 1_000.0;
/// Range of delays up to which a path counts as even, in ms.
const EVEN_MS: f64 = 3.0;
/// Range of delays from which a path counts as uneven, in ms.
const UNEVEN_MS: f64 = 10.0;

/// Computes the playout delay to aim for. All delays are in ms.
#[derive(Clone, Debug)]
pub(super) struct Target {
    late_share: f64,
    parameters: PaceParameters,
    /// Arrivals of the last moments.
    recent: VecDeque<Arrival>,
    /// Arrivals of the last seconds.
    long: VecDeque<Arrival>,
    /// Delay of a packet that met no queue.
    floor: f64,
    /// Median of the recent delays.
    middle: f64,
    /// 98th percentile of the delay.
    tail: f64,
    /// Highest of the recent delays.
    most: f64,
    /// 95th percentile of the delay minus its median.
    spread: f64,
    /// How far a delay is seldom above the one before it.
    jump: f64,
    /// How well one delay predicts the next, 0 to 1.
    follows: f64,
    /// When floor and spread were last computed.
    reviewed: f64,
    /// When the first packet arrived.
    begun: Option<f64>,
    /// Logarithm of the margin.
    log_margin: f64,
    /// Lateness charged to the margin recently, in ms.
    charged: f64,
}

/// Arrival of a packet; times in ms.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    /// When the packet arrived.
    at: f64,
    /// One-way delay of the packet.
    delay: f64,
}

/// Expected delays, in ms by the clocks of the delays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outlook {
    /// Delay that the next packet is expected to have.
    base: f64,
    /// How far above [`Self::base`] the next delay may be.
    margin: f64,
    /// How far a delay is seldom above the one before it.
    jump: f64,
}

impl Outlook {
    /// Playout delay that covers `part` of the margin.
    pub(super) fn playout(self, part: f64) -> f64 {
        self.base + part * self.margin + 1.0
    }

    /// Part of the margin that `reserve` asks for, 0 to 1.
    pub(super) fn part(self, reserve: Reserve) -> f64 {
        match reserve {
            Reserve::Part(part) => part,
            Reserve::Jump(most) => (self.jump / self.margin.max(1e-3)).min(most),
        }
    }
}

impl Target {
    /// Makes a target without arrivals. `late_share` is the share of the time that may be
    /// concealed in the long run because packets are late.
    pub(super) fn new(late_share: f64, parameters: PaceParameters) -> Self {
        Self {
            late_share,
            parameters,
            recent: VecDeque::new(),
            long: VecDeque::new(),
            floor: 0.0,
            middle: 0.0,
            tail: 0.0,
            most: 0.0,
            follows: 1.0,
            spread: 0.0,
            jump: 0.0,
            reviewed: f64::NEG_INFINITY,
            begun: None,
            log_margin: MARGIN_FIRST.ln(),
            charged: 0.0,
        }
    }

    /// Notes that a packet arrived at `at` with a one-way delay of `delay`, both in ms.
    pub(super) fn arrived(&mut self, at: f64, delay: f64) {
        self.begun.get_or_insert(at);
        let arrival = Arrival { at, delay };
        for window in [&mut self.recent, &mut self.long] {
            // Of a queue that empties at once only the last packet counts.
            let is_of_burst = |it: &Arrival| at - it.at < BURST_MS && it.delay > delay;
            while window.back().is_some_and(is_of_burst) {
                window.pop_back();
            }
        }
        self.recent.push_back(arrival);
        let is_old = |it: &Arrival| it.at < at - self.parameters.recent_ms;
        while self.recent.len() > RECENT_PACKETS_MAX
            || self.recent.len() > RECENT_PACKETS_MIN && is_old(&self.recent[0])
        {
            self.recent.pop_front();
        }
        self.long.push_back(arrival);
        while self.long.len() > LONG_PACKETS || self.long[0].at < at - LONG_MS {
            self.long.pop_front();
        }
        if at - self.reviewed >= REVIEW_MS || self.long.len() < 10 {
            self.review(at);
        }
    }

    /// Charges `ms` that were concealed because a packet was late. One event counts for at
    /// most [`EVENT_MS`]: no margin is meant to prevent a longer one.
    pub(super) fn was_late(&mut self, ms: f64) {
        let ms = ms.min((EVENT_MS - self.charged).max(0.0));
        self.charged += ms;
        self.learn(LEARN_PER_MS * ms);
    }

    /// Notes that `ms` of audio were played.
    pub(super) fn passed(&mut self, ms: f64) {
        self.charged = (self.charged - ms * EVENT_FADES).max(0.0);
        self.learn(-LEARN_PER_MS * self.late_share * ms);
    }

    /// Expected delays from the packets that arrived; `None` before the first.
    pub(super) fn outlook(&self) -> Option<Outlook> {
        self.outlook_beside(f64::NEG_INFINITY)
    }

    /// Expected delays while a packet is missing that has at least the delay `overdue` in ms,
    /// unless it is lost; `None` before the first packet.
    pub(super) fn outlook_beside(&self, overdue: f64) -> Option<Outlook> {
        let highest = self.recent.iter().map(|it| it.delay);
        let highest = highest.reduce(f64::max)?.max(overdue);
        let first = self.spread_first();
        let parts = self.parameters.height;
        let spread = parts.spread * self.spread.max(0.3);
        let spread = spread.max(SPREAD_FIRST_SHARE * first);
        // Where one delay does not predict the next, the last ones are no guide.
        let mix =
            |swings: f64, scatters: f64| self.follows * swings + (1.0 - self.follows) * scatters;
        let base = mix(highest, self.middle);
        let level = mix(highest, self.tail) - self.floor;
        let height = parts.level * level.max(0.0) + spread + first;
        Some(Outlook {
            base,
            margin: self.log_margin.exp() * height,
            jump: self.jump,
        })
    }

    /// Part of the assumed spread that remains while few packets have arrived, in ms.
    fn spread_first(&self) -> f64 {
        let last = self.recent.back().map_or(0.0, |it| it.at);
        let elapsed = last - self.begun.unwrap_or(last);
        let (soon, late) = (SPREAD_FIRST_FADES_EVEN_MS, SPREAD_FIRST_FADES_UNEVEN_MS);
        let unrest = (self.most - self.floor - EVEN_MS) / (UNEVEN_MS - EVEN_MS);
        SPREAD_FIRST_MS * (-elapsed / (soon + unrest.clamp(0.0, 1.0) * (late - soon))).exp()
    }

    /// Delay of a packet that met no queue, in ms.
    pub(super) const fn floor(&self) -> f64 {
        self.floor
    }

    /// Lateness charged to the margin recently, in ms.
    #[cfg(test)]
    pub(super) const fn charged(&self) -> f64 {
        self.charged
    }

    /// Changes the margin's logarithm by `by`, within its bounds.
    fn learn(&mut self, by: f64) {
        self.log_margin = (self.log_margin + by).clamp(MARGIN_MIN.ln(), MARGIN_MAX.ln());
    }

    /// Computes floor, spread, jumps and correlation.
    fn review(&mut self, at: f64) {
        self.reviewed = at;
        let mut delays: Vec<f64> = self.long.iter().map(|it| it.delay).collect();
        delays.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| delays[((delays.len() - 1) as f64 * share).round() as usize];
        self.floor = at(0.02);
        self.middle = at(0.50);
        self.tail = at(0.98);
        self.most = at(1.0);
        let Follows {
            apart_ms,
            scatters,
            swings,
        } = self.parameters.follows;
        self.follows = match self.long.len() {
            0..FOLLOWS_PACKETS => 1.0,
            _ => ((self.correlation(apart_ms) - scatters) / (swings - scatters)).clamp(0.0, 1.0),
        };
        self.spread = at(0.95) - at(0.50);
        self.jump = self.seldom_exceeded_jump();
    }

    /// Step up from one delay to the next that a share of [`JUMP_SHARE`] does not exceed.
    fn seldom_exceeded_jump(&self) -> f64 {
        let nexts = self.long.iter().skip(1);
        let steps = self.long.iter().zip(nexts).map(|(a, b)| b.delay - a.delay);
        let mut steps: Vec<f64> = steps.collect();
        steps.sort_unstable_by(f64::total_cmp);
        let place = (steps.len().saturating_sub(1) as f64 * JUMP_SHARE).round() as usize;
        steps.get(place).map_or(0.0, |it| it.max(0.0))
    }

    /// Correlation of each delay with the one `apart_ms` later, or the next.
    fn correlation(&self, apart_ms: f64) -> f64 {
        let count = self.long.len() as f64;
        let ends = self.long.front().zip(self.long.back());
        let lasts = ends.map_or(0.0, |(first, last)| last.at - first.at);
        let later = (count * apart_ms / lasts.max(1.0)).round().max(1.0);
        let mean = self.long.iter().map(|it| it.delay).sum::<f64>() / count;
        let (mut both, mut power) = (0.0, 1e-9);
        let nexts = self.long.iter().skip(later as usize);
        for (a, b) in self.long.iter().zip(nexts) {
            both += (a.delay - mean) * (b.delay - mean);
            power += (a.delay - mean) * (a.delay - mean);
        }
        both / power
    }
}
