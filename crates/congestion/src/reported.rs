//! The rate of a sender that learns of its path by receiver reports alone.
//!
//! ```text
//! sent bytes ──┐
//! report: loss, round trip ──► ReportedRate ──► pacing rate, deliverable rate
//! ```
//!
//! Receiver reports (RFC 3550 §6.4) come every one to five seconds. They say which share of the
//! packets was lost and how long the round trip is, but not which packet arrived when, so that no
//! [`Flow`](crate::Flow) can be kept. Loss is judged as in draft-ietf-rmcat-gcc-02 §6: above 10 %
//! the rate falls, below 2 % it grows. A round trip that is much longer than the least one is a
//! queue, for which the rate falls as well: a bottleneck with a long queue loses nothing for
//! seconds.

use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use crate::Pacer;
use crate::filter::{Least, Windowed};

/// Share of lost packets above which the path is overloaded.
const LOSS_HIGH: f64 = 0.10;
/// Share of lost packets below which the path is taken for free.
const LOSS_LOW: f64 = 0.02;
/// Queueing delay above which the path is overloaded. A report that comes with a keyframe finds a
/// queue of some tens of milliseconds.
const QUEUE_MAX: Duration = Duration::from_millis(120);
/// Share of the received rate that is sent while a queue drains.
const DRAIN_SHARE: f64 = 0.85;
/// Time within which a queue shall drain beyond that, in seconds: one or two reports.
const DRAIN: f64 = 3.0;
/// Smallest share of the received rate that is sent while a queue drains.
const SHARE_MIN: f64 = 0.5;
/// Growth of the rate in a second, once the path was overloaded.
const GROWTH: f64 = 1.04;
/// Growth of the rate in a second before that.
const GROWTH_START: f64 = 1.3;
/// Longest interval for which the rate grows at once.
const GROWTH_SECONDS_MAX: f64 = 3.0;
/// Share of the rate that must have been sent for the rate to grow: what was not sent was not
/// tested.
const USED: f64 = 0.7;
/// Pacing rate in relation to the rate: frames vary in size, and a keyframe should not wait long.
const PACING: f64 = 1.25;
/// Reports that come sooner after another one are counted together with the next.
const INTERVAL_MIN: Duration = Duration::from_millis(200);
/// Reporting intervals without a report after which the rate is halved.
const SILENT_INTERVALS: u32 = 3;
/// Least time without a report after which the rate is halved: reports of RFC 3550 come every 5 s
/// if the receiver does not reduce the interval, and may be lost.
const SILENCE_MIN: Duration = Duration::from_secs(8);
/// Time for which a round trip counts as that of an empty path.
const LEAST_WINDOW: Duration = Duration::from_secs(60);
/// Smallest rate in bit/s, so that reports go on.
const RATE_MIN: f64 = 30_000.0;

/// The news of a receiver report about the packets since the report before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reception {
    /// Share of the packets that were lost, 0 to 1.
    pub lost: f64,
    /// Round-trip time by the sender report that the receiver names; `None` if it names none.
    pub round_trip: Option<Duration>,
}

/// Decides the rate of a sender by receiver reports: by loss, and by how the round trip grows.
///
/// Before the first report nothing is held back.
#[derive(Clone, Debug)]
pub struct ReportedRate {
    /// Rate that the path is believed to carry, in bit/s; `None` before the first report.
    rate: Option<f64>,
    /// Rate at the beginning, in bit/s.
    start: f64,
    /// Whether the path was overloaded at some time.
    was_overloaded: bool,
    /// Bytes sent since the last report.
    sent_bytes: u64,
    /// When the present interval began: with the first packet, then with each report.
    since: Option<Instant>,
    /// Latest interval between reports.
    interval: Duration,
    /// When the rate is halved, unless a report comes.
    silent_at: Option<Instant>,
    least_round_trip: Windowed<Duration, Least>,
    round_trip: Option<Duration>,
    pacer: Pacer,
}

impl ReportedRate {
    /// Returns a rate that begins at `start`. `mtu`: size of datagrams in bytes.
    #[expect(clippy::cast_precision_loss, reason = "rates stay far below 2^52")]
    pub const fn new(start: Bitrate, mtu: u64) -> Self {
        Self {
            rate: None,
            start: start.bps() as f64,
            was_overloaded: false,
            sent_bytes: 0,
            since: None,
            interval: Duration::ZERO,
            silent_at: None,
            least_round_trip: Windowed::new(LEAST_WINDOW),
            round_trip: None,
            pacer: Pacer::new(mtu),
        }
    }

    /// Records that a packet of `bytes` was sent.
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.since.get_or_insert(now);
        self.sent_bytes += bytes;
        self.pacer.sent(bytes);
    }

    /// Takes a report that came at `now`, about the track with most of the packets.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub fn on_report(&mut self, now: Instant, reception: Reception) {
        let Some(since) = self.since else {
            // Nothing was sent that could be judged.
            return;
        };
        let elapsed = now.saturating_duration_since(since);
        if let Some(round_trip) = reception.round_trip {
            self.least_round_trip.record(round_trip, now);
            self.round_trip = Some(round_trip);
        }
        if elapsed < INTERVAL_MIN {
            return;
        }
        let lost = reception.lost.clamp(0.0, 1.0);
        let sent = self.sent_bytes as f64 * 8.0 / elapsed.as_secs_f64();
        (self.sent_bytes, self.since, self.interval) = (0, Some(now), elapsed);
        self.silent_at = Some(now + SILENCE_MIN.max(elapsed * SILENT_INTERVALS));
        let before = self.rate.unwrap_or_else(|| self.start.max(sent));
        let received = sent * (1.0 - lost);
        let queue = self.queue();
        let rate = if lost > LOSS_HIGH {
            self.was_overloaded = true;
            before.min(received) * (1.0 - lost / 2.0)
        } else if queue > QUEUE_MAX {
            self.was_overloaded = true;
            let share = DRAIN_SHARE - queue.as_secs_f64() / DRAIN;
            before.min(received * share.max(SHARE_MIN))
        } else if lost < LOSS_LOW && sent >= USED * before {
            let growth = if self.was_overloaded {
                GROWTH
            } else {
                GROWTH_START
            };
            before * growth.powf(elapsed.as_secs_f64().min(GROWTH_SECONDS_MAX))
        } else {
            before
        };
        self.rate = Some(rate.max(RATE_MIN));
    }

    /// Halves the rate when reports stay away; to be called at [`Self::poll_timeout`] or later.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.silent_at.is_some_and(|at| at <= now) {
            self.silent_at = Some(now + SILENCE_MIN.max(self.interval * SILENT_INTERVALS));
            self.was_overloaded = true;
            self.rate = self.rate.map(|rate| (rate / 2.0).max(RATE_MIN));
        }
    }

    /// Returns when [`Self::handle_timeout`] is due.
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.silent_at
    }

    /// Returns the rate that the path is believed to carry; `None` before the first report.
    pub fn deliverable(&self) -> Option<Bitrate> {
        self.rate.map(bitrate)
    }

    /// Returns the latest round-trip time that a report told.
    pub const fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// Returns the bytes that may leave at `now`; `None` before the first report, when nothing is
    /// held back.
    pub fn budget(&mut self, now: Instant) -> Option<u64> {
        let pacing = self.pacing()?;
        Some(self.pacer.allowance(now, Some(pacing)))
    }

    /// Returns when `bytes` may leave; `None` if that is at once.
    pub fn budget_at(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        let pacing = self.pacing();
        self.pacer.deadline(now, pacing, bytes)
    }

    fn pacing(&self) -> Option<Bitrate> {
        self.rate.map(|rate| bitrate(rate * PACING))
    }

    /// Returns the queueing delay by the latest round trip.
    fn queue(&self) -> Duration {
        let least = self.least_round_trip.get().unwrap_or_default();
        let latest = self.round_trip.unwrap_or_default();
        latest.saturating_sub(least)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates are positive and far below 2^52"
)]
fn bitrate(bits_per_second: f64) -> Bitrate {
    Bitrate::from_bps(bits_per_second as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A sender whose path carries `capacity` bit/s, has a queue of `depth` ms, and answers with a
    /// report every two seconds.
    struct Sender {
        rate: ReportedRate,
        now: Instant,
        capacity: f64,
        depth: f64,
        queue: f64,
    }

    impl Sender {
        fn new(capacity: f64, depth: f64) -> Self {
            Self {
                rate: ReportedRate::new(Bitrate::from_bps(1_000_000), 1200),
                now: Instant::now(),
                capacity,
                depth,
                queue: 0.0,
            }
        }

        /// Sends at the rate that is decided, at most at `most`, for `intervals` of two seconds.
        fn send(&mut self, intervals: u32, most: f64) {
            for _ in 0..intervals {
                let known = self.rate.deliverable().map_or(1e6, |it| it.bps() as f64);
                let sent = known.min(most) * 2.0;
                self.rate.on_sent(self.now, (sent / 8.0) as u64);
                self.queue = (self.queue + sent - self.capacity * 2.0).max(0.0);
                let room = self.capacity * self.depth / 1000.0;
                let dropped = (self.queue - room).max(0.0);
                self.queue -= dropped;
                self.now += MS * 2000;
                let queued = Duration::from_secs_f64(self.queue / self.capacity);
                let reception = Reception {
                    lost: dropped / sent.max(1.0),
                    round_trip: Some(MS * 40 + queued),
                };
                self.rate.on_report(self.now, reception);
            }
        }

        fn kbps(&self) -> u64 {
            self.rate.deliverable().map_or(0, |it| it.bps() / 1000)
        }
    }

    #[test]
    fn the_rate_is_found_followed_down_and_found_again() {
        for depth in [50.0, 300.0, 2000.0] {
            let mut sender = Sender::new(2e6, depth);
            sender.send(20, f64::INFINITY);
            assert!((1200..2600).contains(&sender.kbps()), "{}", sender.kbps());
            sender.capacity = 5e5;
            sender.send(15, f64::INFINITY);
            assert!((250..700).contains(&sender.kbps()), "{}", sender.kbps());
            sender.capacity = 2e6;
            sender.send(30, f64::INFINITY);
            assert!((1200..2600).contains(&sender.kbps()), "{}", sender.kbps());
        }
    }

    #[test]
    fn what_was_not_sent_was_not_tested() {
        let mut sender = Sender::new(50e6, 100.0);
        sender.send(60, 2e6);
        // One step of growth beyond what was sent by USED.
        assert!((2000..4900).contains(&sender.kbps()), "{}", sender.kbps());
    }

    #[test]
    fn reports_that_stay_away_halve_the_rate() {
        let mut sender = Sender::new(2e6, 300.0);
        sender.send(10, f64::INFINITY);
        let before = sender.kbps();
        let at = sender.rate.poll_timeout().expect("reports are expected");
        sender.rate.handle_timeout(at);
        assert_eq!(sender.kbps(), before / 2);
        assert!(sender.rate.poll_timeout().expect("again") > at);
    }

    #[test]
    fn nothing_is_held_back_before_the_first_report() {
        let mut sender = Sender::new(2e6, 300.0);
        assert_eq!(sender.rate.budget(sender.now), None);
        assert_eq!(sender.rate.poll_timeout(), None);
        sender.send(1, f64::INFINITY);
        assert!(sender.rate.budget(sender.now).is_some());
    }
}
