//! Estimates of how fast the path delivers.

use std::time::{Duration, Instant};

use crate::Ack;
use crate::filter::{Largest, Windowed};

use super::constants;

/// Intervals over which the path's rate and its changes are smoothed.
const STEADINESS_INTERVALS: f64 = 16.0;

/// Delivery rates, in bytes/s.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    /// Constants of the measurement.
    constants: constants::Delivery,
    /// Best rate of recent round trips.
    best: Windowed<f64, Largest>,
    /// Whether the best rate was measured while the path was the limit.
    proven: bool,
    /// Bytes delivered in all at which the present round trip ends.
    round_ends_at: u64,
    /// The interval that is being measured.
    interval: Option<RateInterval>,
    /// Smoothed delivery rate of the path.
    sustained: Option<f64>,
    /// Intervals in a row in which the application had more to send than the path took.
    saturated: u32,
    /// Estimate of acknowledgement aggregation.
    aggregation: AckAggregation,
    /// Mean difference of the path's rate from its level, as a share of it.
    unsteadiness: f64,
    /// Logarithm of the mean rate of recent intervals in which the path was the limit.
    level: Option<f64>,
}

/// An interval over which a rate is taken.
#[derive(Clone, Copy, Debug)]
struct RateInterval {
    /// When the interval began.
    began: Instant,
    /// Bytes delivered in all when the interval began.
    delivered: u64,
    /// Whether the application was the limit at some time in the interval.
    app_limited: bool,
}

/// Acknowledgement aggregation: how much more is acknowledged at once than the rate
/// explains (BBRv3 `extra_acked`).
#[derive(Clone, Debug)]
struct AckAggregation {
    /// Constants of the measurement.
    constants: constants::Delivery,
    /// When the present aggregation epoch began.
    began: Option<Instant>,
    /// Bytes acknowledged in the present epoch.
    acked: f64,
    /// Acknowledgements of the latest instant.
    instant: Option<AckInstant>,
    /// Bytes acknowledged at one instant, smoothed.
    together: f64,
    /// Largest excess of recent round trips, in bytes.
    largest: Windowed<f64, Largest>,
}

/// Acknowledgements that came at the same instant.
#[derive(Clone, Copy, Debug)]
struct AckInstant {
    /// Instant at which the acknowledgment arrived.
    at: Instant,
    /// Bytes that they newly covered.
    bytes: f64,
}

impl Delivery {
    /// Returns estimates before the first acknowledgement.
    pub(super) const fn new(constants: constants::Delivery) -> Self {
        Self {
            constants,
            best: Windowed::new(constants.best_window_min),
            proven: false,
            round_ends_at: 0,
            interval: None,
            sustained: None,
            saturated: 0,
            aggregation: AckAggregation {
                constants,
                began: None,
                acked: 0.0,
                instant: None,
                together: 0.0,
                largest: Windowed::new(constants.best_window_min),
            },
            unsteadiness: 1.0,
            level: None,
        }
    }

    /// Returns the mean difference of the path's rate from its level of recent intervals, as a
    /// share of it; 1 before any. A line of a fixed rate has little, a fading radio link much.
    pub(super) const fn unsteadiness(&self) -> f64 {
        self.unsteadiness
    }

    /// Records an acknowledgement; returns whether a round trip ended with it.
    ///
    /// `queued`: packets wait longer than wanted, so that the path is the limit, whatever
    /// the application had to send.
    pub(super) fn observe(
        &mut self,
        ack: &Ack<'_>,
        smoothed: Duration,
        least: Duration,
        queued: bool,
    ) -> bool {
        self.best.set_window(
            (smoothed * self.constants.best_rounds).max(self.constants.best_window_min),
        );
        if let Some(rate) = ack.rate.bytes_per_second(least) {
            let known = self.best.get();
            if !ack.rate.app_limited || known.is_none_or(|known| rate > known) {
                self.best.record(rate, ack.now);
                self.proven = !ack.rate.app_limited;
            }
        }
        self.sustain(ack, smoothed, queued);
        self.aggregation.observe(ack, self.best.get(), smoothed);
        let round = ack.rate.delivered_before >= self.round_ends_at;
        if round {
            self.round_ends_at = ack.rate.delivered_total;
        }
        round
    }

    /// Updates the sustained rate.
    fn sustain(&mut self, ack: &Ack<'_>, smoothed: Duration, queued: bool) {
        let interval = self.interval.get_or_insert(RateInterval {
            began: ack.now,
            delivered: ack.rate.delivered_total,
            app_limited: false,
        });
        interval.app_limited |= ack.rate.app_limited;
        let elapsed = ack.now.saturating_duration_since(interval.began);
        if elapsed < self.constants.interval_min.max(smoothed / 2) {
            return;
        }
        let bytes = ack.rate.delivered_total - interval.delivered;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let rate = bytes as f64 / elapsed.as_secs_f64();
        let app_limited = interval.app_limited && !queued;
        self.saturated = if app_limited {
            0
        } else {
            self.saturated.saturating_add(1)
        };
        self.interval = None;
        if !app_limited {
            let rate = rate.max(1.0).ln();
            let level = self.level.get_or_insert(rate);
            let change = (rate - *level).abs().min(1.0);
            *level += (rate - *level) / STEADINESS_INTERVALS;
            self.unsteadiness += (change - self.unsteadiness) / STEADINESS_INTERVALS;
        }
        self.sustained = Some(match self.sustained {
            None => rate,
            // A rate that the application limited is only a lower bound.
            Some(known) if app_limited => known.max(rate),
            Some(known) => {
                let weight =
                    1.0 - (-elapsed.as_secs_f64() / self.constants.sustained.as_secs_f64()).exp();
                known + (rate - known) * weight
            }
        });
    }

    /// Returns the best rate of recent round trips in bytes/s; `None` before the first
    /// sample.
    pub(super) fn best(&self) -> Option<f64> {
        self.best.get()
    }

    /// Replaces the best rate by one that the path is known to have now. An application that sends less
    /// than the path carries would keep the best rate of another time.
    pub(super) fn restart(&mut self, rate: f64, now: Instant) {
        self.best = Windowed::new(self.constants.best_window_min);
        self.best.record(rate, now);
        self.proven = true;
    }

    /// Whether the best rate was limited by the path, not by the application.
    pub(super) const fn is_proven(&self) -> bool {
        self.proven
    }

    /// Returns the sustained rate in bytes/s.
    pub(super) const fn sustained(&self) -> Option<f64> {
        self.sustained
    }

    /// Returns the sustained rate in bytes/s, while the application has more to send than
    /// the path takes.
    pub(super) fn saturated(&self) -> Option<f64> {
        self.sustained
            .filter(|_| self.saturated >= self.constants.saturated_min)
    }

    /// Returns the bytes that are acknowledged at once beyond what the rate explains.
    pub(super) fn aggregation(&self) -> f64 {
        self.aggregation.largest.get().unwrap_or(0.0)
    }

    /// Returns how unevenly acknowledgements come, in seconds. `apart`: bytes per
    /// acknowledgement that are normal for a peer.
    pub(super) fn unevenness(&self, apart: f64) -> f64 {
        let rate = self.best.get().unwrap_or(f64::INFINITY).max(1.0);
        (self.aggregation.together - apart).max(0.0) / rate
    }

    /// Forgets everything: the path may be another one.
    pub(super) fn forget(&mut self) {
        *self = Self {
            round_ends_at: self.round_ends_at,
            ..Self::new(self.constants)
        };
    }
}

impl AckAggregation {
    /// Records an acknowledgement. `rate`: best rate in bytes/s.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn observe(&mut self, ack: &Ack<'_>, rate: Option<f64>, smoothed: Duration) {
        let bytes = ack.bytes as f64;
        let mut instant = AckInstant { at: ack.now, bytes };
        match self.instant {
            Some(before) if before.at == ack.now => instant.bytes = before.bytes + bytes,
            Some(before) => self.together += (before.bytes - self.together) / 8.0,
            None => {}
        }
        self.instant = Some(instant);
        let Some(rate) = rate else {
            return;
        };
        self.largest.set_window(
            (smoothed * self.constants.aggregation_rounds).max(self.constants.best_window_min),
        );
        let began = *self.began.get_or_insert(ack.now);
        let expected = rate * ack.now.saturating_duration_since(began).as_secs_f64();
        if self.acked <= expected {
            self.began = Some(ack.now);
            self.acked = bytes;
            self.largest.record(self.acked, ack.now);
        } else {
            self.acked += bytes;
            self.largest.record(self.acked - expected, ack.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Acked, RateSample, RoundTrips};

    const MS: Duration = Duration::from_millis(1);
    /// Size of a packet, in bytes.
    const PACKET: u64 = 1200;
    /// Round trip of the path.
    const ROUND_TRIP: Duration = Duration::from_millis(40);

    /// Acknowledgements of a path that carries a packet each ms: 1.2 Mbyte/s.
    struct Arrivals {
        delivery: Delivery,
        now: Instant,
        delivered: u64,
        app_limited: bool,
        /// Whether round trips ended.
        rounds: u32,
    }

    impl Arrivals {
        fn new() -> Self {
            Self {
                delivery: Delivery::new(constants::Delivery::DEFAULT),
                now: Instant::now(),
                delivered: 0,
                app_limited: false,
                rounds: 0,
            }
        }

        /// Acknowledges `packets` in acknowledgements of two, all at once, after the time in
        /// which the path carries as many, times `slower`.
        fn lump(&mut self, packets: u64, slower: u32) {
            self.now += MS * slower * u32::try_from(packets).expect("few");
            let trips = RoundTrips::new();
            for _ in 0..packets / 2 {
                let bytes = 2 * PACKET;
                let acked = Acked {
                    sent: self.now - ROUND_TRIP,
                    bytes,
                    delivered_before: 0,
                };
                let in_flight = 40 * PACKET;
                self.delivered += bytes;
                let rate = RateSample {
                    delivered: 40 * PACKET / u64::from(slower),
                    interval: ROUND_TRIP,
                    intervals: None,
                    app_limited: self.app_limited,
                    delivered_total: self.delivered,
                    delivered_before: self.delivered.saturating_sub(in_flight),
                    lost_total: 0,
                    lost_before: 0,
                };
                let ack = Ack {
                    now: self.now,
                    packets: &[acked],
                    bytes,
                    in_flight,
                    in_flight_before: in_flight + bytes,
                    rtt: Some(ROUND_TRIP),
                    round_trips: &trips,
                    rate,
                    backlogged: Duration::ZERO,
                };
                let ended = self.delivery.observe(&ack, ROUND_TRIP, ROUND_TRIP, false);
                self.rounds += u32::from(ended);
            }
        }
    }

    #[test]
    fn even_acknowledgements_are_neither_uneven_nor_aggregated() {
        let mut arrivals = Arrivals::new();
        for _ in 0..500 {
            arrivals.lump(2, 1);
        }
        let delivery = &arrivals.delivery;
        assert!(delivery.unevenness(2400.0) < 1e-9, "two each");
        let aggregation = delivery.aggregation();
        assert!((2400.0..=4800.0).contains(&aggregation), "{aggregation}");
        assert_eq!(delivery.best(), Some(1_200_000.0));
        assert!(delivery.is_proven());
        assert!((24..=26).contains(&arrivals.rounds), "{}", arrivals.rounds);
    }

    #[test]
    fn acknowledgements_that_come_together_are_seen_as_such() {
        let mut arrivals = Arrivals::new();
        for _ in 0..100 {
            arrivals.lump(20, 1);
        }
        // 24,000 bytes at once, of which 2,400 are normal, at 1.2 Mbyte/s.
        let uneven = arrivals.delivery.unevenness(2_400.0);
        assert!((0.0175..=0.018).contains(&uneven), "{uneven} s");
        let aggregation = arrivals.delivery.aggregation();
        assert!(
            (24_000.0..=26_400.0).contains(&aggregation),
            "{aggregation}"
        );
    }

    #[test]
    fn the_sustained_rate_follows_the_path_within_half_a_second() {
        let mut arrivals = Arrivals::new();
        for _ in 0..500 {
            arrivals.lump(2, 1);
        }
        let near = |found: Option<f64>, wanted: f64| {
            found.is_some_and(|found| (found / wanted - 1.0).abs() < 0.12)
        };
        assert!(near(arrivals.delivery.saturated(), 1.2e6));
        for _ in 0..63 {
            arrivals.lump(2, 4);
        }
        let sustained = arrivals.delivery.sustained();
        assert!(
            near(sustained, 0.3e6) || sustained < Some(0.42e6),
            "{sustained:?}"
        );
        assert!(
            arrivals.delivery.best() <= Some(0.3e6),
            "older ones are forgotten"
        );
    }

    #[test]
    fn a_rate_that_changes_all_the_time_is_told_from_a_fixed_one() {
        let mut arrivals = Arrivals::new();
        assert!(arrivals.delivery.unsteadiness() > 0.99, "nothing is known");
        for _ in 0..2000 {
            arrivals.lump(2, 1);
        }
        let steady = arrivals.delivery.unsteadiness();
        assert!(steady < 0.05, "{steady}");
        for round in 0..100 {
            (0..40).for_each(|_| arrivals.lump(2, 1 + round % 2));
        }
        let fading = arrivals.delivery.unsteadiness();
        assert!((0.15..0.9).contains(&fading), "{fading}");
        arrivals.app_limited = true;
        for _ in 0..500 {
            arrivals.lump(2, 1);
        }
        let idle = arrivals.delivery.unsteadiness();
        assert!(
            (idle - fading).abs() < 0.07,
            "the application's rate is no path's: {idle}"
        );
    }

    #[test]
    fn a_rate_that_the_path_is_known_to_have_replaces_the_best_one() {
        let mut arrivals = Arrivals::new();
        for _ in 0..500 {
            arrivals.lump(2, 1);
        }
        arrivals.app_limited = true;
        for _ in 0..500 {
            arrivals.lump(2, 4);
        }
        assert!(arrivals.delivery.best() > Some(1.1e6), "of another time");
        let now = arrivals.now;
        arrivals.delivery.restart(0.4e6, now);
        assert_eq!(arrivals.delivery.best(), Some(0.4e6));
        assert!(arrivals.delivery.is_proven());
    }

    #[test]
    fn a_rate_that_the_application_limits_lowers_nothing() {
        let mut arrivals = Arrivals::new();
        for _ in 0..500 {
            arrivals.lump(2, 1);
        }
        arrivals.app_limited = true;
        for _ in 0..250 {
            arrivals.lump(2, 4);
        }
        assert!(arrivals.delivery.sustained() > Some(1.1e6));
        assert_eq!(arrivals.delivery.saturated(), None);
        let rounds_before = arrivals.delivery.round_ends_at;
        arrivals.delivery.forget();
        assert_eq!(arrivals.delivery.sustained(), None);
        assert_eq!(arrivals.delivery.best(), None);
        assert_eq!(arrivals.delivery.round_ends_at, rounds_before);
    }
}
