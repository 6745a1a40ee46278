use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use crate::filter::{Largest, Windowed};
use crate::in_flight::{DeliveredPacket, Departure, InFlight, Packet};
use crate::totals::Totals;
use crate::trend::Trend;

use crate::{Ack, Acked, Controller, Loss, RateSample, RoundTrips, SampleIntervals};

/// Time for which a delivery rate counts for [`Flow::deliverable_rate`]: an encoder should
/// notice within about a second that a path has narrowed.
const DELIVERY_WINDOW: Duration = Duration::from_secs(1);

/// Time between reports of marks to a controller before a round trip is known.
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(100);

/// Most lost packets that are remembered in case they were only late.
const LOST_PACKETS_MAX: usize = 1024;

/// The packets of one path, and the controller that decides by them.
///
/// Packet numbers rise by one from any start, as QUIC's and TWCC's do; a transport with
/// other numbers counts what it sends. Memory is bounded by what is in flight.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use glassline_congestion::{Algorithm, Flow};
///
/// let mut now = Instant::now();
/// let mut flow = Flow::new(Algorithm::Cubic.start(1200));
/// let mut number = 0;
/// while flow.allowance() >= 1200 {
///     flow.on_sent(now, number, 1200);
///     number += 1;
/// }
/// assert_eq!(flow.in_flight(), 12_000);
///
/// now += Duration::from_millis(40);
/// flow.on_acked(now, 0..number, Duration::ZERO);
/// assert_eq!(flow.round_trips().latest(), Some(Duration::from_millis(40)));
/// assert_eq!(flow.allowance(), 24_000, "slow start doubles the window");
/// ```
#[derive(Clone, Debug)]
pub struct Flow {
    /// Controller that decides window and pacing rate.
    controller: Box<dyn Controller>,
    /// Statistics of round trips.
    round_trips: RoundTrips,
    /// Limits of the controller, kept so that a packet does not touch the controller's memory; `None` where
    /// each packet may change the limits.
    limits: Option<Limits>,
    /// The packets that are neither acknowledged nor lost yet, with what was known when each left.
    in_flight: InFlight,
    /// Whether the next packet leaves with other knowledge than the one before.
    has_news: bool,
    /// Counters since the beginning.
    totals: Totals,
    /// When `totals.delivered` last rose.
    delivered_at: Option<Instant>,
    /// When the newest delivered packet was sent: the next send interval begins there.
    flight_began: Option<Instant>,
    /// The newest delivered packet; unlike `flight_began` it is not reset after an idle
    /// period.
    newest_delivered: Option<DeliveredPacket>,
    /// Bytes delivered in all up to which rates are limited by the application.
    app_limited_until: Option<u64>,
    /// When the application began to have more to send than the path took; `None` while it
    /// has nothing to send.
    backlogged_since: Option<Instant>,
    /// Delivery rates of the last second, in bytes/s.
    delivery: Windowed<f64, Largest>,
    /// Detects that the path is the limit although the application had little to send.
    trend: Trend,
    /// Whether the trend says that the path is the limit, whatever the application had to
    /// send.
    path_limited: bool,
    /// Lost packets that may still arrive, oldest first.
    lost_packets: VecDeque<LostPacket>,
    /// When the controller was last told of marks.
    marked_at: Option<Instant>,
    /// Buffer for an acknowledgement's packets; kept for its allocation.
    acked: Vec<Acked>,
}

/// A packet that was declared lost and may still arrive.
#[derive(Clone, Copy, Debug)]
struct LostPacket {
    /// Number of the packet.
    number: u64,
    /// When the packet was sent.
    sent: Instant,
    /// Size of the packet, in bytes.
    bytes: u64,
}

/// The window and the pacing rate of a controller, which stay until its state changes.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Congestion window in bytes.
    window: u64,
    /// Pacing rate; `None` before the first round trip.
    pacing: Option<Bitrate>,
}

/// The newest packet of an acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Newest {
    /// Number of the packet.
    number: u64,
    /// The packet, as it was sent.
    packet: Packet,
}

impl Flow {
    /// Returns a flow that has sent nothing yet.
    pub fn new(controller: Box<dyn Controller>) -> Self {
        Self {
            controller,
            round_trips: RoundTrips::new(),
            limits: None,
            in_flight: InFlight::default(),
            has_news: true,
            totals: Totals::default(),
            delivered_at: None,
            flight_began: None,
            newest_delivered: None,
            app_limited_until: None,
            backlogged_since: None,
            delivery: Windowed::new(DELIVERY_WINDOW),
            trend: Trend::default(),
            path_limited: false,
            lost_packets: VecDeque::new(),
            marked_at: None,
            acked: Vec::new(),
        }
    }

    /// Records that packet `number` of `bytes` was sent at `now`. Numbers may be left out;
    /// one not above the last is ignored.
    pub fn on_sent(&mut self, now: Instant, number: u64, bytes: u64) {
        if !self.in_flight.is_new(number) {
            return;
        }
        if self.in_flight.bytes() == 0 {
            // Nothing was in flight: idle time must not count as sending time.
            self.flight_began = Some(now);
            self.delivered_at = Some(now);
            self.has_news = true;
        }
        if std::mem::take(&mut self.has_news) {
            self.in_flight.depart(Departure {
                delivered: self.totals.delivered,
                delivered_at: self.delivered_at.unwrap_or(now),
                flight_began: self.flight_began.unwrap_or(now),
                newest_delivered: self.newest_delivered,
                lost: self.totals.lost,
                app_limited: self.app_limited_until.is_some(),
            });
        }
        let size = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.totals.sent += u64::from(size);
        self.in_flight.push(number, now, size, self.totals.sent);
        if self.limits.is_none() {
            let in_flight = self.in_flight.bytes();
            self.controller.on_sent(now, u64::from(size), in_flight);
        }
    }

    /// Takes the knowledge that the path carries `rate`.
    pub fn on_proven(&mut self, now: Instant, rate: Bitrate) {
        self.controller.on_proven(now, rate);
        self.keep_limits();
    }

    /// Records that the application has nothing to send although window and pacing allow
    /// it.
    pub fn on_app_limited(&mut self) {
        self.backlogged_since = None;
        self.limit_rates();
    }

    /// Marks the rates of what is in flight as lower bounds of the path's.
    fn limit_rates(&mut self) {
        self.has_news |= self.app_limited_until.is_none();
        let until = self.totals.delivered + self.in_flight.bytes();
        self.app_limited_until = Some(until.max(1));
    }

    /// Handles an acknowledgement that came at `now`. `numbers`: packets that arrived, in
    /// any order; repeated ones are ignored. `peer_delay`: time that the peer delayed the
    /// acknowledgement, which is deducted from the round trip as long as that stays above
    /// the smallest one.
    pub fn on_acked(
        &mut self,
        now: Instant,
        numbers: impl IntoIterator<Item = u64>,
        peer_delay: Duration,
    ) {
        self.forget_old_losses(now);
        let in_flight_before = self.in_flight.bytes();
        let mut newest: Option<Newest> = None;
        let mut was_spurious = false;
        self.acked.clear();
        for number in numbers {
            if let Some(packet) = self.in_flight.settle(number) {
                self.totals.delivered += packet.bytes();
                let departure = self.in_flight.departure_of(&packet);
                self.acked.push(Acked {
                    sent: packet.sent,
                    bytes: packet.bytes(),
                    delivered_before: departure.map_or(0, |it| it.delivered),
                });
                if newest.is_none_or(|newest| newest.number < number) {
                    newest = Some(Newest { number, packet });
                }
            } else if let Some(place) = self.lost_packets.iter().position(|it| it.number == number)
            {
                let arrived = self.lost_packets.remove(place);
                self.totals.spurious += arrived.map_or(0, |it| it.bytes);
                was_spurious = true;
            }
        }
        if was_spurious && self.lost_packets.is_empty() {
            self.controller.on_spurious_loss(now);
            self.keep_limits();
        }
        let Some(Newest { packet, .. }) = newest else {
            return;
        };
        let Some(departure) = self.in_flight.departure_of(&packet).copied() else {
            return;
        };
        self.acked.sort_unstable_by_key(|acked| acked.sent);
        self.has_news = true;
        self.delivered_at = Some(now);
        self.flight_began = Some(packet.sent);
        self.newest_delivered = Some(DeliveredPacket {
            sent: packet.sent,
            sent_total: packet.sent_total,
            acknowledged: now,
        });
        let until = self.app_limited_until;
        if until.is_some_and(|until| self.totals.delivered > until) {
            self.app_limited_until = None;
        }
        let rtt = now.saturating_duration_since(packet.sent);
        let least = self.round_trips.least().unwrap_or(Duration::ZERO);
        let rtt = rtt.saturating_sub(peer_delay).max(least.min(rtt));
        self.round_trips.record(rtt, now);
        let rate = self.sample(&packet, &departure, now);
        let carried = self.trend.observe(now, rtt, &self.totals);
        self.path_limited = carried.is_some();
        if let Some(carried) = carried {
            self.delivery.record(carried, now);
        }
        let bytes = self.acked.iter().map(|acked| acked.bytes).sum();
        let since = *self.backlogged_since.get_or_insert(now);
        self.controller.on_ack(&Ack {
            now,
            packets: &self.acked,
            bytes,
            in_flight: self.in_flight.bytes(),
            in_flight_before,
            rtt: Some(rtt),
            round_trips: &self.round_trips,
            rate,
            backlogged: now.saturating_duration_since(since),
        });
        if self.controller.is_holding_back() {
            self.limit_rates();
        }
        self.keep_limits();
    }

    /// Returns the delivery rate sample at `packet` (draft-cheng §3.3), and records the
    /// rate.
    fn sample(&mut self, packet: &Packet, departure: &Departure, now: Instant) -> RateSample {
        let sending = packet
            .sent
            .saturating_duration_since(departure.flight_began);
        let acknowledging = now.saturating_duration_since(departure.delivered_at);
        let rate = RateSample {
            delivered: self.totals.delivered - departure.delivered,
            interval: sending.max(acknowledging),
            intervals: departure.newest_delivered.map(|before| SampleIntervals {
                sent: packet.sent_total - before.sent_total,
                sending: packet.sent.saturating_duration_since(before.sent),
                acknowledging: now.saturating_duration_since(before.acknowledged),
            }),
            app_limited: departure.app_limited,
            delivered_total: self.totals.delivered,
            delivered_before: departure.delivered,
            lost_total: self.totals.lost,
            lost_before: departure.lost,
        };
        let least = self.round_trips.least().unwrap_or(Duration::ZERO);
        if let Some(found) = rate.bytes_per_second(least)
            && (!rate.app_limited || self.delivery.get().is_none_or(|known| found > known))
        {
            self.delivery.record(found, now);
        }
        rate
    }

    /// Handles packets that the transport detected as lost. `persistent`: nothing came
    /// through for as long as RFC 9002 §7.6 says.
    pub fn on_lost(
        &mut self,
        now: Instant,
        numbers: impl IntoIterator<Item = u64>,
        persistent: bool,
    ) {
        let mut bytes = 0;
        let mut newest_sent = None;
        let mut found = Vec::new();
        for number in numbers {
            if let Some(packet) = self.in_flight.settle(number) {
                bytes += packet.bytes();
                newest_sent = newest_sent.max(Some(packet.sent));
                found.push(LostPacket {
                    number,
                    sent: packet.sent,
                    bytes: packet.bytes(),
                });
            }
        }
        let Some(newest_sent) = newest_sent else {
            return;
        };
        self.has_news = true;
        self.totals.lost += bytes;
        self.lost_packets.extend(found);
        while self.lost_packets.len() > LOST_PACKETS_MAX {
            self.lost_packets.pop_front();
        }
        self.controller.on_loss(&Loss {
            now,
            newest_sent,
            bytes,
            in_flight: self.in_flight.bytes(),
            persistent,
            delivered_total: self.totals.delivered,
            lost_total: self.totals.lost,
        });
        self.keep_limits();
    }

    /// Handles a transport's discovery that all packets of its latest loss had arrived, for
    /// transports that forget the numbers of lost packets.
    pub fn on_spurious_loss(&mut self, now: Instant) {
        self.forget_old_losses(now);
        let arrived: u64 = self.lost_packets.drain(..).map(|it| it.bytes).sum();
        self.totals.spurious += arrived;
        self.controller.on_spurious_loss(now);
        self.keep_limits();
    }

    /// Forgets lost packets that were sent more than two probe time-outs (RFC 9002 §6.2.1)
    /// ago and will not arrive any more.
    fn forget_old_losses(&mut self, now: Instant) {
        let trips = &self.round_trips;
        let smoothed = trips.smoothed().unwrap_or(FIRST_ROUND_TRIP);
        let lifetime = (smoothed + trips.variation().unwrap_or(smoothed) * 4) * 2;
        let is_over = |it: &LostPacket| now.saturating_duration_since(it.sent) > lifetime;
        while self.lost_packets.front().is_some_and(is_over) {
            self.lost_packets.pop_front();
        }
    }

    /// Removes packets that will be neither acknowledged nor lost: their keys or their path
    /// are gone.
    pub fn on_discarded(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.in_flight.settle(number);
        }
    }

    /// Handles packets that arrived with a congestion mark (ECN-CE).
    pub fn on_marked(&mut self, now: Instant) {
        let round_trip = self.round_trips.smoothed().unwrap_or(FIRST_ROUND_TRIP);
        let soon = |at: Instant| now.saturating_duration_since(at) < round_trip;
        if !self.marked_at.is_some_and(soon) {
            self.marked_at = Some(now);
            self.controller.on_marked(now, self.in_flight.bytes());
            self.keep_limits();
        }
    }

    /// Sets the size of datagrams, in bytes.
    pub fn on_mtu(&mut self, bytes: u64) {
        self.controller.on_mtu(bytes);
        self.keep_limits();
    }

    /// Keeps the limits of the controller, whose state has changed.
    fn keep_limits(&mut self) {
        self.limits = (!self.controller.heeds_sending()).then(|| Limits {
            window: self.controller.window(),
            pacing: self.controller.pacing_rate(),
        });
    }

    /// Returns the bytes that the window allows to be sent now.
    pub fn allowance(&self) -> u64 {
        self.window().saturating_sub(self.in_flight.bytes())
    }

    /// Returns the congestion window: most bytes that may be in flight.
    pub fn window(&self) -> u64 {
        let kept = self.limits.map(|it| it.window);
        kept.unwrap_or_else(|| self.controller.window())
    }

    /// Returns the bytes in flight.
    pub const fn in_flight(&self) -> u64 {
        self.in_flight.bytes()
    }

    /// Returns the pacing rate; `None` before the first round trip is known.
    pub fn pacing_rate(&self) -> Option<Bitrate> {
        let kept = self.limits.map(|it| it.pacing);
        kept.unwrap_or_else(|| self.controller.pacing_rate())
    }

    /// Returns the rate that the path can probably sustain, for an encoder to follow: the
    /// controller's value, otherwise the best rate that was measured in the last second in
    /// which the path was the limit. `None` before any measurement.
    pub fn deliverable_rate(&self) -> Option<Bitrate> {
        let measured = || self.delivery.get().map(bitrate);
        self.controller.deliverable_rate().or_else(measured)
    }

    /// Whether the application limited what was sent lately, so that
    /// [`deliverable_rate`](Self::deliverable_rate) may be too low.
    pub const fn is_app_limited(&self) -> bool {
        self.app_limited_until.is_some() && !self.path_limited
    }

    /// Returns the statistics of round trips.
    pub const fn round_trips(&self) -> &RoundTrips {
        &self.round_trips
    }

    /// Returns the counters since the beginning.
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    /// Reads a part of what sending and feedback read, to load the memory into the processor's cache. The
    /// returned number has no meaning.
    pub fn prefetch(&self) -> u64 {
        self.in_flight.prefetch() ^ self.totals.sent ^ self.totals.lost ^ self.window()
    }

    /// Returns the controller that decides for this flow.
    pub fn controller(&self) -> &dyn Controller {
        &*self.controller
    }
}

/// Converts bytes/s to a rate.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates are positive and far below 2^52"
)]
pub(crate) fn bitrate(bytes_per_second: f64) -> Bitrate {
    Bitrate::from_bps((bytes_per_second * 8.0) as u64)
}
