//! Outcome of one session under one arm.

use serde::{Deserialize, Serialize};

/// Outcome of one session under one arm. Names and units are those of the report; [`Metric`] has
/// the study's definitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the stratum: the kind of network.
    pub stratum: String,
    /// Number of the session within its stratum, from 0.
    pub rank: u64,
    /// Name of the arm.
    pub arm: String,
    /// Application bytes that the server received in order, over the session's time.
    pub goodput_mbps: f64,
    /// Application bytes that were passed to the transport, over the same time; the study calls
    /// this goodput.
    pub sent_mbps: f64,
    /// Mean bitrate that the encoder was set to.
    pub bitrate_mbps: f64,
    /// Mean round-trip time of the application's pings.
    pub app_rtt_ms: f64,
    /// Pings without an answer when the session ended; they count with their age.
    pub unanswered_pings: u64,
    /// Mean of the transport's round-trip times, over acknowledgements.
    pub transport_rtt_ms: f64,
    /// 95th percentile of the transport's round-trip times, over acknowledgements.
    pub transport_rtt_p95_ms: f64,
    /// Median wait in the path's queue.
    pub queue_p50_ms: f64,
    /// 95th percentile of the wait in the path's queue.
    pub queue_p95_ms: f64,
    /// Retransmitted bytes divided by acknowledged bytes.
    pub rtx_overhead: f64,
    /// Bytes that were retransmitted though their first transmission arrived, divided by
    /// acknowledged bytes.
    pub spurious_ratio: f64,
    /// Bytes of frames that were dropped before they were sent.
    pub dropped_bytes: u64,
    /// Goodput of the competing flows, if there were any.
    pub competitor_mbps: Option<f64>,
    /// Whether the path had a policer.
    pub has_policer: bool,
    /// Datagrams that the policer dropped.
    pub policer_drops: u64,
    /// Time from the policer's first drop until the controller concluded that the path is
    /// policed, in seconds; without drops, from the session's begin.
    pub policed_after_s: Option<f64>,
    /// Whether the connection was lost before the session's end; the missing rest counts against
    /// the arm.
    pub died: bool,
}

impl Outcome {
    /// Stratum and rank, which identify a session within its population.
    pub fn session(&self) -> (&str, u64) {
        (&self.stratum, self.rank)
    }
}

/// A figure by which arms are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Application bytes delivered in order; retransmitted bytes count once.
    Goodput,
    /// Time from queueing a ping behind the application's waiting frames until its answer.
    AppRtt,
    /// Time from sending a packet to the acknowledgement whose newest packet it is, including the
    /// peer's delay.
    TransportRtt,
    /// Retransmitted bytes divided by acknowledged bytes.
    RtxOverhead,
}

impl Metric {
    /// Every metric, in the order of the study.
    pub const ALL: [Self; 4] = [
        Self::AppRtt,
        Self::Goodput,
        Self::TransportRtt,
        Self::RtxOverhead,
    ];

    /// Returns the metric's name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput_mbps",
            Self::AppRtt => "app_rtt_ms",
            Self::TransportRtt => "transport_rtt_ms",
            Self::RtxOverhead => "rtx_overhead",
        }
    }

    /// Returns the metric's name for people to read.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Goodput => "Goodput, Mbit/s",
            Self::AppRtt => "Application round trip, ms",
            Self::TransportRtt => "Transport round trip, ms",
            Self::RtxOverhead => "Retransmission overhead, %",
        }
    }

    /// Percentiles that are reported.
    pub const fn percentiles(self) -> [u32; 6] {
        match self {
            Self::RtxOverhead => [25, 50, 75, 90, 95, 99],
            _ => [10, 25, 50, 75, 90, 95],
        }
    }

    /// Percentiles whose changes the study reports or that have a promise; their p-values are
    /// corrected for their number.
    pub const fn headlines(self) -> &'static [u32] {
        match self {
            Self::Goodput => &[10, 50],
            Self::AppRtt => &[50, 90],
            Self::TransportRtt => &[75, 95],
            Self::RtxOverhead => &[75, 90, 95, 99],
        }
    }

    /// Whether less is better.
    pub const fn is_cost(self) -> bool {
        !matches!(self, Self::Goodput)
    }

    /// The metric's value of one session.
    pub const fn of(self, outcome: &Outcome) -> f64 {
        match self {
            Self::Goodput => outcome.goodput_mbps,
            Self::AppRtt => outcome.app_rtt_ms,
            Self::TransportRtt => outcome.transport_rtt_ms,
            Self::RtxOverhead => outcome.rtx_overhead,
        }
    }
}

/// A session like any other.
#[cfg(test)]
pub(crate) fn example(rank: u64, arm: &str, stratum: &str) -> Outcome {
    Outcome {
        stratum: stratum.to_owned(),
        rank,
        arm: arm.to_owned(),
        goodput_mbps: 2.0,
        sent_mbps: 2.0,
        bitrate_mbps: 2.1,
        app_rtt_ms: 400.0,
        unanswered_pings: 0,
        transport_rtt_ms: 120.0,
        transport_rtt_p95_ms: 180.0,
        queue_p50_ms: 20.0,
        queue_p95_ms: 60.0,
        rtx_overhead: 0.01,
        spurious_ratio: 0.0,
        dropped_bytes: 0,
        competitor_mbps: None,
        has_policer: false,
        policer_drops: 0,
        policed_after_s: None,
        died: false,
    }
}
