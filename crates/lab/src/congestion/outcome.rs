//! What one session came to under one arm.

use serde::{Deserialize, Serialize};

/// One session under one arm. Names and units are those of the report; the study's
/// definitions of its figures stand at [`Metric`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What kind of network.
    pub stratum: String,
    /// Which session of that kind, from 0.
    pub rank: u64,
    /// Which arm.
    pub arm: String,
    /// Application bytes that the server had in order, over the session's time.
    pub goodput_mbps: f64,
    /// Application bytes that were given to the transport, over the same time: what
    /// the study calls goodput.
    pub sent_mbps: f64,
    /// Mean of what the encoder was told to make.
    pub bitrate_mbps: f64,
    /// Mean round trip of the application's pings.
    pub app_rtt_ms: f64,
    /// Pings that were not answered when the session ended; they count with their
    /// age.
    pub unanswered_pings: u64,
    /// Mean over acknowledgements.
    pub transport_rtt_ms: f64,
    /// 95th percentile over acknowledgements.
    pub transport_rtt_p95_ms: f64,
    /// Median wait in the path's queue.
    pub queue_p50_ms: f64,
    /// 95th percentile of it.
    pub queue_p95_ms: f64,
    /// Bytes sent again over bytes acknowledged.
    pub rtx_overhead: f64,
    /// Of those, bytes whose first sending had arrived after all, over bytes
    /// acknowledged.
    pub spurious_ratio: f64,
    /// Bytes of frames that were given up before they were sent.
    pub dropped_bytes: u64,
    /// What the others on the path got, if there were any.
    pub competitor_mbps: Option<f64>,
    /// The path had a policer.
    pub has_policer: bool,
    /// Datagrams that it dropped.
    pub policer_drops: u64,
    /// From the first of those to the controller's taking the path for policed, in
    /// seconds; without any, from the session's begin.
    pub policed_after_s: Option<f64>,
    /// The connection was lost before the session's end; what was missing then
    /// counts against it.
    pub died: bool,
}

impl Outcome {
    /// Tells sessions of one population apart.
    pub fn session(&self) -> (&str, u64) {
        (&self.stratum, self.rank)
    }
}

/// A figure by which arms are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Application bytes delivered in order; those sent again count once.
    Goodput,
    /// From handing a ping to the application's queue, behind the frames that are
    /// there, to the answer.
    AppRtt,
    /// From sending a packet to the acknowledgement whose newest packet it is; what
    /// the peer waits counts in.
    TransportRtt,
    /// Bytes retransmitted over bytes acknowledged.
    RtxOverhead,
}

impl Metric {
    /// Every one, in the order of the study.
    pub const ALL: [Self; 4] = [
        Self::AppRtt,
        Self::Goodput,
        Self::TransportRtt,
        Self::RtxOverhead,
    ];

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput_mbps",
            Self::AppRtt => "app_rtt_ms",
            Self::TransportRtt => "transport_rtt_ms",
            Self::RtxOverhead => "rtx_overhead",
        }
    }

    /// Its name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Goodput => "Goodput, Mbit/s",
            Self::AppRtt => "Application round trip, ms",
            Self::TransportRtt => "Transport round trip, ms",
            Self::RtxOverhead => "Retransmission overhead, %",
        }
    }

    /// The percentiles that are reported.
    pub const fn percentiles(self) -> [u32; 6] {
        match self {
            Self::RtxOverhead => [25, 50, 75, 90, 95, 99],
            _ => [10, 25, 50, 75, 90, 95],
        }
    }

    /// Percentiles whose changes the study tells, or that are promised: the ones
    /// whose evidence is corrected for their number.
    pub const fn headlines(self) -> &'static [u32] {
        match self {
            Self::Goodput => &[10, 50],
            Self::AppRtt => &[50, 90],
            Self::TransportRtt => &[75, 95],
            Self::RtxOverhead => &[75, 90, 95, 99],
        }
    }

    /// Less of it is better.
    pub const fn is_cost(self) -> bool {
        !matches!(self, Self::Goodput)
    }

    /// Of one session.
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
