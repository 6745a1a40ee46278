//! Share of other flows in a queue, by how far apart packets leave that queue.
//!
//! While a queue stands, the time between two of our packets at its end is the time that the
//! link takes for our bytes between them, and for the bytes of others that came meanwhile:
//!
//! ```text
//! gap at the end = our bytes / rate of the link + share of others · gap at the beginning
//! ```
//!
//! Alone, packets leave as far apart as the link sends them, however they came. So a
//! regression of the gaps at the end on our bytes and on the gaps at the beginning gives the
//! share of others, without a probe (the gap model of Spruce, Strauss et al., IMC 2003, with
//! the flow's own packets instead of pairs). A live source makes this possible, because its
//! frames come in bursts. A smooth flow has bytes and gaps in proportion, and nothing can be
//! told. Nor can it of a flow whose window paces it: its packets repeat what the path did a
//! round trip ago.

use std::time::{Duration, Instant};

use crate::Ack;

use super::constants;

/// Time within which acknowledgements count as one: what comes together has one error.
const TOGETHER: Duration = Duration::from_millis(1);

/// Acknowledgements over which the share of those of a single packet is smoothed.
const SINGLE_ACKS: f64 = 16.0;

/// Least determinant of the regression, relative to the product of its squares: with less,
/// bytes and gaps are in proportion.
const INDEPENDENT: f64 = 1e-9;

/// The regression over the acknowledgements of a standing queue.
#[derive(Clone, Debug)]
pub(super) struct CrossTraffic {
    /// Constants of the regression.
    constants: constants::CrossTraffic,
    /// The latest acknowledgement, which others may still come together with.
    latest: Option<Point>,
    /// The latest point that counts.
    counted: Option<Point>,
    /// Mean of recent points, relative to the latest one.
    mean: Deviation,
    /// Weight of the mean, in points.
    weight: f64,
    /// Sums of products of deviations.
    sums: Sums,
    /// Share of acknowledgements that are of a single packet.
    single: f64,
}

/// Share of the link that other flows have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OthersShare {
    /// The share; from 0 to 1 but for errors.
    pub(super) share: f64,
    /// Standard error of the share.
    pub(super) error: f64,
}

/// An acknowledgement, as the regression has it.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// When the newest packet was sent.
    sent: Instant,
    /// When the acknowledgement came.
    acknowledged: Instant,
    /// Bytes delivered in all.
    delivered: u64,
}

/// Difference of two points.
#[derive(Clone, Copy, Debug, Default)]
struct Deviation {
    /// Gap at the beginning of the path, in seconds.
    sent: f64,
    /// Gap at the end of the path, in seconds.
    acknowledged: f64,
    /// Datagrams delivered between the two points.
    delivered: f64,
}

/// Sums of products of deviations. Older ones count less.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Number of points in the sums.
    points: f64,
    /// Squares of datagrams delivered.
    delivered_delivered: f64,
    /// Datagrams delivered times gaps at the beginning.
    delivered_sent: f64,
    /// Datagrams delivered times gaps at the end.
    delivered_acknowledged: f64,
    /// Squares of gaps at the beginning.
    sent_sent: f64,
    /// Gaps at the beginning times gaps at the end.
    sent_acknowledged: f64,
    /// Squares of gaps at the end.
    acknowledged_acknowledged: f64,
}

impl CrossTraffic {
    /// Returns the state before the first acknowledgement.
    pub(super) fn new(constants: constants::CrossTraffic) -> Self {
        Self {
            constants,
            latest: None,
            counted: None,
            mean: Deviation::default(),
            weight: 0.0,
            sums: Sums::default(),
            single: 0.0,
        }
    }

    /// Records an acknowledgement whose newest packet met a queue, and that the application
    /// limited, not the window. `mtu`: size of datagrams, in bytes.
    pub(super) fn observe(&mut self, ack: &Ack<'_>, mtu: f64) {
        let Some(newest) = ack.packets.last() else {
            return;
        };
        // A receiver that answers every second packet keeps the answer to a single one back.
        let is_single = ack.packets.len() == 1;
        self.single += (f64::from(u8::from(is_single)) - self.single) / SINGLE_ACKS;
        if is_single && self.single < 0.5 {
            return;
        }
        let point = Point {
            sent: newest.sent,
            acknowledged: ack.now,
            delivered: ack.rate.delivered_total,
        };
        let before = self.latest.replace(point);
        let apart = |it: &Point| ack.now.saturating_duration_since(it.acknowledged) >= TOGETHER;
        if let Some(before) = before.filter(apart) {
            self.count(before, mtu);
        }
    }

    /// Forgets everything, because the queue was empty or something was lost: what is lost
    /// takes the link's time, too, and is not counted.
    pub(super) fn forget(&mut self) {
        *self = Self {
            single: self.single,
            ..Self::new(self.constants)
        };
    }

    /// Takes a point into the sums.
    fn count(&mut self, point: Point, mtu: f64) {
        let Some(before) = self.counted.replace(point) else {
            self.weight = 1.0;
            return;
        };
        let moved = Deviation::between(&before, &point, mtu);
        let kept = |span: Duration| (-moved.acknowledged / span.as_secs_f64()).exp();
        self.weight *= kept(self.constants.span);
        let share = self.weight / (self.weight + 1.0);
        self.weight += 1.0;
        self.mean = Deviation {
            sent: (self.mean.sent - moved.sent) * share,
            acknowledged: (self.mean.acknowledged - moved.acknowledged) * share,
            delivered: (self.mean.delivered - moved.delivered) * share,
        };
        self.sums.decay(kept(self.constants.memory));
        self.sums.add(&self.mean);
    }

    /// Returns the share of other flows; `None` while the spacing does not tell any.
    pub(super) fn others_share(&self) -> Option<OthersShare> {
        let of = &self.sums;
        if of.points < self.constants.samples_min.max(3.0) {
            return None;
        }
        let squares = of.delivered_delivered * of.sent_sent;
        let determinant = squares - of.delivered_sent.powi(2);
        if determinant <= INDEPENDENT * squares {
            return None;
        }
        let share = (of.sent_acknowledged * of.delivered_delivered
            - of.delivered_acknowledged * of.delivered_sent)
            / determinant;
        let seconds_each = (of.delivered_acknowledged * of.sent_sent
            - of.sent_acknowledged * of.delivered_sent)
            / determinant;
        if seconds_each <= 0.0 {
            return None;
        }
        let unexplained = of.acknowledged_acknowledged
            - seconds_each * of.delivered_acknowledged
            - share * of.sent_acknowledged;
        let noise = self.constants.noise_min.as_secs_f64();
        let variance = (unexplained / (of.points - 2.0)).max(noise * noise);
        let error = (variance * of.delivered_delivered / determinant).sqrt();
        Some(OthersShare { share, error })
    }
}

impl Deviation {
    /// Returns the difference from one point to a later one. `mtu`: size of datagrams, in
    /// bytes.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 bytes")]
    fn between(before: &Point, after: &Point, mtu: f64) -> Self {
        let gap = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64();
        Self {
            sent: gap(before.sent, after.sent),
            acknowledged: gap(before.acknowledged, after.acknowledged),
            delivered: after.delivered.saturating_sub(before.delivered) as f64 / mtu,
        }
    }
}

impl Sums {
    /// Multiplies all sums by `kept`.
    fn decay(&mut self, kept: f64) {
        for sum in [
            &mut self.points,
            &mut self.delivered_delivered,
            &mut self.delivered_sent,
            &mut self.delivered_acknowledged,
            &mut self.sent_sent,
            &mut self.sent_acknowledged,
            &mut self.acknowledged_acknowledged,
        ] {
            *sum *= kept;
        }
    }

    /// Adds the products of a deviation.
    fn add(&mut self, it: &Deviation) {
        self.points += 1.0;
        self.delivered_delivered += it.delivered * it.delivered;
        self.delivered_sent += it.delivered * it.sent;
        self.delivered_acknowledged += it.delivered * it.acknowledged;
        self.sent_sent += it.sent * it.sent;
        self.sent_acknowledged += it.sent * it.acknowledged;
        self.acknowledged_acknowledged += it.acknowledged * it.acknowledged;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Acked, RateSample, RoundTrips};

    const MS: Duration = Duration::from_millis(1);
    /// Size of a packet, in bytes.
    const PACKET: u64 = 1200;
    /// Time that the link takes for a packet: 4.8 Mbit/s.
    const EACH: f64 = 0.002;

    /// A standing queue of a link that takes [`EACH`] for a packet, with a live camera of 30
    /// frames a second, and others that send all the time.
    struct Shared {
        cross_traffic: CrossTraffic,
        start: Instant,
        /// When the link is free, in seconds.
        free: f64,
        /// Time until which the others' bytes are in the queue, in seconds.
        others_until: f64,
        /// Share of the link that the others take.
        others: f64,
        delivered: u64,
        /// Random numbers of the jitter.
        random: glassline_sim::Rng,
    }

    impl Shared {
        fn new(others: f64) -> Self {
            Self {
                cross_traffic: CrossTraffic::new(constants::CrossTraffic::DEFAULT),
                start: Instant::now(),
                free: 0.2,
                others_until: 0.0,
                others,
                delivered: 0,
                random: glassline_sim::Rng::new(1),
            }
        }

        /// Sends `packets` from `at` on, a packet each `gap` seconds. Acknowledgements are of
        /// two packets and late by up to `jitter` seconds.
        fn send(&mut self, at: f64, packets: u32, gap: f64, jitter: f64) {
            for number in 0..packets {
                let sent = at + f64::from(number) * gap;
                self.free += self.others * (sent - self.others_until) + EACH;
                self.others_until = sent;
                self.delivered += PACKET;
                if number % 2 == 0 {
                    continue;
                }
                let late = jitter * self.random.unit();
                let packet = Acked {
                    sent: self.start + Duration::from_secs_f64(sent),
                    bytes: PACKET,
                    delivered_before: 0,
                };
                let trips = RoundTrips::new();
                let ack = Ack {
                    now: self.start + Duration::from_secs_f64(self.free + late),
                    packets: &[packet, packet],
                    bytes: 2 * PACKET,
                    in_flight: 0,
                    in_flight_before: 2 * PACKET,
                    rtt: Some(MS),
                    round_trips: &trips,
                    rate: RateSample {
                        delivered: 2 * PACKET,
                        interval: MS,
                        intervals: None,
                        app_limited: true,
                        delivered_total: self.delivered,
                        delivered_before: 0,
                        lost_total: 0,
                        lost_before: 0,
                    },
                    backlogged: Duration::ZERO,
                };
                self.cross_traffic.observe(&ack, 1200.0);
            }
        }

        /// Sends `frames` of 8 packets each, in bursts of a fifth of a frame's time.
        fn film(&mut self, frames: u32, jitter: f64) {
            for frame in 0..frames {
                self.send(f64::from(frame) / 30.0, 8, 0.001, jitter);
            }
        }

        fn found(&self) -> OthersShare {
            self.cross_traffic.others_share().expect("a share")
        }
    }

    #[test]
    fn a_queue_of_our_own_has_no_others() {
        let mut alone = Shared::new(0.0);
        alone.film(30, 0.004);
        let OthersShare { share, error } = alone.found();
        assert!(
            share.abs() < 3.0 * error && error < 0.1,
            "{share} ± {error}"
        );
    }

    #[test]
    fn the_share_of_others_is_found_within_half_a_second() {
        for others in [0.3, 0.5, 0.7] {
            let mut shared = Shared::new(others);
            shared.film(15, 0.004);
            let OthersShare { share, error } = shared.found();
            assert!(
                (share - others).abs() < 3.0 * error && error < 0.12,
                "{share} ± {error} instead of {others}"
            );
        }
    }

    #[test]
    fn a_smooth_flow_tells_nothing() {
        let mut shared = Shared::new(0.5);
        shared.send(0.0, 200, 0.004, 0.004);
        let told = shared.cross_traffic.others_share();
        assert!(told.is_none_or(|it| it.error > 0.3), "{told:?}");
    }

    #[test]
    fn what_came_before_a_loss_or_an_empty_queue_is_forgotten() {
        let mut shared = Shared::new(0.5);
        shared.film(15, 0.0);
        assert!(shared.cross_traffic.others_share().is_some());
        shared.cross_traffic.forget();
        assert_eq!(shared.cross_traffic.others_share(), None);
    }

    #[test]
    fn acknowledgements_of_one_instant_count_once() {
        let mut lumps = Shared::new(0.0);
        // A path that keeps everything back for a second and then delivers at once.
        for number in 0..100 {
            lumps.free = 1.0;
            lumps.send(f64::from(number) * 1e-6, 2, 1e-6, 0.0);
        }
        assert!(lumps.cross_traffic.counted.is_none());
    }
}
