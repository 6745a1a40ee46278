//! The fields of the server's latency answer that are shown. Unknown fields of a newer server are
//! ignored.

use serde::Deserialize;

/// Answer of `GET /api/v1/streams/{name}/latency`.
#[derive(Debug, Deserialize)]
pub(super) struct Latency {
    pub(super) stream: String,
    pub(super) window_s: u64,
    pub(super) stages: Vec<Stage>,
    pub(super) end_to_end: Option<Whole>,
    pub(super) glass_to_glass: Option<Whole>,
    #[serde(default)]
    pub(super) viewers: Vec<Viewer>,
    /// Number of viewers on all pages of the answer; older servers have one page.
    #[serde(default)]
    pub(super) total: usize,
    pub(super) publisher: Option<Publisher>,
}

/// The report of a publisher over QUIC about its sending.
#[derive(Debug, Deserialize)]
pub(super) struct Publisher {
    pub(super) app_rtt_ms: Option<f64>,
    pub(super) transport_rtt_ms: Option<f64>,
    pub(super) goodput_bps: Option<u64>,
    pub(super) rtx_overhead_ratio: Option<f64>,
    pub(super) bitrate_bps: Option<u64>,
    pub(super) deliverable_bps: Option<u64>,
    pub(super) backlog_bytes: Option<u64>,
}

/// Delays of one stage.
#[derive(Debug, Deserialize)]
pub(super) struct Stage {
    pub(super) stage: String,
    pub(super) count: u64,
    pub(super) unmatched: u64,
    pub(super) lost: u64,
    pub(super) p50_ms: f64,
    pub(super) p95_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
}

/// Delay of the whole path.
#[derive(Debug, Deserialize)]
pub(super) struct Whole {
    pub(super) count: u64,
    pub(super) p50_ms: f64,
    pub(super) p95_ms: f64,
    pub(super) error_ms: f64,
}

/// A viewer that reports its delays.
#[derive(Debug, Deserialize)]
pub(super) struct Viewer {
    pub(super) viewer: String,
    pub(super) end_to_end: Option<Whole>,
    pub(super) glass_to_glass: Option<Whole>,
    pub(super) accounted: Option<Accounted>,
}

/// Number of frames whose stages add up to their whole delay.
#[derive(Debug, Deserialize)]
pub(super) struct Accounted {
    pub(super) within: u64,
    pub(super) of: u64,
}
