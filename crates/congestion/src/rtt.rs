use std::time::{Duration, Instant};

use crate::filter::{Least, Windowed};

/// How long a least round trip counts (as Linux, BBR and Copa have it).
const LEAST_WINDOW: Duration = Duration::from_secs(10);

/// The round trips of a flow.
///
/// The smoothed one is RFC 9002's (§5.3), without taking off what the peer says it
/// waited before answering: transports that know it take it off before.
#[derive(Clone, Debug)]
pub struct RoundTrips {
    latest: Option<Duration>,
    smoothed: Duration,
    variation: Duration,
    least: Windowed<Duration, Least>,
}

impl RoundTrips {
    pub(crate) fn new() -> Self {
        Self {
            latest: None,
            smoothed: Duration::ZERO,
            variation: Duration::ZERO,
            least: Windowed::new(LEAST_WINDOW),
        }
    }

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

    /// The latest; `None` before the first.
    pub const fn latest(&self) -> Option<Duration> {
        self.latest
    }

    /// Smoothed; `None` before the first.
    pub fn smoothed(&self) -> Option<Duration> {
        self.latest.map(|_| self.smoothed)
    }

    /// Mean deviation; `None` before the first.
    pub fn variation(&self) -> Option<Duration> {
        self.latest.map(|_| self.variation)
    }

    /// The least of the last ten seconds; `None` before the first.
    pub fn least(&self) -> Option<Duration> {
        self.least.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
