//! Delays in buckets: figures of many delays without sorting them.
//!
//! A bucket is at most 1/64 as wide as its delays, so a figure is at most 0.8 % from the delay that it
//! stands for, or half a microsecond. Delays beyond a minute count as a minute.

use std::iter;

/// A delay, by its bucket. Those below zero have numbers below zero, since the offset of two clocks
/// is only known to within an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket(i16);

/// Binary digits of a delay that its bucket keeps behind the first one.
const DIGITS: u32 = 6;

/// Longest delay that is distinguished, in µs.
const MAX_US: f64 = 60_000_000.0;

/// Number of buckets of delays from zero up.
#[cfg(test)]
const COUNT: i16 = 1_331;

/// Buckets that are looked at together.
const STEP: usize = 16;

impl Bucket {
    /// Stands for a delay that was not measured.
    pub(super) const ABSENT: Self = Self(i16::MIN);

    /// Returns the bucket of a delay.
    // At most a minute in µs, which is bucket 1,330.
    pub(super) fn of_ms(ms: f64) -> Self {
        // What is no number counts as zero.
        let us = ((ms.abs() * 1e3).min(MAX_US) + 0.5) as u32;
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

/// Numbers of delays by bucket, of the buckets between the shortest and the longest delay.
#[derive(Clone, Debug, Default)]
pub(super) struct Distribution {
    /// Number of the first bucket in `counts`.
    first: i16,
    counts: Vec<u32>,
    total: u32,
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
    /// Counts a delay, unless it is absent.
    pub(super) fn add(&mut self, delay: Bucket) {
        if delay == Bucket::ABSENT {
            return;
        }
        let mut place = self.place(delay);
        if place >= self.counts.len() {
            self.reach(delay, delay);
            place = self.place(delay);
        }
        self.counts[place] = self.counts[place].wrapping_add(1);
        self.total = self.total.wrapping_add(1);
    }

    /// Forgets a delay that was counted, unless it is absent.
    pub(super) fn remove(&mut self, delay: Bucket) {
        let place = self.place(delay);
        if let Some(count) = self.counts.get_mut(place) {
            *count = count.wrapping_sub(1);
            self.total = self.total.wrapping_sub(1);
        }
    }

    /// Counts what `other` counts.
    pub(super) fn merge(&mut self, other: &Self) {
        let Some(last) = other.last() else {
            return;
        };
        let first = Bucket(other.first);
        self.reach(first, other.bucket(last));
        let from = self.place(first);
        let counts = self.counts[from..].iter_mut();
        for (count, more) in counts.zip(&other.counts[..=last]) {
            *count = count.saturating_add(*more);
        }
        self.total = self.total.saturating_add(other.total);
    }

    /// Forgets all delays, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
    }

    /// Gives back the memory of long delays that were all forgotten.
    pub(super) fn trim(&mut self) {
        let len = self.last().map_or(0, |last| last + 1);
        self.counts.truncate(len);
        if self.counts.capacity() > 2 * (len + STEP) {
            self.counts.shrink_to(len);
        }
    }

    /// Returns the figures; all are zero if there are no delays. Quantiles are those of the nearest
    /// rank.
    pub(super) fn figures(&self) -> Figures {
        let Some(last) = self.last() else {
            return Figures::default();
        };
        let rank = |per_cent: u64| (u64::from(self.total) * per_cent).div_ceil(100).max(1);
        let ranks = [rank(50), rank(95), rank(99)];
        let mut found = [0.0; 3];
        let (mut below, mut at) = (0, 0);
        for (step, counts) in self.counts.chunks(STEP).enumerate() {
            // Most steps have no rank, and are only added up.
            let through = below + counts.iter().map(|count| u64::from(*count)).sum::<u64>();
            if at == ranks.len() || through < ranks[at] {
                below = through;
                continue;
            }
            for (place, count) in (step * STEP..).zip(counts) {
                below += u64::from(*count);
                while at < ranks.len() && ranks[at] <= below {
                    found[at] = self.bucket(place).ms();
                    at += 1;
                }
            }
        }
        let [p50, p95, p99] = found;
        Figures {
            count: self.total.into(),
            p50,
            p95,
            p99,
            max: self.bucket(last).ms(),
        }
    }

    /// Returns the place of a bucket in `counts`; one beyond the end if it has none.
    fn place(&self, bucket: Bucket) -> usize {
        usize::from(bucket.0.wrapping_sub(self.first).cast_unsigned())
    }

    // A place in the table, of at most 2,661.
    fn bucket(&self, place: usize) -> Bucket {
        Bucket(self.first + place as i16)
    }

    /// Returns the place of the longest delay; `None` if there are no delays.
    fn last(&self) -> Option<usize> {
        self.counts.iter().rposition(|count| *count > 0)
    }

    /// Makes room for all delays from `shortest` to `longest`.
    fn reach(&mut self, shortest: Bucket, longest: Bucket) {
        if self.counts.is_empty() {
            self.first = shortest.0;
        }
        let before = usize::from(self.first.saturating_sub(shortest.0).max(0).cast_unsigned());
        if before > 0 {
            self.counts.splice(..0, iter::repeat_n(0, before));
            self.first = shortest.0;
        }
        let len = self.place(longest) + 1;
        if self.counts.len() < len {
            self.counts.resize(len, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_bucket_stands_for_delays_of_its_own() {
        let mut last = f64::NEG_INFINITY;
        for place in 1 - COUNT..COUNT {
            let ms = Bucket(place).ms();
            assert!(ms > last, "{place}: {ms} after {last}");
            assert_eq!(Bucket::of_ms(ms), Bucket(place), "{ms}");
            last = ms;
        }
        assert!((59_000.0..=60_500.0).contains(&last), "{last}");
    }

    #[test]
    fn absurd_delays_are_counted_and_bounded() {
        let mut delays = Distribution::default();
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
            gone in prop::collection::vec(-9.0f64..30_000.0, 0..300),
        ) {
            let (mut some, mut all) = (Distribution::default(), Distribution::default());
            gone.iter().for_each(|ms| all.add(Bucket::of_ms(*ms)));
            for (place, ms) in delays.iter().enumerate() {
                let to = if place % 3 == 0 { &mut some } else { &mut all };
                to.add(Bucket::of_ms(*ms));
            }
            gone.iter().for_each(|ms| all.remove(Bucket::of_ms(*ms)));
            all.remove(Bucket::ABSENT);
            all.trim();
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
