use std::time::{Duration, Instant};

use hdrhistogram::Histogram as Hdr;

/// Largest delay that is distinguished, in µs. Longer delays are counted as this one: a stream
/// that is a minute late is no longer live.
const MAX_US: u64 = 60_000_000;

/// A distribution of delays from 1 µs to 60 s, with a relative error below 1 %.
#[derive(Clone)]
pub struct Histogram {
    counts: Hdr<u32>,
    sum_us: u64,
}

/// Prints the summary instead of thousands of empty buckets.
impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.summary().fmt(f)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Creates an empty distribution. Its memory grows with the largest delay seen, to 10 kB.
    pub fn new() -> Self {
        let mut counts = Hdr::new(2).expect("two significant digits are within 0..=5");
        counts.auto(true);
        Self { counts, sum_us: 0 }
    }

    /// Adds one delay; delays above 60 s count as 60 s.
    pub fn record(&mut self, delay: Duration) {
        let micros = u64::try_from(delay.as_micros())
            .unwrap_or(MAX_US)
            .min(MAX_US);
        self.sum_us = self.sum_us.saturating_add(micros);
        self.counts
            .record(micros.max(1))
            .expect("an auto-resizing histogram takes every value");
    }

    /// Adds all samples of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.counts
            .add(&other.counts)
            .expect("an auto-resizing histogram takes every value");
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }

    /// Removes all samples and keeps the memory.
    pub fn clear(&mut self) {
        // Unlike `clear`, `reset` also forgets the maximum.
        self.counts.reset();
        self.sum_us = 0;
    }

    /// Returns the number of samples.
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// Returns the number of samples that are at most `limit`: the value of a `_bucket` metric
    /// with `le` equal to `limit`.
    pub fn count_at_most(&self, limit: Duration) -> u64 {
        let micros = u64::try_from(limit.as_micros()).unwrap_or(MAX_US);
        if self.counts.is_empty() {
            0
        } else {
            self.counts.count_between(0, micros)
        }
    }

    /// Returns the quantiles, maximum and sum that tables print.
    pub fn summary(&self) -> Summary {
        let at = |quantile| Duration::from_micros(self.counts.value_at_quantile(quantile));
        Summary {
            count: self.count(),
            p50: at(0.50),
            p95: at(0.95),
            p99: at(0.99),
            max: Duration::from_micros(self.counts.max()),
            sum: Duration::from_micros(self.sum_us),
        }
    }

    /// Returns the upper bound and the number of samples of each bucket that is not empty, in
    /// rising order.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.counts.iter_recorded().map(|bucket| {
            (
                Duration::from_micros(bucket.value_iterated_to()),
                bucket.count_since_last_iteration(),
            )
        })
    }
}

/// Number, quantiles, maximum and sum of the samples of a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of samples. If it is zero, all other fields are zero as well.
    pub count: u64,
    /// Median of the delays.
    pub p50: Duration,
    /// 95th percentile of the delays.
    pub p95: Duration,
    /// 99th percentile of the delays.
    pub p99: Duration,
    /// Longest of the delays.
    pub max: Duration,
    /// Sum of all delays, from which a mean is computed.
    pub sum: Duration,
}

/// A distribution of recent delays. It consists of two half-windows used alternately, so a
/// summary covers between half a window and a whole one.
#[derive(Clone, Debug)]
pub struct WindowedHistogram {
    current: Histogram,
    previous: Histogram,
    rotated: Instant,
    half: Duration,
}

impl WindowedHistogram {
    /// Creates an empty distribution of the last `window`, starting at `now`.
    pub fn new(window: Duration, now: Instant) -> Self {
        Self {
            current: Histogram::new(),
            previous: Histogram::new(),
            rotated: now,
            half: window / 2,
        }
    }

    /// Adds one delay that was measured at `now`.
    pub fn record(&mut self, delay: Duration, now: Instant) {
        self.rotate(now);
        self.current.record(delay);
    }

    /// Returns the summary of the window that ends at `now`.
    pub fn summary(&mut self, now: Instant) -> Summary {
        self.histogram(now).summary()
    }

    /// Returns the distribution of the window that ends at `now`.
    pub fn histogram(&mut self, now: Instant) -> Histogram {
        self.rotate(now);
        let mut both = self.previous.clone();
        both.merge(&self.current);
        both
    }

    /// Adds the samples in the window of `other` that ends at `now`.
    pub fn merge(&mut self, other: &mut Self, now: Instant) {
        self.rotate(now);
        self.current.merge(&other.histogram(now));
    }

    fn rotate(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.rotated);
        if age < self.half {
            return;
        }
        std::mem::swap(&mut self.current, &mut self.previous);
        self.current.clear();
        if age >= self.half * 2 {
            self.previous.clear();
        }
        self.rotated = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_one_percent() {
        let mut histogram = Histogram::new();
        for micros in 1..=10_000u64 {
            histogram.record(Duration::from_micros(micros));
        }
        let summary = histogram.summary();
        assert_eq!(summary.count, 10_000);
        for (got, want) in [
            (summary.p50, 5_000.0),
            (summary.p95, 9_500.0),
            (summary.p99, 9_900.0),
        ] {
            let error = (got.as_micros() as f64 - want).abs() / want;
            assert!(error < 0.01, "{got:?} instead of {want} µs");
        }
        assert_eq!(
            histogram.buckets().map(|(_, count)| count).sum::<u64>(),
            10_000
        );
    }

    #[test]
    fn absurd_delays_are_capped_not_lost() {
        let mut histogram = Histogram::new();
        histogram.record(Duration::from_secs(1_000_000));
        histogram.record(Duration::ZERO);
        assert_eq!(histogram.count(), 2);
        assert!(histogram.summary().max >= Duration::from_secs(59));
    }

    #[test]
    fn window_forgets_after_its_length() {
        let start = Instant::now();
        let mut window = WindowedHistogram::new(Duration::from_secs(10), start);
        window.record(Duration::from_millis(7), start);
        assert_eq!(window.summary(start + Duration::from_secs(4)).count, 1);
        assert_eq!(window.summary(start + Duration::from_secs(6)).count, 1);
        assert_eq!(window.summary(start + Duration::from_secs(12)).count, 0);
    }

    #[test]
    fn sums_maxima_and_counts_add_up_and_can_be_cleared() {
        let millis = Duration::from_millis;
        let (mut first, mut second) = (Histogram::default(), Histogram::new());
        for delay in [10, 20, 30] {
            first.record(millis(delay));
        }
        second.record(millis(40));
        first.merge(&second);
        let summary = first.summary();
        assert_eq!((summary.count, summary.sum), (4, millis(100)));
        assert!(summary.max >= millis(40) && summary.max < millis(41));
        let at_most = |limit| first.count_at_most(millis(limit));
        assert_eq!(
            [at_most(5), at_most(15), at_most(35), at_most(1_000)],
            [0, 1, 3, 4]
        );
        let bounds: Vec<_> = first.buckets().collect();
        assert!(bounds.is_sorted() && bounds.len() == 4, "{bounds:?}");
        first.clear();
        assert_eq!(first.summary(), Summary::default());
        assert_eq!(first.count_at_most(millis(1_000)), 0);
    }

    #[test]
    fn a_window_keeps_half_of_itself_at_a_turn_and_all_of_another_window() {
        let start = Instant::now();
        let seconds = |count| start + Duration::from_secs(count);
        let mut window = WindowedHistogram::new(Duration::from_secs(10), start);
        window.record(Duration::from_millis(1), start);
        // The turn at 5 s keeps the first half, the one at 10 s drops it.
        window.record(Duration::from_millis(1), seconds(5));
        window.record(Duration::from_millis(1), seconds(9));
        assert_eq!(window.summary(seconds(9)).count, 3);
        assert_eq!(window.histogram(seconds(10)).count(), 2);
        assert_eq!(window.summary(seconds(14)).count, 2);
        assert_eq!(window.summary(seconds(15)).count, 0);
        window.record(Duration::from_millis(1), seconds(16));
        let mut other = WindowedHistogram::new(Duration::from_secs(10), start);
        other.record(Duration::from_millis(3), seconds(16));
        window.merge(&mut other, seconds(17));
        assert_eq!(window.summary(seconds(17)).count, 2);
        let after = window.summary(seconds(26));
        assert_eq!(after, Summary::default(), "two turns at once");
    }
}
