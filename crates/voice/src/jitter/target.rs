//! Target: the playout delay to aim for.
//!
//! All delays here are one-way delays between two clocks that were not compared, so only
//! their differences mean anything. A packet that is played at media time `t` waits for the
//! difference between the playout delay and its own delay.
//!
//! ```text
//! playout delay = highest of the last 120 ms
//!               + margin × (that highest above the floor, and some of the spread)
//!               + 1 ms and half a pull
//! ```
//!
//! The delay of a path at its floor seldom jumps far. The delay of a path with a queue does,
//! and further with a longer queue. So the margin grows with the level, and calm moments cost
//! almost nothing. Where one delay does not predict the next (their correlation shows that),
//! the median and the upper tail of the last seconds replace the highest of the last moments:
//! following it would only cause stretching.
//!
//! The necessary margin is not known beforehand and differs between paths, so it is learned
//! from its failures. Each millisecond that is concealed because a packet was late widens the
//! margin, and each second that passes narrows it, so that in the long run the late share is
//! the configured one. (The idea is that of adaptive conformal inference, Gibbs and Candès,
//! NeurIPS 2021: correct the quantile by its own failures instead of trusting a model of the
//! distribution.) The margin is bounded, because waiting does not always help: a sudden stall
//! of 200 ms is not worth waiting for.

use std::collections::VecDeque;

use super::pace::{Follows, PaceParameters};

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

/// Part of the margin that follows the spread instead of the level.
const SPREAD_SHARE: f64 = 0.15;
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
}

impl Outlook {
    /// Playout delay that covers `part` of the margin.
    pub(super) fn playout(self, part: f64) -> f64 {
        self.base + part * self.margin + 1.0
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

    /// Expected delays; `None` before the first packet.
    pub(super) fn outlook(&self) -> Option<Outlook> {
        let highest = self.recent.iter().map(|it| it.delay);
        let highest = highest.reduce(f64::max)?;
        let first = self.spread_first();
        let spread = self.spread.max(first).max(0.3);
        // Where one delay does not predict the next, the last ones are no guide.
        let mix =
            |swings: f64, scatters: f64| self.follows * swings + (1.0 - self.follows) * scatters;
        let base = mix(highest, self.middle);
        let level = mix(highest, self.tail) - self.floor;
        let height = (1.0 - SPREAD_SHARE) * level.max(0.0) + SPREAD_SHARE * spread + first;
        Some(Outlook {
            base,
            margin: self.log_margin.exp() * height,
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

    /// Computes floor, spread and correlation.
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

#[cfg(test)]
mod tests {
    use super::super::pace::Pace;
    use super::*;

    fn settled(delay: impl Fn(u32) -> f64) -> Target {
        let mut target = Target::new(0.001, Pace::Even.parameters());
        for packet in 0..3_000 {
            target.arrived(f64::from(packet) * 20.0 + delay(packet), delay(packet));
            target.passed(20.0);
        }
        target
    }

    #[test]
    fn a_steady_path_costs_next_to_nothing() {
        let target = settled(|packet| 500.0 + f64::from(packet % 3) * 0.5);
        let above = target.outlook().expect("packets came").playout(1.0) - 500.0;
        assert!((1.0..5.0).contains(&above), "{above}");
    }

    #[test]
    fn a_queue_is_answered_by_more_than_itself() {
        let calm = |packet: u32| 25.0 + 5.0 * (f64::from(packet) / 25.0).sin();
        let mut target = settled(calm);
        let before = target.outlook().expect("packets came").playout(1.0);
        target.arrived(60_100.0, 80.0);
        let after = target.outlook().expect("packets came").playout(1.0);
        assert!(before < 60.0 && after > 80.0 + 20.0, "{before} {after}");
    }

    #[test]
    fn a_path_that_begins_to_swing_is_followed_soon() {
        // Noise so far: nothing follows from anything.
        let mut target = settled(|packet| f64::from(packet.wrapping_mul(2_654_435_761) >> 31));
        assert!(target.follows < 0.1, "{}", target.follows);
        for packet in 0..10 {
            target.arrived(60_000.0 + 20.0 * f64::from(packet), 80.0);
        }
        let after = target.outlook().expect("packets came").playout(1.0);
        assert!(target.follows > 0.9 && after > 80.0, "{after}");
    }

    #[test]
    fn delays_that_scatter_are_not_chased() {
        // Eight values in an order that repeats only after long.
        let scattered = |packet: u32| f64::from(packet.wrapping_mul(2_654_435_761) >> 29) * 10.0;
        let mut target = settled(scattered);
        assert!(target.follows < 0.1, "{}", target.follows);
        let before = target.outlook().expect("packets came").playout(1.0);
        target.arrived(60_020.0, 0.0);
        target.arrived(60_040.0, 70.0);
        let after = target.outlook().expect("packets came").playout(1.0);
        assert!((after - before).abs() < 3.0, "{before} {after}");
        let swinging = |packet: u32| 30.0 + 30.0 * (f64::from(packet) / 20.0).sin();
        assert_eq!(settled(swinging).follows, 1.0);
    }

    #[test]
    fn failures_widen_the_margin_and_time_narrows_it_within_bounds() {
        let mut target = settled(|packet| f64::from(packet * 7 % 11));
        let narrow = target.outlook().expect("packets came").playout(1.0);
        // One event does not do that, whatever comes late of it.
        for _ in 0..1_000 {
            target.was_late(1_000.0);
        }
        let once = target.outlook().expect("packets came").playout(1.0);
        assert!(once < narrow + 5.0, "{narrow} {once}");
        for _ in 0..100 {
            target.was_late(1_000.0);
            target.passed(1_000.0);
        }
        let wide = target.outlook().expect("packets came").playout(1.0);
        assert!(wide > narrow + 5.0 && wide < 60.0, "{narrow} {wide}");
        target.passed(1e9);
        let again = target.outlook().expect("packets came").playout(1.0);
        assert!(again <= narrow, "{again} {narrow}");
    }

    #[test]
    fn a_path_that_begins_evenly_is_soon_trusted_and_another_is_not() {
        // How far delays may yet spread after 600 ms of packets of 10 ms.
        let begun = |delay: fn(u32) -> f64| {
            let mut target = Target::new(0.001, Pace::Even.parameters());
            for packet in 0..60 {
                target.arrived(f64::from(packet) * 10.0 + delay(packet), delay(packet));
            }
            target.spread_first()
        };
        let even = begun(|packet| 20.0 + f64::from(packet % 4) * 0.5);
        assert!(even < 2.0, "{even}");
        let uneven = begun(|packet| 26.0 + 6.0 * (f64::from(packet) / 8.0).sin());
        assert!(uneven > 9.0, "{uneven}");
        // Nothing can be known of it by the first.
        let mut target = Target::new(0.001, Pace::Even.parameters());
        target.arrived(20.0, 20.0);
        let first = target.outlook().expect("a packet came").playout(1.0);
        assert!(first > 35.0, "{first}");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut target = Target::new(0.001, Pace::Even.parameters());
        for packet in 0..100_000 {
            target.arrived(f64::from(packet) * 0.01, 5.0);
        }
        assert!(target.long.len() <= LONG_PACKETS && target.recent.len() <= RECENT_PACKETS_MAX);
    }

    /// A target after packets every 20 ms with these delays, in ms.
    fn after(delays: &[f64]) -> Target {
        let mut target = Target::new(0.001, Pace::Even.parameters());
        for (number, delay) in delays.iter().enumerate() {
            target.arrived(number as f64 * 20.0 + delay, *delay);
        }
        target
    }

    #[test]
    fn floor_middle_tail_and_spread_are_quantiles() {
        // 0 to 100, in an order in which none is a neighbor of the next.
        let delays: Vec<f64> = (0..101).map(|it| f64::from(it * 37 % 101)).collect();
        let mut target = Target::new(0.001, Pace::Even.parameters());
        for (number, delay) in (0u32..).zip(&delays) {
            target.arrived(f64::from(number) * 20.0, *delay);
        }
        target.review(3_000.0);
        assert_eq!(
            (target.floor, target.middle, target.tail),
            (2.0, 50.0, 98.0)
        );
        assert_eq!((target.most, target.spread), (100.0, 45.0));
        assert_eq!(target.floor(), 2.0);
        assert_eq!(target.reviewed, 3_000.0);
    }

    #[test]
    fn reviews_come_each_tenth_of_a_second_once_there_are_ten_packets() {
        let mut target = Target::new(0.001, Pace::Even.parameters());
        for packet in 0..10 {
            target.arrived(f64::from(packet) * 10.0, 20.0 + f64::from(packet));
        }
        // The ninth is at 80; the tenth waits for 180.
        assert_eq!((target.reviewed, target.most), (80.0, 28.0));
        target.arrived(179.9, 50.0);
        assert_eq!((target.reviewed, target.most), (80.0, 28.0));
        target.arrived(180.0, 40.0);
        assert_eq!(
            (target.reviewed, target.most),
            (180.0, 40.0),
            "of a queue the last"
        );
    }

    #[test]
    fn of_a_queue_that_empties_within_5_ms_only_the_last_counts() {
        for (apart_ms, kept) in [(4.9, 1), (5.0, 2), (5.1, 2)] {
            let mut target = Target::new(0.001, Pace::Even.parameters());
            target.arrived(100.0, 60.0);
            target.arrived(100.0 + apart_ms, 40.0);
            assert_eq!(
                (target.recent.len(), target.long.len()),
                (kept, kept),
                "{apart_ms}"
            );
        }
        // Neither is one that waited longer, or as long.
        for delay in [60.0, 61.0] {
            let mut target = Target::new(0.001, Pace::Even.parameters());
            target.arrived(100.0, 60.0);
            target.arrived(101.0, delay);
            assert_eq!(target.recent.len(), 2);
        }
    }

    #[test]
    fn windows_have_their_lengths() {
        let target = after(&[20.0; 500]);
        // 120 ms before the last, both ends included; eight seconds, too.
        assert_eq!((target.recent.len(), target.long.len()), (7, 401));
        // Of packets of 60 ms at least three.
        let mut target = Target::new(0.001, Pace::Even.parameters());
        for packet in 0..10 {
            target.arrived(f64::from(packet) * 100.0, 20.0);
        }
        assert_eq!(target.recent.len(), 3);
        // Of a flood at most 512, and 3,200.
        let mut target = Target::new(0.001, Pace::Even.parameters());
        for packet in 0..4_000 {
            target.arrived(f64::from(packet) * 0.01, 5.0);
        }
        assert_eq!((target.recent.len(), target.long.len()), (512, 3_200));
    }

    #[test]
    fn lateness_widens_the_margin_by_the_ms_up_to_100_and_time_forgives() {
        let mut target = Target::new(0.01, Pace::Even.parameters());
        assert_eq!(target.log_margin, 0.8f64.ln());
        let near = |target: &Target, wanted: f64| {
            let moved = target.log_margin - 0.8f64.ln();
            assert!((moved - wanted).abs() < 1e-9, "{moved} {wanted}");
        };
        target.was_late(40.0);
        near(&target, 0.1);
        // Of the next 100 only 60 count.
        target.was_late(100.0);
        near(&target, 0.25);
        target.was_late(1.0);
        near(&target, 0.25);
        assert_eq!(target.charged, 100.0);
        // A tenth of the time is forgiven, and a hundredth may be late.
        target.passed(200.0);
        assert_eq!(target.charged, 80.0);
        near(&target, 0.25 - 0.005);
        target.passed(1_000.0);
        assert_eq!(target.charged, 0.0);
        near(&target, 0.25 - 0.03);
        for _ in 0..100 {
            target.was_late(100.0);
            target.passed(1_000.0);
        }
        assert!((target.log_margin - 2.5f64.ln()).abs() < 0.03);
        target.passed(1e9);
        assert_eq!(target.log_margin, 0.15f64.ln());
    }

    #[test]
    fn the_outlook_is_the_highest_delay_and_a_margin_of_level_and_spread() {
        // 25 after 20: a calm path of a hundred packets and more.
        let mut delays = vec![20.0; 300];
        for delay in delays.iter_mut().step_by(10) {
            *delay = 22.0;
        }
        delays.extend([24.0, 26.0, 24.0]);
        let target = after(&delays);
        let outlook = target.outlook().expect("packets came");
        let first = target.spread_first();
        let spread = target.spread.max(first).max(0.3);
        let mix = |swings: f64, scatters: f64| {
            target.follows * swings + (1.0 - target.follows) * scatters
        };
        assert_eq!(outlook.base, mix(26.0, target.middle));
        let level = mix(26.0, target.tail) - 20.0;
        let height = 0.85 * level + 0.15 * spread + first;
        let margin = target.log_margin.exp() * height;
        assert!((outlook.margin - margin).abs() < 1e-9);
        for part in [0.0, 0.5, 1.0] {
            let playout = outlook.base + part * margin + 1.0;
            assert!((outlook.playout(part) - playout).abs() < 1e-9, "{part}");
        }
        // A path without any queue has a spread of 0.3 ms at least.
        let calm = after(&[20.0; 2_000]);
        let outlook = calm.outlook().expect("packets came");
        assert_eq!(outlook.base, 20.0);
        assert!(
            (outlook.margin - 0.8 * 0.15 * 0.3).abs() < 1e-3,
            "{outlook:?}"
        );
        assert!(
            Target::new(0.001, Pace::Even.parameters())
                .outlook()
                .is_none()
        );
    }

    #[test]
    fn the_first_spread_fades_by_200_ms_or_a_second() {
        // Ranges of 3, 6.5 and 10 ms: even, half way, uneven.
        for (range, constant) in [
            (0.0, 200.0),
            (3.0, 200.0),
            (6.5, 600.0),
            (10.0, 1_000.0),
            (30.0, 1_000.0),
        ] {
            let mut target = Target::new(0.001, Pace::Even.parameters());
            for packet in 0..26 {
                let delay = if packet % 2 == 0 { 20.0 } else { 20.0 + range };
                // Late enough after the one before to be no burst.
                target.arrived(f64::from(packet) * 20.0, delay);
            }
            let elapsed: f64 = 25.0 * 20.0;
            let wanted = 20.0 * (-elapsed / constant).exp();
            let found = target.spread_first();
            assert!((found - wanted).abs() < 1e-6, "{range}: {found} {wanted}");
        }
        assert_eq!(
            Target::new(0.001, Pace::Even.parameters()).spread_first(),
            20.0
        );
    }

    #[test]
    fn correlation_is_that_of_neighbors_or_of_those_apart() {
        // A wave of 16 packets: a quarter of it is four of them, 80 ms.
        let wave = |it: u32| 50.0 + 20.0 * (f64::from(it) * std::f64::consts::TAU / 16.0).sin();
        let delays: Vec<f64> = (0..320).map(wave).collect();
        let target = {
            let mut target = Target::new(0.001, Pace::Even.parameters());
            for (number, delay) in delays.iter().enumerate() {
                target.arrived(number as f64 * 20.0, *delay);
            }
            target
        };
        for (apart_ms, packets) in [(0.0, 1), (20.0, 1), (80.0, 4), (160.0, 8)] {
            // That of a sine with itself, later.
            let wanted = (f64::from(packets) * std::f64::consts::TAU / 16.0).cos();
            let found = target.correlation(apart_ms);
            assert!(
                (found - wanted).abs() < 0.03,
                "{apart_ms}: {found} {wanted}"
            );
        }
        // Judged between 0.4 and 0.7; cos 22.5° is 0.92.
        assert_eq!(target.follows, 1.0);
        // Below a hundred packets nothing is known of it.
        let scattered: Vec<f64> = (0..100u32)
            .map(|it| f64::from(it.wrapping_mul(2_654_435_761) >> 29) * 10.0)
            .collect();
        let apart = |count: usize| {
            let mut target = Target::new(0.001, Pace::Even.parameters());
            for (number, delay) in scattered[..count].iter().enumerate() {
                target.arrived(number as f64 * 20.0, *delay);
            }
            target.review(5_000.0);
            target.follows
        };
        assert_eq!(apart(99), 1.0);
        assert!(apart(100) < 0.1, "{}", apart(100));
    }
}
