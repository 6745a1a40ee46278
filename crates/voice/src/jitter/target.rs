//! How long to wait.
//!
//! All delays here are one-way delays by two clocks that nobody compared: only their
//! differences mean anything. A packet that is played at media time `t` waits for
//! what the playout delay is above its own delay.
//!
//! ```text
//! playout delay = highest of the last 120 ms
//!               + margin × (that highest above the floor, and some of the spread)
//!               + 1 ms and half a pull
//! ```
//!
//! A path that is at its floor seldom jumps far; one that has a queue does, and the
//! further the longer the queue is: so the margin grows with the level, and a calm
//! moment costs next to nothing. Where one delay says nothing of the next (their
//! correlation tells), the middle and the upper tail of the last seconds stand in for
//! the highest of the last moments: chasing it would only stretch.
//!
//! How much of the margin is needed is not known beforehand and differs from path to
//! path. It is learnt from what comes of it: each millisecond that had to be concealed
//! because a packet was late widens it, each second that passes narrows it, so that in
//! the long run the late share is what was asked for. (The idea is that of adaptive conformal inference, Gibbs and
//! Candès, NeurIPS 2021: correct the quantile by its own failures instead of trusting
//! a model of the distribution.) Where waiting does not help, the margin ends at a
//! bound: a stall of 200 ms out of nothing is not worth waiting for.

use std::collections::VecDeque;

use super::pace::{Follows, Law};

/// The highest delay of recent packets counts: of so many at least, if they are long.
const RECENT_PACKETS_MIN: usize = 3;
/// The highest delay of recent packets counts: of so many at most, if somebody floods.
const RECENT_PACKETS_MAX: usize = 512;
/// What comes within so long comes at once.
const BURST_MS: f64 = 5.0;
/// Floor and spread are those of so long.
const LONG_MS: f64 = 8_000.0;
/// At 2.5 ms a packet; more than that are thinned by forgetting earlier.
const LONG_PACKETS: usize = 3_200;
/// How often floor and spread are computed again.
const REVIEW_MS: f64 = 100.0;

/// Of the margin, what follows the spread and not the level.
const SPREAD_SHARE: f64 = 0.15;
/// So much a late millisecond changes the margin's logarithm.
const LEARN_PER_MS: f64 = 0.0025;
/// Of one event, and by what part of the time it fades.
const EVENT_MS: f64 = 100.0;
const EVENT_FADES: f64 = 0.1;
/// The margin's range.
const MARGIN_MIN: f64 = 0.15;
const MARGIN_MAX: f64 = 2.5;
/// Fewer do not tell.
const FOLLOWS_PACKETS: usize = 100;
/// What a margin is before anything is known.
const MARGIN_FIRST: f64 = 0.8;
/// Before much has been heard, the spread is taken for this, less as time passes.
const SPREAD_FIRST_MS: f64 = 20.0;
/// [`SPREAD_FIRST_MS`] fades in so long where packets came evenly so far.
const SPREAD_FIRST_FADES_EVEN_MS: f64 = 200.0;
/// [`SPREAD_FIRST_MS`] fades in so long where packets came unevenly.
const SPREAD_FIRST_FADES_UNEVEN_MS: f64 = 1_000.0;
/// A path is even whose delays are all within this.
const EVEN_MS: f64 = 3.0;
/// A path is uneven whose delays differ by this and more.
const UNEVEN_MS: f64 = 10.0;

/// The playout delay to aim for.
#[derive(Clone, Debug)]
pub(super) struct Target {
    late_share: f64,
    law: Law,
    recent: VecDeque<Arrival>,
    long: VecDeque<Arrival>,
    floor: f64,
    middle: f64,
    tail: f64,
    most: f64,
    spread: f64,
    /// How much one delay says of the next, 0 to 1.
    follows: f64,
    reviewed: f64,
    begun: Option<f64>,
    log_margin: f64,
    /// Late milliseconds that counted lately.
    charged: f64,
}

/// A packet that came.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    /// When it came, in ms.
    at: f64,
    /// What it took, in ms.
    delay: f64,
}

/// What is to be expected now, in ms by the clocks of the delays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outlook {
    /// The delay that counts,
    base: f64,
    /// and how far above it the next may be.
    margin: f64,
}

impl Outlook {
    /// The delay that media should be played with if so much of the margin is wanted.
    pub(super) fn playout(self, part: f64) -> f64 {
        self.base + part * self.margin + 1.0
    }
}

impl Target {
    /// Nothing heard yet. `late_share` of the time may be concealed because packets
    /// are late, in the long run.
    pub(super) fn new(late_share: f64, law: Law) -> Self {
        Self {
            late_share,
            law,
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

    /// A packet came at `at` and took `delay`, both in ms.
    pub(super) fn arrived(&mut self, at: f64, delay: f64) {
        self.begun.get_or_insert(at);
        let arrival = Arrival { at, delay };
        for window in [&mut self.recent, &mut self.long] {
            // A queue that empties at once: all that is left of it is the last.
            let is_of_burst = |it: &Arrival| at - it.at < BURST_MS && it.delay > delay;
            while window.back().is_some_and(is_of_burst) {
                window.pop_back();
            }
        }
        self.recent.push_back(arrival);
        let is_old = |it: &Arrival| it.at < at - self.law.recent_ms;
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

    /// `ms` were concealed because a packet was late. One event counts for no more
    /// than [`EVENT_MS`]: a longer one is not for a margin to prevent.
    pub(super) fn was_late(&mut self, ms: f64) {
        let ms = ms.min((EVENT_MS - self.charged).max(0.0));
        self.charged += ms;
        self.learn(LEARN_PER_MS * ms);
    }

    /// `ms` have been played.
    pub(super) fn passed(&mut self, ms: f64) {
        self.charged = (self.charged - ms * EVENT_FADES).max(0.0);
        self.learn(-LEARN_PER_MS * self.late_share * ms);
    }

    /// `None` before anything has come.
    pub(super) fn outlook(&self) -> Option<Outlook> {
        let highest = self.recent.iter().map(|it| it.delay);
        let highest = highest.reduce(f64::max)?;
        let first = self.spread_first();
        let spread = self.spread.max(first).max(0.3);
        // Where delays do not follow from each other, the last ones say nothing.
        let mix =
            |swings: f64, scatters: f64| self.follows * swings + (1.0 - self.follows) * scatters;
        let base = mix(highest, self.middle);
        let level = mix(highest, self.tail) - self.floor;
        let reach = (1.0 - SPREAD_SHARE) * level.max(0.0) + SPREAD_SHARE * spread + first;
        Some(Outlook {
            base,
            margin: self.log_margin.exp() * reach,
        })
    }

    /// How far delays may spread of which little has been heard, in ms.
    fn spread_first(&self) -> f64 {
        let last = self.recent.back().map_or(0.0, |it| it.at);
        let heard = last - self.begun.unwrap_or(last);
        let (soon, late) = (SPREAD_FIRST_FADES_EVEN_MS, SPREAD_FIRST_FADES_UNEVEN_MS);
        let unrest = (self.most - self.floor - EVEN_MS) / (UNEVEN_MS - EVEN_MS);
        SPREAD_FIRST_MS * (-heard / (soon + unrest.clamp(0.0, 1.0) * (late - soon))).exp()
    }

    /// What a packet would have that met no queue, in ms.
    pub(super) const fn floor(&self) -> f64 {
        self.floor
    }

    fn learn(&mut self, by: f64) {
        self.log_margin = (self.log_margin + by).clamp(MARGIN_MIN.ln(), MARGIN_MAX.ln());
    }

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
        } = self.law.follows;
        self.follows = match self.long.len() {
            0..FOLLOWS_PACKETS => 1.0,
            _ => ((self.correlation(apart_ms) - scatters) / (swings - scatters)).clamp(0.0, 1.0),
        };
        self.spread = at(0.95) - at(0.50);
    }

    /// Of each delay with the one `apart_ms` later, or the next.
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
        let mut target = Target::new(0.001, Pace::Even.law());
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
            let mut target = Target::new(0.001, Pace::Even.law());
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
        let mut target = Target::new(0.001, Pace::Even.law());
        target.arrived(20.0, 20.0);
        let first = target.outlook().expect("a packet came").playout(1.0);
        assert!(first > 35.0, "{first}");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut target = Target::new(0.001, Pace::Even.law());
        for packet in 0..100_000 {
            target.arrived(f64::from(packet) * 0.01, 5.0);
        }
        assert!(target.long.len() <= LONG_PACKETS && target.recent.len() <= RECENT_PACKETS_MAX);
    }
}
