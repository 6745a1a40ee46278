//! Congestion control of what a session sends, by transport-wide feedback.
//!
//! ```text
//! seal ── number, bytes ──► Flow ◄── acknowledgements, one per packet ── feedback
//!                            │            (twice to twenty times a second)
//! budget ◄── window, pace ───┘
//! ```
//!
//! Feedback describes many packets at a time, but states when each one arrived. Each packet is
//! therefore acknowledged to the [`Flow`] at the instant at which an individual acknowledgment
//! would have come: its arrival time, translated to our clock by the least delay that feedback has
//! had. Round trips and rates are then those of the path, not those of the feedback interval.
//! Packets with one instant, as those of a frame on a fast path, are acknowledged in one call.

use std::time::{Duration, Instant};

use glassline_congestion::{Algorithm, Flow, Pacer, Passage, PathMeter, PathSigns};
use glassline_media::Bitrate;
use glassline_rtp::twcc::Acknowledgement;

use super::burst_size::{BurstSize, bytes_in};
use super::narrowing::Narrowing;

/// Largest packet in bytes.
const DATAGRAM: u64 = 1200;

/// Time at the pacing rate for which packets wait for each other, so that they leave by one timer and one system
/// call.
const TOGETHER: Duration = Duration::from_millis(5);

/// Least time without feedback, with packets in flight, after which they count as lost and
/// sending starts again with a few packets. Peers send feedback at least four times a second.
const FEEDBACK_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// Time without feedback in round trips, used where that is longer.
const FEEDBACK_TIMEOUT_ROUND_TRIPS: u32 = 4;

/// Least time without feedback after which one packet may leave although the window is full, and the
/// interval of such packets. Peers send feedback about what arrives: where the last feedback is lost and
/// nothing more arrives, no other one would come.
const ASK_MIN: Duration = Duration::from_millis(100);
/// That time before the first round trip is known.
const ASK_FIRST: Duration = Duration::from_millis(200);

/// Longest interval of feedback. Peers send feedback every 50 to 250 ms while packets arrive
/// (libwebrtc).
const INTERVAL_MAX: Duration = Duration::from_millis(250);

/// Resolution of arrival times in µs (draft-holmer-rmcat-transport-wide-cc §3.1).
const TICK_US: i64 = 250;

/// Resolution of arrival times.
const TICK: Duration = Duration::from_micros(TICK_US.unsigned_abs());

/// Window over which the least delay of feedback is taken: it counts for one to two windows,
/// since clocks drift and paths change.
const LEAST_WINDOW: Duration = Duration::from_secs(5);

/// State of the path to a peer, as its congestion controller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathReport {
    /// Algorithm of the congestion control.
    pub algorithm: Algorithm,
    /// Smoothed round-trip time; `None` before the first feedback.
    pub round_trip: Option<Duration>,
    /// Least round-trip time of the last ten seconds: the path without a queue.
    pub least_round_trip: Option<Duration>,
    /// Pacing rate, the maximum at which packets are sent; `None` before the first feedback.
    pub pacing: Option<Bitrate>,
    /// Estimated capacity of the path; a lower bound if `app_limited`.
    pub deliverable: Option<Bitrate>,
    /// True if too little is sent to measure more.
    pub app_limited: bool,
    /// Whether a policer drops what is faster than `deliverable`.
    pub policed: bool,
    /// Number of bytes in flight.
    pub in_flight: u64,
    /// Number of bytes sent so far, of all packets with a transport-wide number.
    pub sent_bytes: u64,
    /// Number of those bytes that were reported missing.
    pub lost_bytes: u64,
}

/// Bytes that may be sent again before feedback says that something arrives. After that, as many bytes
/// may be sent again as arrive (the conservation of packets, as in RFC 6937 §3): where little arrives,
/// repairs would only fill the queue.
const REPAIR_CREDIT: u64 = 64 << 10;

/// The signs of the path when feedback came, for those who ask in the same moment.
#[derive(Debug)]
struct LatestSigns {
    at: Instant,
    signs: Option<PathSigns>,
}

/// Congestion control of one session.
#[derive(Debug)]
pub(super) struct CongestionControl {
    algorithm: Algorithm,
    flow: Flow,
    pacer: Pacer,
    arrivals: ArrivalClock,
    /// Measures what the path carries beyond what is sent.
    meter: PathMeter,
    /// Signs at the latest feedback.
    latest: Option<LatestSigns>,
    narrowing: Narrowing,
    burst: BurstSize,
    /// First transport-wide number that no feedback has described.
    first_unreported: u64,
    /// Transport-wide number of the next packet.
    next: u64,
    /// Instant of the last feedback, or of sending the first packet in flight.
    last_feedback: Option<Instant>,
    /// Instant of sending the newest packet.
    last_sent: Option<Instant>,
    /// Estimated interval of feedback, biased to long intervals.
    interval: Duration,
    /// Bytes that may be sent again.
    repair_credit: u64,
}

impl CongestionControl {
    pub(super) fn new(algorithm: Algorithm, now: Instant) -> Self {
        Self {
            algorithm,
            flow: Flow::new(algorithm.start(DATAGRAM)),
            pacer: Pacer::new(DATAGRAM),
            arrivals: ArrivalClock::new(now),
            meter: PathMeter::default(),
            latest: None,
            narrowing: Narrowing::default(),
            burst: BurstSize::default(),
            first_unreported: 0,
            next: 0,
            last_feedback: None,
            last_sent: None,
            interval: Duration::ZERO,
            repair_credit: REPAIR_CREDIT,
        }
    }

    /// Records that packet `number` was sent.
    pub(super) fn on_sent(&mut self, number: u64, bytes: usize, now: Instant) {
        if self.flow.in_flight() == 0 {
            self.last_feedback = Some(now);
            self.first_unreported = number;
        }
        self.next = number + 1;
        self.last_sent = Some(now);
        self.flow.on_sent(now, number, bytes as u64);
        self.pacer.sent(bytes as u64);
    }

    /// Takes what feedback newly reports of packets, in the order of their numbers.
    pub(super) fn on_feedback(&mut self, reports: &mut [Acknowledgement], now: Instant) {
        let (Some(first), Some(last)) = (reports.first(), reports.last()) else {
            return;
        };
        let passages = reports.iter().map(passage);
        self.meter.on_feedback(now, passages);
        let signs = self.meter.signs(now);
        if let Some(signs) = &signs {
            self.narrowing.note(signs, now);
            self.burst.note(signs, self.is_policed(), now);
            self.pacer.set_burst(self.burst.bytes());
        }
        self.latest = Some(LatestSigns { at: now, signs });
        // Feedback about the packets between was lost: they will not be described again.
        let (first, last) = (first.sequence, last.sequence);
        self.flow.on_discarded(self.first_unreported..first);
        self.first_unreported = self.first_unreported.max(last + 1);
        if let Some(last_feedback) = self.last_feedback.replace(now) {
            let apart = now
                .saturating_duration_since(last_feedback)
                .min(INTERVAL_MAX);
            self.interval = apart.max((self.interval * 7 + apart) / 8);
        }
        reports.sort_by_key(|it| it.arrival.unwrap_or(i64::MAX));
        let arrived = reports.iter().filter_map(|it| Some((it, it.arrival?)));
        if let Some((_, newest)) = arrived.clone().next_back() {
            self.arrivals.anchor(newest, now);
        }
        // Memory of each session would be colder than this.
        let mut acked = Vec::with_capacity(reports.len());
        for (packet, arrival) in arrived {
            // An acknowledgment comes at least one tick of the arrival clock after the packet
            // was sent.
            let soonest = (packet.sent + TICK).min(now);
            let at = self.arrivals.acknowledged(arrival, now).max(soonest);
            acked.push((at, packet.sequence));
        }
        let delivered = self.flow.totals().delivered;
        for together in acked.chunk_by(|one, next| one.0 == next.0) {
            let numbers = together.iter().map(|it| it.1);
            self.flow.on_acked(together[0].0, numbers, Duration::ZERO);
        }
        let arrived = self.flow.totals().delivered - delivered;
        let credit_max = REPAIR_CREDIT.max(self.flow.window());
        self.repair_credit = self.repair_credit.saturating_add(arrived).min(credit_max);
        let missing = reports.iter().filter(|it| it.arrival.is_none());
        let lost = missing.map(|it| it.sequence);
        self.flow.on_lost(now, lost, false);
    }

    /// States that the sender has nothing more to send for now.
    pub(super) fn on_app_limited(&mut self) {
        self.flow.on_app_limited();
    }

    /// Returns the number of bytes that may be sent at `now`.
    pub(super) fn budget(&mut self, now: Instant) -> u64 {
        if self.feedback_deadline().is_some_and(|at| at <= now) {
            self.flow
                .on_lost(now, self.first_unreported..self.next, true);
            // Nothing is in flight any more, and no feedback is expected.
            self.last_feedback = None;
            self.interval = Duration::ZERO;
        }
        let paced = self.pacer.allowance(now, self.pacing_rate());
        let room = self.window().saturating_sub(self.flow.in_flight());
        match room < DATAGRAM && self.asks_at().is_some_and(|at| at <= now) {
            true => DATAGRAM,
            false => room.min(paced),
        }
    }

    /// Returns the instant at which `bytes` may be sent, if it is known; feedback may allow it
    /// earlier.
    pub(super) fn budget_at(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        if self.window().saturating_sub(self.flow.in_flight()) < bytes {
            let asks_at = self.asks_at().filter(|_| bytes <= DATAGRAM);
            let due = [self.feedback_deadline(), asks_at].into_iter().flatten();
            return due.min().map(|at| at.max(now));
        }
        let rate = self.pacing_rate();
        Some(self.pacer.deadline(now, rate, bytes).unwrap_or(now))
    }

    /// Returns the instant at which the next packets of a frame may leave: the next one has `next` bytes, and
    /// all that are left have `rest`. Where larger bursts may leave, packets wait for each other for a moment,
    /// which delays the last one by nothing.
    pub(super) fn frame_at(
        &mut self,
        now: Instant,
        next: u64,
        rest: impl FnOnce() -> u64,
    ) -> Option<Instant> {
        if !self.burst.is_large() {
            return self.budget_at(now, next);
        }
        let room = self.window().saturating_sub(self.flow.in_flight());
        let rate = self.pacing_rate().unwrap_or_default();
        let together = bytes_in(TOGETHER, rate).min(rest()).min(room);
        self.budget_at(now, together.max(next))
    }

    /// Returns the instant at which one packet may leave although the window is full, because feedback is
    /// missing.
    fn asks_at(&self) -> Option<Instant> {
        let quiet = self.last_feedback.max(self.last_sent)?;
        let round_trip = self.flow.round_trips().smoothed();
        Some(quiet + round_trip.map_or(ASK_FIRST, |it| it.max(ASK_MIN)))
    }

    /// Returns the number of bytes that may be sent at `now` in place of lost ones. Those have left
    /// the path although no feedback says so yet, so not the window decides but the rate, as soon as
    /// there is one, and what arrives.
    pub(super) fn repair_budget(&mut self, now: Instant) -> u64 {
        let paced = match self.pacing_rate() {
            None => self.budget(now),
            rate => self.pacer.allowance(now, rate),
        };
        paced.min(self.repair_credit)
    }

    /// Returns whether as much has arrived that `bytes` may be sent again.
    pub(super) const fn may_repair(&self, bytes: u64) -> bool {
        self.repair_credit >= bytes
    }

    /// Records that `bytes` were sent again.
    pub(super) fn on_repair(&mut self, bytes: usize) {
        self.repair_credit = self.repair_credit.saturating_sub(bytes as u64);
    }

    /// Returns the instant at which `bytes` may be sent in place of lost ones, if it is known.
    pub(super) fn repair_at(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        match self.pacing_rate() {
            _ if self.repair_credit < bytes => self.feedback_deadline(),
            None => self.budget_at(now, bytes),
            rate => Some(self.pacer.deadline(now, rate, bytes).unwrap_or(now)),
        }
    }

    /// Takes the knowledge that the path carries `rate`.
    pub(super) fn on_proven(&mut self, rate: Bitrate, now: Instant) {
        self.flow.on_proven(now, rate);
    }

    /// Returns the signs of what the path carries; `None` without recent feedback.
    pub(super) fn signs(&self, now: Instant) -> Option<PathSigns> {
        match &self.latest {
            Some(latest) if latest.at == now => latest.signs,
            _ => self.meter.signs(now),
        }
    }

    /// Returns the share of packets that the path loses whatever is sent.
    pub(super) fn loss_floor(&self) -> f64 {
        self.flow.controller().path_model().loss_floor
    }

    /// Reads a part of what sending and feedback read, see [`Session::prefetch`](super::Session::prefetch).
    pub(super) fn prefetch(&self) -> u64 {
        self.flow.prefetch() ^ self.next ^ self.repair_credit ^ u64::from(self.last_sent.is_some())
    }

    /// Returns the number of bytes sent so far.
    pub(super) const fn sent_bytes(&self) -> u64 {
        self.flow.totals().sent
    }

    pub(super) fn report(&self) -> PathReport {
        let totals = self.flow.totals();
        PathReport {
            algorithm: self.algorithm,
            round_trip: self.flow.round_trips().smoothed(),
            least_round_trip: self.flow.round_trips().least(),
            pacing: self.pacing_rate(),
            deliverable: self.flow.deliverable_rate(),
            app_limited: self.flow.is_app_limited(),
            policed: self.is_policed(),
            in_flight: self.flow.in_flight(),
            sent_bytes: totals.sent,
            lost_bytes: totals.lost,
        }
    }

    /// Returns whether a policer drops what is faster than the path's rate.
    fn is_policed(&self) -> bool {
        self.flow.controller().path_model().policed
    }

    /// Returns the rate at which packets may leave, as far as one is known.
    fn pacing_rate(&self) -> Option<Bitrate> {
        self.narrowing.bounded(self.flow.pacing_rate())
    }

    /// Returns the congestion window, enlarged by what may have arrived without being reported.
    /// The controller's window is for what the path holds, but bytes that arrived count as in
    /// flight until feedback comes.
    fn window(&self) -> u64 {
        let window = self.flow.window();
        let Some(round_trip) = self.flow.round_trips().smoothed() else {
            return window;
        };
        let micros = |it: Duration| u64::try_from(it.as_micros()).unwrap_or(u64::MAX);
        let unreported = window.saturating_mul(micros(self.interval)) / micros(round_trip).max(1);
        window.saturating_add(unreported)
    }

    /// Returns the instant at which the packets in flight count as lost.
    fn feedback_deadline(&self) -> Option<Instant> {
        let last_feedback = self.last_feedback.filter(|_| self.flow.in_flight() > 0)?;
        let round_trip = self.flow.round_trips().smoothed().unwrap_or_default();
        Some(last_feedback + FEEDBACK_TIMEOUT_MIN.max(round_trip * FEEDBACK_TIMEOUT_ROUND_TRIPS))
    }
}

fn passage(report: &Acknowledgement) -> Passage {
    Passage {
        number: report.sequence,
        sent: report.sent,
        arrived_us: report.arrival.map(microseconds),
        bytes: u64::from(report.bytes),
    }
}

/// Translates arrival times at the peer to the instants at which individual acknowledgments
/// would have come.
#[derive(Debug)]
struct ArrivalClock {
    epoch: Instant,
    /// Least difference of this window, our clock minus the peer's, in µs.
    least: Option<i64>,
    least_before: Option<i64>,
    window: Instant,
    /// Latest result: acknowledgments do not go back in time.
    latest: Instant,
}

impl ArrivalClock {
    const fn new(now: Instant) -> Self {
        Self {
            epoch: now,
            least: None,
            least_before: None,
            window: now,
            latest: now,
        }
    }

    /// Updates the difference of the clocks by feedback that came at `now`. `newest`: the
    /// latest arrival in it, in ticks.
    fn anchor(&mut self, newest: i64, now: Instant) {
        if now.saturating_duration_since(self.window) >= LEAST_WINDOW {
            self.window = now;
            self.least_before = self.least.take();
        }
        let difference = self.since_epoch(now).saturating_sub(microseconds(newest));
        let least = self.least.map_or(difference, |least| least.min(difference));
        self.least = Some(least);
    }

    /// Returns the instant at which an individual acknowledgment of a packet would have come.
    /// `arrival`: its arrival in ticks.
    fn acknowledged(&mut self, arrival: i64, now: Instant) -> Instant {
        let least = [self.least, self.least_before].into_iter().flatten().min();
        let at = microseconds(arrival).saturating_add(least.unwrap_or_default());
        let at = Duration::from_micros(u64::try_from(at).unwrap_or_default());
        // A peer may report any clock value.
        let at = self.epoch.checked_add(at).unwrap_or(now);
        self.latest = at.min(now).max(self.latest.min(now));
        self.latest
    }

    fn since_epoch(&self, now: Instant) -> i64 {
        let since = now.saturating_duration_since(self.epoch).as_micros();
        i64::try_from(since).unwrap_or(i64::MAX)
    }
}

const fn microseconds(ticks: i64) -> i64 {
    ticks.saturating_mul(TICK_US)
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_sim::Clock;
    use proptest::prelude::*;

    #[test]
    fn arrivals_become_the_acknowledgements_that_would_have_come() {
        let epoch = Clock::new().now();
        let at = |ms: u64| epoch + Duration::from_millis(ms);
        let mut arrivals = ArrivalClock::new(epoch);
        // The peer's clock is 7 s ahead; feedback takes 20 ms, and holds arrivals back
        // for up to 80 more.
        let peer = |ms: i64| (7000 + ms) * 4;
        arrivals.anchor(peer(100), at(120));
        arrivals.anchor(peer(200), at(300));
        assert_eq!(arrivals.acknowledged(peer(110), at(300)), at(130));
        assert_eq!(arrivals.acknowledged(peer(200), at(300)), at(220));
        assert_eq!(
            arrivals.acknowledged(peer(150), at(300)),
            at(220),
            "never back"
        );
    }

    proptest! {
        #[test]
        fn a_peer_s_clock_can_say_anything(
            steps in prop::collection::vec((0u64..10_000, any::<i64>()), 1..100),
        ) {
            let mut now = Clock::new().now();
            let mut arrivals = ArrivalClock::new(now);
            let mut latest = now;
            for (ms, ticks) in steps {
                now += Duration::from_millis(ms);
                arrivals.anchor(ticks, now);
                let at = arrivals.acknowledged(ticks, now);
                prop_assert!(latest <= at && at <= now);
                latest = at;
            }
        }
    }
}
