//! Figures of one upload.

use serde::{Deserialize, Serialize};

/// Figures of one session. Rates are in 10⁶ bit/s over the time from the first frame to the
/// session's end, even if the connection broke before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Time from the first packet until the first frame, in ms; `None` if the connection was
    /// never established.
    pub setup_ms: Option<f64>,
    /// Time in seconds at which the connection broke, from the first packet, and the reason.
    pub broken: Option<(f64, String)>,
    /// Application bytes that the server read in order; retransmitted bytes count once, QUIC's
    /// headers do not count.
    pub goodput_mbps: f64,
    /// Application bytes that were passed to the transport; the study calls this goodput.
    pub sent_mbps: f64,
    /// Mean bitrate that the encoder was set to.
    pub bitrate_mbps: f64,
    /// Mean over the pings, from queueing a ping behind the frames to its answer, with the
    /// constant processing time. A ping without an answer at the end counts with its age, so that
    /// the true mean is at least this.
    pub app_rtt_ms: f64,
    /// Number of pings that were answered.
    pub pings_answered: u64,
    /// Number of pings that were not answered. A ping whose group was dropped counts in
    /// `app_rtt_ms` with the time until the answer to a later one.
    pub pings_unanswered: u64,
    /// Round-trip times of the transport over acknowledgements: from sending the newest packet
    /// that an acknowledgement covers for the first time until its arrival, with the receiver's
    /// delay.
    pub transport_rtt_ms: Spread,
    /// Stream bytes that were sent more than once ÷ stream bytes acknowledged; may exceed 1.
    /// Counted in the packets' plaintext, so the figure is exact.
    pub rtx_overhead: f64,
    /// Stream bytes that were declared lost and arrived ÷ stream bytes acknowledged. Nearly all
    /// of their spurious retransmissions are also in `rtx_overhead`.
    pub spurious_overhead: f64,
    /// Bytes of QUIC packets declared lost ÷ bytes of packets acknowledged: the figure of a
    /// transport that does not count retransmitted bytes.
    pub lost_overhead: f64,
    /// Share of the publisher's datagrams that never arrived.
    pub loss_ratio: f64,
    /// Time that the publisher's datagrams waited in the bottleneck's queue, of those that
    /// arrived.
    pub queue_ms: Spread,
    /// Number of the publisher's datagrams that were dropped because the queue was full.
    pub dropped_datagrams: u64,
    /// Number of the publisher's datagrams that a policer dropped.
    pub policed_datagrams: u64,
    /// Time from the policer's first drop until the controller concluded that the path is
    /// policed, in seconds; 0 if it concluded so before. Without drops, from the session's start.
    /// `None` if it never concluded so.
    pub policed_after_s: Option<f64>,
    /// Number of groups that were reset because they were late or too large.
    pub dropped_groups: u64,
    /// Application bytes of those groups that were dropped.
    pub dropped_bytes: u64,
    /// Largest number of application bytes that were made and not acknowledged.
    pub backlog_bytes_max: u64,
    /// Number of packets with frames that the parser does not know; their content is missing in
    /// the figures above.
    pub unread_packets: u64,
    /// Goodput of each competing flow while it sent.
    pub competitors_mbps: Vec<f64>,
    /// Number of datagrams that arrived at either end.
    pub events: u64,
    /// Digest over times, sizes and decisions. Runs that took the same course have the same
    /// digest.
    pub digest: u64,
}

/// Mean and percentiles of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Mean; 0 without values.
    pub mean: f64,
    /// Median of the values.
    pub p50: f64,
    /// 95th percentile of the values.
    pub p95: f64,
}

impl Spread {
    /// The spread in ms of `micros`, which are in µs.
    pub(in crate::congestion) fn of_micros(mut micros: Vec<u32>) -> Self {
        if micros.is_empty() {
            return Self::default();
        }
        let sum: u64 = micros.iter().map(|it| u64::from(*it)).sum();
        let mut quantile = |percent: usize| {
            let rank = (micros.len() * percent).div_ceil(100).max(1) - 1;
            f64::from(*micros.select_nth_unstable(rank).1) / 1000.0
        };
        let (p50, p95) = (quantile(50), quantile(95));
        Self {
            mean: sum as f64 / micros.len() as f64 / 1000.0,
            p50,
            p95,
        }
    }
}

/// State of a session at one point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Time since the first packet, in seconds.
    pub at_s: f64,
    /// Application bytes that the server read since the sample before, as a rate.
    pub goodput_mbps: f64,
    /// Bytes in the bottleneck's queue.
    pub queue_bytes: u64,
    /// Time that a datagram would wait in the queue.
    pub queue_ms: f64,
    /// Congestion window of the publisher.
    pub window_bytes: u64,
    /// Bytes in flight of the publisher.
    pub in_flight_bytes: u64,
    /// Pacing rate of the publisher.
    pub pacing_mbps: f64,
    /// Rate that the controller believes the path can carry.
    pub deliverable_mbps: f64,
    /// Bitrate that the encoder is set to.
    pub bitrate_mbps: f64,
    /// Application bytes made and not acknowledged.
    pub backlog_bytes: u64,
    /// Smoothed round-trip time of the transport.
    pub rtt_ms: f64,
}
