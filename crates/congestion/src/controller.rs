use std::fmt;
use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use crate::RoundTrips;

/// Decides how much may be in flight and how fast it leaves.
///
/// Windows and sizes are bytes of packets as the transport counts them.
pub trait Controller: fmt::Debug + Send + Sync {
    /// A packet of `bytes` left at `now`; `in_flight` counts it.
    fn on_sent(&mut self, _now: Instant, _bytes: u64, _in_flight: u64) {}

    /// An acknowledgement came that covers something new.
    fn on_ack(&mut self, ack: &Ack<'_>);

    /// Packets were found to be lost.
    fn on_loss(&mut self, loss: &Loss);

    /// Retransmission timeouts in a row after which the transport reports the loss as
    /// [persistent](Loss::persistent): three, which tell a silent path from a late
    /// answer, unless the algorithm's standard says otherwise.
    fn timeouts_until_persistent(&self) -> u32 {
        3
    }

    /// The packets of the latest [`on_loss`](Self::on_loss) had all arrived after
    /// all: it may be undone.
    fn on_spurious_loss(&mut self, _now: Instant) {}

    /// Routers marked packets instead of dropping them (ECN-CE, RFC 3168); told at
    /// most once a round trip.
    fn on_marked(&mut self, now: Instant, in_flight: u64);

    /// The path takes datagrams of `bytes` now.
    fn on_mtu(&mut self, bytes: u64);

    /// Most bytes that may be in flight.
    fn window(&self) -> u64;

    /// How fast packets should leave; `None` while nobody knows a round trip.
    fn pacing_rate(&self) -> Option<Bitrate>;

    /// What the path is believed to carry for long, for an encoder to follow;
    /// `None` leaves it to the flow's own measurement. Never the window over the
    /// round trip, which a queue makes meaningless.
    fn deliverable_rate(&self) -> Option<Bitrate> {
        None
    }

    /// In slow start, or what corresponds to it.
    fn is_starting(&self) -> bool;

    /// Sends less than it believes the path to carry, to look at something else: what
    /// is delivered meanwhile says nothing of the path.
    fn is_holding_back(&self) -> bool {
        false
    }

    /// What it believes of the path; nothing unless it models it.
    fn verdict(&self) -> Verdict {
        Verdict::default()
    }

    /// Another one in the same state: a transport whose peer took a new port goes on
    /// from it (RFC 9000 §9.4).
    fn clone_box(&self) -> Box<dyn Controller>;
}

impl Clone for Box<dyn Controller> {
    fn clone(&self) -> Self {
        self.as_ref().clone_box()
    }
}

/// What a controller believes of its path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Verdict {
    /// A policer drops what is above its rate.
    pub policed: bool,
    /// Others keep the queue full.
    pub competing: bool,
    /// The share of packets that is lost whatever the rate, 0 to 1.
    pub loss_floor: f64,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// When it came.
    pub now: Instant,
    /// What it covers that was not covered before, in order of sending.
    pub packets: &'a [Acked],
    /// Bytes of those.
    pub bytes: u64,
    /// Bytes still in flight, those not counted.
    pub in_flight: u64,
    /// Bytes that were in flight before it.
    pub in_flight_before: u64,
    /// The round trip of its newest packet, if that one is newly covered.
    pub rtt: Option<Duration>,
    /// All round trips so far, this one counted.
    pub round_trips: &'a RoundTrips,
    /// How fast it shows the path to deliver.
    pub rate: RateSample,
}

/// A packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// When it left.
    pub sent: Instant,
    /// Its size.
    pub bytes: u64,
    /// Bytes that were delivered before it left.
    pub delivered_before: u64,
}

/// How fast the path delivered what the newest packet of an acknowledgement saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Bytes delivered in `interval` on behalf of that packet; no rate follows from
    /// an interval shorter than the least round trip.
    pub delivered: u64,
    /// The longer of the time to send and the time to be acknowledged.
    pub interval: Duration,
    /// The two times apart; `None` before anything was delivered.
    pub apart: Option<Apart>,
    /// The rate is the application's, not the path's.
    pub app_limited: bool,
    /// Bytes delivered in all.
    pub delivered_total: u64,
    /// Bytes delivered before that packet left: rounds are counted by it.
    pub delivered_before: u64,
    /// Bytes lost in all.
    pub lost_total: u64,
    /// Bytes that were lost before that packet left.
    pub lost_before: u64,
}

impl RateSample {
    /// Bytes a second; `None` if the interval is too short to tell.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 bytes")]
    pub fn bytes_per_second(&self, least_rtt: Duration) -> Option<f64> {
        let reliable = self.interval >= least_rtt && !self.interval.is_zero();
        reliable.then(|| self.delivered as f64 / self.interval.as_secs_f64())
    }

    /// Bytes a second by the faster of sending and being acknowledged, which is often
    /// more than the path carries; `None` if neither took any time.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 bytes")]
    pub fn fastest_bytes_per_second(&self) -> Option<f64> {
        let rate = |bytes: u64, time: Duration| {
            let took_time = !time.is_zero();
            took_time.then(|| bytes as f64 / time.as_secs_f64())
        };
        let Some(apart) = self.apart else {
            return rate(self.delivered, self.interval);
        };
        let sent = rate(apart.sent, apart.sending);
        let acknowledged = rate(self.delivered, apart.acknowledging);
        match (sent, acknowledged) {
            (Some(sent), Some(acknowledged)) => Some(sent.max(acknowledged)),
            (either, other) => either.or(other),
        }
    }
}

/// What passed from the newest packet that had been delivered when another left until
/// that one was, silence counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// Bytes sent between the two.
    pub sent: u64,
    /// Time between their leaving.
    pub sending: Duration,
    /// Time between their being acknowledged.
    pub acknowledging: Duration,
}

/// Packets found to be lost together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// When that was found.
    pub now: Instant,
    /// When the newest of them left.
    pub newest_sent: Instant,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes still in flight, those not counted.
    pub in_flight: u64,
    /// Nothing at all arrived for so long that the path is as good as new (RFC 9002
    /// §7.6).
    pub persistent: bool,
    /// Bytes delivered in all.
    pub delivered_total: u64,
    /// Bytes lost in all, these counted.
    pub lost_total: u64,
}
