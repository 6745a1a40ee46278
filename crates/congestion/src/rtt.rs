use std::time::{Duration, Instant};

use crate::filter::{Least, Windowed};

/// Time for which the smallest round trip counts (as in Linux, BBR and Copa).
const LEAST_WINDOW: Duration = Duration::from_secs(10);

/// Statistics of a flow's round trips.
///
/// The smoothed round trip is RFC 9002's (§5.3), without deducting the time that the peer
/// says it delayed the acknowledgement: transports that know the time deduct it before.
#[derive(Clone, Debug)]
pub struct RoundTrips {
    /// Latest sample of the round-trip time; `None` before the first.
    latest: Option<Duration>,
    /// Smoothed round-trip time (`SRTT`, RFC 6298).
    smoothed: Duration,
    /// Mean deviation of the samples (`RTTVAR`, RFC 6298).
    variation: Duration,
    /// Smallest round trip of the last ten seconds.
    least: Windowed<Duration, Least>,
}

impl RoundTrips {
    /// Returns statistics without any sample.
    pub(crate) fn new() -> Self {
        Self {
            latest: None,
            smoothed: Duration::ZERO,
            variation: Duration::ZERO,
            least: Windowed::new(LEAST_WINDOW),
        }
    }

    /// Records a round trip.
    pub(crate) fn record(&mut self, rtt: Duration, now: Instant) {
        if self.latest.is_none() {
            self.smoothed = rtt;
            self.variation = rtt / 2;
        } else {
            self.variation = (self.variation * 3 + self.smoothed.abs_diff(rtt)) / 4;
            self.smoothed = (self.smoothed * 7 + rtt) / 8;
        }
        self.latest = Some(rtt);
        self.least.record(rtt, now);
    }

    /// Returns the latest round trip; `None` before the first.
    pub const fn latest(&self) -> Option<Duration> {
        self.latest
    }

    /// Returns the smoothed round trip; `None` before the first.
    pub fn smoothed(&self) -> Option<Duration> {
        self.latest.map(|_| self.smoothed)
    }

    /// Returns the mean deviation of round trips; `None` before the first.
    pub fn variation(&self) -> Option<Duration> {
        self.latest.map(|_| self.variation)
    }

    /// Returns the smallest round trip of the last ten seconds; `None` before the first.
    pub fn least(&self) -> Option<Duration> {
        self.least.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_smoothed_as_rfc_9002_says() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut trips = RoundTrips::new();
        let expected = [
            (100, 100.0, 50.0),
            // 7/8 · 100 + 1/8 · 100, and 3/4 · 50 + 1/4 · 0.
            (100, 100.0, 37.5),
            // 7/8 · 100 + 1/8 · 180, and 3/4 · 37.5 + 1/4 · 80.
            (180, 110.0, 48.125),
            // 7/8 · 110 + 1/8 · 30, and 3/4 · 48.125 + 1/4 · 80.
            (30, 100.0, 56.093_75),
        ];
        for (sample, smoothed, variation) in expected {
            trips.record(ms(sample), start);
            let found = trips.smoothed().zip(trips.variation()).expect("recorded");
            let (found, deviation) = (found.0.as_secs_f64(), found.1.as_secs_f64());
            assert!((found * 1e3 - smoothed).abs() < 1e-3, "{sample}: {found}");
            assert!((deviation * 1e3 - variation).abs() < 1e-3, "{deviation}");
            assert_eq!(trips.latest(), Some(ms(sample)));
        }
    }

    #[test]
    fn the_least_round_trip_is_forgotten_after_ten_seconds() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut trips = RoundTrips::new();
        assert_eq!(
            (trips.latest(), trips.smoothed(), trips.least()),
            (None, None, None)
        );
        trips.record(ms(20), start);
        assert_eq!(
            (trips.smoothed(), trips.variation()),
            (Some(ms(20)), Some(ms(10)))
        );
        for second in 1..=9 {
            trips.record(ms(60), start + Duration::from_secs(second));
        }
        assert_eq!(trips.least(), Some(ms(20)));
        trips.record(ms(60), start + Duration::from_secs(11));
        assert_eq!(trips.least(), Some(ms(60)));
        assert!(trips.smoothed() > Some(ms(45)), "{trips:?}");
    }
}
