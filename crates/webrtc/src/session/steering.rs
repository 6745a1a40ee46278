//! Congestion control of what a session sends, by transport-wide feedback.
//!
//! ```text
//! seal ── number, bytes ──► Flow ◄── acknowledged as if one by one ── feedback
//!                            │            (twice to twenty times a second)
//! budget ◄── window, pace ───┘
//! ```
//!
//! Feedback comes in bunches, but tells when each packet arrived. So each one is
//! acknowledged to the [`Flow`] at the instant at which an acknowledgement of its own
//! would have come: its arrival, moved to our clock by the least that feedback ever
//! took. Round trips and rates are then those of the path, and not of the bunches.

use std::time::{Duration, Instant};

use glassline_congestion::{Algorithm, Flow, Pacer};
use glassline_media::Bitrate;
use glassline_rtp::twcc::Acknowledgement;

/// A packet is no longer than this: one that fills an Ethernet frame.
const DATAGRAM: u64 = 1200;

/// Nothing heard for so long, with packets on their way: they are lost, and sending
/// begins anew with a few. Feedback comes four times a second at the least.
const SILENCE_MIN: Duration = Duration::from_secs(1);
/// The same in round trips, where those are long.
const SILENCE_ROUND_TRIPS: u32 = 4;

/// Peers send feedback every 50 to 250 ms while packets arrive (libwebrtc).
const INTERVAL_MAX: Duration = Duration::from_millis(250);

/// The clock of arrivals ticks so often (draft-holmer-rmcat-transport-wide-cc §3.1).
const TICK_US: i64 = 250;

const TICK: Duration = Duration::from_micros(TICK_US.unsigned_abs());

/// How long the least time that feedback took counts, once or twice over: clocks
/// drift apart, and paths change.
const LEAST_WINDOW: Duration = Duration::from_secs(5);

/// How the way to a peer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathReport {
    /// Who decides.
    pub algorithm: Algorithm,
    /// Smoothed round trip; `None` before the first feedback.
    pub round_trip: Option<Duration>,
    /// The least of the last ten seconds, which is the path without a queue.
    pub least_round_trip: Option<Duration>,
    /// How fast packets leave at the most; `None` before the first feedback.
    pub pacing: Option<Bitrate>,
    /// What the path is believed to carry; a lower bound if `app_limited`.
    pub deliverable: Option<Bitrate>,
    /// There is not enough to send to know more.
    pub app_limited: bool,
    /// Bytes on their way.
    pub in_flight: u64,
    /// Bytes sent so far, all of a transport's packets.
    pub sent_bytes: u64,
    /// Of those, reported missing.
    pub lost_bytes: u64,
}

/// The congestion control of one session.
#[derive(Debug)]
pub(super) struct Steering {
    algorithm: Algorithm,
    flow: Flow,
    pacer: Pacer,
    arrivals: Arrivals,
    /// The first number that feedback has not spoken of.
    unheard: u64,
    /// The number that comes next.
    next: u64,
    /// When feedback came last, or the first of what is in flight left.
    heard: Option<Instant>,
    /// How far apart feedback comes, on the long side.
    interval: Duration,
    /// Kept for its room.
    lost: Vec<u64>,
}

impl Steering {
    pub(super) fn new(algorithm: Algorithm, now: Instant) -> Self {
        Self {
            algorithm,
            flow: Flow::new(algorithm.start(DATAGRAM)),
            pacer: Pacer::new(DATAGRAM),
            arrivals: Arrivals::new(now),
            unheard: 0,
            next: 0,
            heard: None,
            interval: Duration::ZERO,
            lost: Vec::new(),
        }
    }

    /// Packet `number` left.
    pub(super) fn on_sent(&mut self, number: u64, bytes: usize, now: Instant) {
        if self.flow.in_flight() == 0 {
            self.heard = Some(now);
            self.unheard = number;
        }
        self.next = number + 1;
        self.flow.on_sent(now, number, bytes as u64);
        self.pacer.sent(bytes as u64);
    }

    /// What feedback said that was not known, in order of numbers.
    pub(super) fn on_feedback(&mut self, news: &mut [Acknowledgement], now: Instant) {
        let (Some(first), Some(last)) = (news.first(), news.last()) else {
            return;
        };
        // Feedback on those in between was lost: nobody will speak of them again.
        let (first, last) = (first.sequence, last.sequence);
        self.flow.on_discarded(self.unheard..first);
        self.unheard = self.unheard.max(last + 1);
        if let Some(heard) = self.heard.replace(now) {
            let apart = now.saturating_duration_since(heard).min(INTERVAL_MAX);
            self.interval = apart.max((self.interval * 7 + apart) / 8);
        }
        news.sort_by_key(|it| it.arrival.unwrap_or(i64::MAX));
        let arrived = news.iter().filter_map(|it| Some((it, it.arrival?)));
        if let Some((_, newest)) = arrived.clone().next_back() {
            self.arrivals.anchor(newest, now);
        }
        for (packet, arrival) in arrived {
            // No sooner than a tick of the arrivals' clock after it left.
            let soonest = (packet.sent + TICK).min(now);
            let at = self.arrivals.acknowledged(arrival, now).max(soonest);
            self.flow.on_acked(at, [packet.sequence], Duration::ZERO);
        }
        let missing = news.iter().filter(|it| it.arrival.is_none());
        self.lost.clear();
        self.lost.extend(missing.map(|it| it.sequence));
        self.flow.on_lost(now, self.lost.drain(..), false);
    }

    /// The sender has nothing more for now.
    pub(super) fn on_idle(&mut self) {
        self.flow.on_app_limited();
    }

    /// Bytes that may leave at `now`.
    pub(super) fn budget(&mut self, now: Instant) -> u64 {
        if self.silent_at().is_some_and(|at| at <= now) {
            self.flow.on_lost(now, self.unheard..self.next, true);
            // Nothing is on its way any more, and nothing unreported.
            self.heard = None;
            self.interval = Duration::ZERO;
        }
        let paced = self.pacer.allowance(now, self.flow.pacing_rate());
        self.window()
            .saturating_sub(self.flow.in_flight())
            .min(paced)
    }

    /// When `bytes` may leave, if that is known: feedback may come before it.
    pub(super) fn budget_at(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        if self.window().saturating_sub(self.flow.in_flight()) < bytes {
            return self.silent_at();
        }
        let rate = self.flow.pacing_rate();
        Some(self.pacer.deadline(now, rate, bytes).unwrap_or(now))
    }

    pub(super) fn report(&self) -> PathReport {
        let totals = self.flow.totals();
        PathReport {
            algorithm: self.algorithm,
            round_trip: self.flow.round_trips().smoothed(),
            least_round_trip: self.flow.round_trips().least(),
            pacing: self.flow.pacing_rate(),
            deliverable: self.flow.deliverable_rate(),
            app_limited: self.flow.is_app_limited(),
            in_flight: self.flow.in_flight(),
            sent_bytes: totals.sent,
            lost_bytes: totals.lost,
        }
    }

    /// The controller's window is for what the path holds. What arrived is counted as
    /// in flight until feedback comes; that much more may be.
    fn window(&self) -> u64 {
        let window = self.flow.controller().window();
        let Some(round_trip) = self.flow.round_trips().smoothed() else {
            return window;
        };
        let whole = round_trip.as_micros().max(1);
        let unreported = u128::from(window) * self.interval.as_micros() / whole;
        window.saturating_add(u64::try_from(unreported).unwrap_or(u64::MAX))
    }

    /// When what is in flight is given up.
    fn silent_at(&self) -> Option<Instant> {
        let heard = self.heard.filter(|_| self.flow.in_flight() > 0)?;
        let round_trip = self.flow.round_trips().smoothed().unwrap_or_default();
        Some(heard + SILENCE_MIN.max(round_trip * SILENCE_ROUND_TRIPS))
    }
}

/// Moves arrivals at the peer to when we would have heard of them.
#[derive(Debug)]
struct Arrivals {
    epoch: Instant,
    /// The least difference, ours minus the peer's clock, of this window and the one
    /// before, in microseconds.
    least: Option<i64>,
    least_before: Option<i64>,
    window: Instant,
    /// Acknowledgements do not go back in time.
    latest: Instant,
}

impl Arrivals {
    const fn new(now: Instant) -> Self {
        Self {
            epoch: now,
            least: None,
            least_before: None,
            window: now,
            latest: now,
        }
    }

    /// Feedback on the `newest` arrival, in ticks, came at `now`.
    fn anchor(&mut self, newest: i64, now: Instant) {
        if now.saturating_duration_since(self.window) >= LEAST_WINDOW {
            self.window = now;
            self.least_before = self.least.take();
        }
        let difference = self.since_epoch(now).saturating_sub(microseconds(newest));
        let least = self.least.map_or(difference, |least| least.min(difference));
        self.least = Some(least);
    }

    /// When an acknowledgement of its own would have come for what arrived then.
    fn acknowledged(&mut self, arrival: i64, now: Instant) -> Instant {
        let least = [self.least, self.least_before].into_iter().flatten().min();
        let at = microseconds(arrival).saturating_add(least.unwrap_or_default());
        let at = Duration::from_micros(u64::try_from(at).unwrap_or_default());
        // What a peer says of its clock can be anything.
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
        let mut arrivals = Arrivals::new(epoch);
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
            let mut arrivals = Arrivals::new(now);
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
