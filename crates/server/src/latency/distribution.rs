//! Delays in buckets: figures of many delays without sorting them.
//!
//! A bucket is at most 1/64 as wide as its delays, so a figure is at most 0.8 % from the delay that it
//! stands for, or half a microsecond. Delays beyond a minute count as a minute.

/// A delay, by its bucket. Those below zero have numbers below zero, since the offset of two clocks
/// is only known to within an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket(i16);

/// Binary digits of a delay that its bucket keeps behind the first one.
const DIGITS: u32 = 6;

/// Longest delay that is distinguished, in µs.
const MAX_US: f64 = 60_000_000.0;

/// Number of buckets of delays from zero up.
const COUNT: usize = 1_331;

/// Number of places for delays below zero in a table, which come first.
const BELOW_ZERO: i16 = COUNT as i16;

impl Bucket {
    /// Stands for a delay that was not measured.
    pub(super) const ABSENT: Self = Self(i16::MIN);

    /// Returns the bucket of a delay.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most a minute in µs, and a bucket below `COUNT`"
    )]
    pub(super) fn of_ms(ms: f64) -> Self {
        // What is no number counts as zero.
        let us = (ms.abs() * 1e3).min(MAX_US).round() as u32;
        let exponent = us.checked_ilog2().unwrap_or_default().max(DIGITS) - DIGITS;
        let place = ((exponent << DIGITS) + (us >> exponent)) as i16;
        Self(if ms < 0.0 { -place } else { place })
    }

    /// Returns the delay that the bucket stands for: its middle.
    fn ms(self) -> f64 {
        let place = u32::from(self.0.unsigned_abs());
        let exponent = (place >> DIGITS).max(1) - 1;
        let lowest = (place - (exponent << DIGITS)) << exponent;
        let us = f64::from(lowest) + f64::from((1u32 << exponent) - 1) / 2.0;
        us.copysign(f64::from(self.0)) / 1e3
    }

    /// Returns the bucket of zero for delays below zero.
    pub(super) const fn not_negative(self) -> Self {
        Self(if self.0 < 0 { 0 } else { self.0 })
    }
}

/// Numbers of delays by bucket.
#[derive(Clone, Debug)]
pub(super) struct Distribution {
    /// Those below zero come first.
    counts: Vec<u32>,
    total: u32,
    /// First and last place in `counts` that is not zero.
    ends: (usize, usize),
}

/// Figures of a distribution, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) count: u64,
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Distribution {
    /// Creates an empty distribution.
    pub(super) fn new() -> Self {
        Self {
            counts: vec![0; 2 * COUNT],
            total: 0,
            ends: (usize::MAX, 0),
        }
    }

    /// Counts a delay, unless it is absent.
    pub(super) fn add(&mut self, delay: Bucket) {
        self.add_all(std::iter::once(delay));
    }

    /// Counts those of `delays` that are not absent.
    fn add_all(&mut self, delays: impl Iterator<Item = Bucket>) {
        let (mut total, mut first, mut last) = (self.total, self.ends.0, self.ends.1);
        for delay in delays {
            // An absent delay has no place in the table.
            let place = delay.0.wrapping_add(BELOW_ZERO).cast_unsigned();
            let place = usize::from(place);
            if let Some(count) = self.counts.get_mut(place) {
                *count = count.wrapping_add(1);
                total = total.wrapping_add(1);
                first = first.min(place);
                last = last.max(place);
            }
        }
        self.total = total;
        self.ends = (first, last);
    }

    /// Counts what `other` counts.
    pub(super) fn merge(&mut self, other: &Self) {
        let (first, last) = other.ends;
        for place in first..=last {
            self.counts[place] = self.counts[place].saturating_add(other.counts[place]);
        }
        self.total = self.total.saturating_add(other.total);
        self.ends = (self.ends.0.min(first), self.ends.1.max(last));
    }

    /// Forgets all delays, and keeps the memory.
    pub(super) fn clear(&mut self) {
        let (first, last) = self.ends;
        if first <= last {
            self.counts[first..=last].fill(0);
        }
        self.total = 0;
        self.ends = (usize::MAX, 0);
    }

    /// Returns the figures of `delays` alone.
    pub(super) fn figures_of(&mut self, delays: impl Iterator<Item = Bucket>) -> Figures {
        self.clear();
        self.add_all(delays);
        self.figures()
    }

    /// Returns the figures; all are zero if there are no delays. Quantiles are those of the nearest
    /// rank.
    pub(super) fn figures(&self) -> Figures {
        let (first, last) = self.ends;
        if self.total == 0 {
            return Figures::default();
        }
        let rank = |per_cent: u64| (u64::from(self.total) * per_cent).div_ceil(100).max(1);
        let ranks = [rank(50), rank(95), rank(99)];
        let mut found = [0.0; 3];
        let (mut below, mut at) = (0, 0);
        let counts = self.counts[first..=last].iter();
        // Most buckets between the ends are empty.
        for (place, count) in (first..).zip(counts).filter(|(_, count)| **count > 0) {
            below += u64::from(*count);
            while at < ranks.len() && ranks[at] <= below {
                found[at] = delay_at(place);
                at += 1;
            }
        }
        let [p50, p95, p99] = found;
        Figures {
            count: self.total.into(),
            p50,
            p95,
            p99,
            max: delay_at(last),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a place in the table"
)]
fn delay_at(place: usize) -> f64 {
    Bucket((place as i32 - COUNT as i32) as i16).ms()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_bucket_stands_for_delays_of_its_own() {
        let mut last = f64::NEG_INFINITY;
        for place in 1 - COUNT as i16..COUNT as i16 {
            let ms = Bucket(place).ms();
            assert!(ms > last, "{place}: {ms} after {last}");
            assert_eq!(Bucket::of_ms(ms), Bucket(place), "{ms}");
            last = ms;
        }
        assert!((59_000.0..=60_500.0).contains(&last), "{last}");
    }

    #[test]
    fn absurd_delays_are_counted_and_bounded() {
        let mut delays = Distribution::new();
        for ms in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -3.0, 1e300] {
            delays.add(Bucket::of_ms(ms));
        }
        delays.add(Bucket::ABSENT);
        let figures = delays.figures();
        assert!(figures.count == 5 && figures.max <= 60_500.0, "{figures:?}");
        delays.clear();
        assert_eq!(delays.figures(), Figures::default());
    }

    proptest! {
        #[test]
        fn figures_are_those_of_the_sorted_delays_within_a_bucket(
            mut delays in prop::collection::vec(-2.0f64..2_000.0, 1..300),
        ) {
            let (mut some, mut all) = (Distribution::new(), Distribution::new());
            for (place, ms) in delays.iter().enumerate() {
                let to = if place % 3 == 0 { &mut some } else { &mut all };
                to.add(Bucket::of_ms(*ms));
            }
            all.merge(&some);
            delays.sort_by(f64::total_cmp);
            let figures = all.figures();
            prop_assert_eq!(figures.count, delays.len() as u64);
            for (figure, per_cent) in [(figures.p50, 50), (figures.p95, 95), (figures.p99, 99), (figures.max, 100)] {
                let rank = (delays.len() * per_cent).div_ceil(100).max(1);
                let exact = delays[rank - 1];
                let error = (figure - exact).abs();
                prop_assert!(error <= exact.abs() * 0.008 + 0.001, "{figure} for {exact}");
            }
        }
    }
}
