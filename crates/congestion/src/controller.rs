use std::fmt;
use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use crate::RoundTrips;

/// A congestion controller: decides how many bytes may be in flight and how fast packets
/// leave.
///
/// Windows and sizes are bytes of packets as the transport counts them.
pub trait Controller: fmt::Debug + Send + Sync {
    /// Handles a packet of `bytes` that was sent at `now`. `in_flight`: bytes in flight,
    /// this packet included.
    fn on_sent(&mut self, _now: Instant, _bytes: u64, _in_flight: u64) {}

    /// Whether [`on_sent`](Self::on_sent) does something in the present state. Otherwise the flow leaves the call
    /// out, and window and pacing rate stay until another call. A controller with that method says true.
    fn heeds_sending(&self) -> bool {
        false
    }

    /// Handles an acknowledgement that covers something new.
    fn on_ack(&mut self, ack: &Ack<'_>);

    /// Handles packets that were detected as lost.
    fn on_loss(&mut self, loss: &Loss);

    /// Returns the retransmission time-outs in a row after which the transport reports the
    /// loss as [persistent](Loss::persistent). Three distinguish a silent path from a late
    /// acknowledgement; an algorithm's standard may say otherwise.
    fn timeouts_until_persistent(&self) -> u32 {
        3
    }

    /// Handles the discovery that all packets of the latest [`on_loss`](Self::on_loss) had
    /// arrived: the reaction may be undone.
    fn on_spurious_loss(&mut self, _now: Instant) {}

    /// Handles the knowledge, from a test beside the controller's own, that the path carries `rate` without a
    /// queue and without losses.
    fn on_proven(&mut self, _now: Instant, _rate: Bitrate) {}

    /// Handles packets that routers marked instead of dropping (ECN-CE, RFC 3168); called
    /// at most once per round trip.
    fn on_marked(&mut self, now: Instant, in_flight: u64);

    /// Sets the size of datagrams, in bytes.
    fn on_mtu(&mut self, bytes: u64);

    /// Returns the congestion window: most bytes that may be in flight.
    fn window(&self) -> u64;

    /// Returns the pacing rate; `None` before the first round trip is known.
    fn pacing_rate(&self) -> Option<Bitrate>;

    /// Returns the rate that the path can probably sustain, for an encoder to follow;
    /// `None` leaves it to the flow's own measurement. Never the window divided by the
    /// round trip, which a queue makes meaningless.
    fn deliverable_rate(&self) -> Option<Bitrate> {
        None
    }

    /// Whether the controller is in slow start, or what corresponds to it.
    fn is_starting(&self) -> bool;

    /// Whether the controller sends less than it believes the path to carry, to measure
    /// something else. What is delivered meanwhile says nothing about the path.
    fn is_holding_back(&self) -> bool {
        false
    }

    /// Returns what the controller has concluded about the path; the default says nothing.
    fn path_model(&self) -> PathModel {
        PathModel::default()
    }

    /// Returns a copy in the same state, for a transport whose peer took a new port (RFC
    /// 9000 §9.4).
    fn clone_box(&self) -> Box<dyn Controller>;
}

impl Clone for Box<dyn Controller> {
    fn clone(&self) -> Self {
        self.as_ref().clone_box()
    }
}

/// The model that a controller has of its path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PathModel {
    /// Whether a policer drops packets above its rate.
    pub policed: bool,
    /// Whether other flows keep the queue full.
    pub competing: bool,
    /// Share of packets that is lost whatever the rate, 0 to 1.
    pub loss_floor: f64,
}

/// An acknowledgement, as a [`Flow`](crate::Flow) presents it to a controller.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// When the acknowledgement came.
    pub now: Instant,
    /// Newly acknowledged packets, in the order of sending.
    pub packets: &'a [Acked],
    /// Bytes of the newly acknowledged packets.
    pub bytes: u64,
    /// Bytes in flight after the acknowledgement.
    pub in_flight: u64,
    /// Bytes in flight before the acknowledgement.
    pub in_flight_before: u64,
    /// Round-trip time of its newest packet, if that one is newly acknowledged.
    pub rtt: Option<Duration>,
    /// Statistics of all round trips so far, including this one.
    pub round_trips: &'a RoundTrips,
    /// Delivery rate that the acknowledgement shows.
    pub rate: RateSample,
    /// Time for which the application has had more to send than was sent, without a break.
    pub backlogged: Duration,
}

/// A packet that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// When the packet was sent.
    pub sent: Instant,
    /// Size of the packet, in bytes.
    pub bytes: u64,
    /// Bytes that had been delivered in all when the packet was sent.
    pub delivered_before: u64,
}

/// A delivery rate sample, taken at the newest packet of an acknowledgement
/// (draft-cheng-iccrg-delivery-rate-estimation-02 §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Bytes delivered in `interval`. An interval shorter than the smallest round trip
    /// gives no valid rate.
    pub delivered: u64,
    /// The longer of the send interval and the acknowledgement interval.
    pub interval: Duration,
    /// The two intervals separately; `None` before anything was delivered.
    pub intervals: Option<SampleIntervals>,
    /// Whether the application, not the path, limited the rate.
    pub app_limited: bool,
    /// Bytes delivered since the beginning.
    pub delivered_total: u64,
    /// Bytes that had been delivered when the packet was sent; controllers count rounds by
    /// it.
    pub delivered_before: u64,
    /// Bytes lost since the beginning.
    pub lost_total: u64,
    /// Bytes that had been lost when the packet was sent.
    pub lost_before: u64,
}

impl RateSample {
    /// Returns the rate in bytes/s; `None` if the interval is shorter than `least_rtt`, the
    /// smallest round trip.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 bytes")]
    pub fn bytes_per_second(&self, least_rtt: Duration) -> Option<f64> {
        let reliable = self.interval >= least_rtt && !self.interval.is_zero();
        reliable.then(|| self.delivered as f64 / self.interval.as_secs_f64())
    }

    /// Returns the faster of the send rate and the acknowledgement rate in bytes/s, which
    /// is often more than the path carries; `None` if both intervals are zero.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 bytes")]
    pub fn fastest_bytes_per_second(&self) -> Option<f64> {
        let rate = |bytes: u64, time: Duration| {
            let took_time = !time.is_zero();
            took_time.then(|| bytes as f64 / time.as_secs_f64())
        };
        let Some(intervals) = self.intervals else {
            return rate(self.delivered, self.interval);
        };
        let sent = rate(intervals.sent, intervals.sending);
        let acknowledged = rate(self.delivered, intervals.acknowledging);
        match (sent, acknowledged) {
            (Some(sent), Some(acknowledged)) => Some(sent.max(acknowledged)),
            (either, other) => either.or(other),
        }
    }
}

/// Send and acknowledgement intervals from the newest packet that had been delivered when
/// another packet was sent, to that packet. Idle time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleIntervals {
    /// Bytes sent between the two packets.
    pub sent: u64,
    /// Time between the sending of the two packets.
    pub sending: Duration,
    /// Time between the acknowledgements of the two packets.
    pub acknowledging: Duration,
}

/// Packets that were detected as lost together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// When the loss was detected.
    pub now: Instant,
    /// When the newest lost packet was sent.
    pub newest_sent: Instant,
    /// Bytes of the lost packets.
    pub bytes: u64,
    /// Bytes in flight after the lost packets were removed.
    pub in_flight: u64,
    /// Whether nothing arrived for so long that the path counts as new: persistent
    /// congestion (RFC 9002 §7.6).
    pub persistent: bool,
    /// Bytes delivered since the beginning.
    pub delivered_total: u64,
    /// Bytes lost since the beginning, these included.
    pub lost_total: u64,
}
