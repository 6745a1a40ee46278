//! The part of the server's answer that is shown; a newer server may say more.

use serde::Deserialize;

/// `GET /api/v1/streams/{name}/latency`
#[derive(Debug, Deserialize)]
pub(super) struct Latency {
    pub(super) stream: String,
    pub(super) window_s: u64,
    pub(super) stages: Vec<Stage>,
    pub(super) end_to_end: Option<Whole>,
    pub(super) glass_to_glass: Option<Whole>,
    #[serde(default)]
    pub(super) viewers: Vec<Viewer>,
    pub(super) publisher: Option<Publisher>,
}

/// How a publisher over QUIC sees its sending.
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

/// One stage's delays.
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

/// The whole way's delay.
#[derive(Debug, Deserialize)]
pub(super) struct Whole {
    pub(super) count: u64,
    pub(super) p50_ms: f64,
    pub(super) p95_ms: f64,
    pub(super) error_ms: f64,
}

/// A viewer that reports.
#[derive(Debug, Deserialize)]
pub(super) struct Viewer {
    pub(super) viewer: String,
    pub(super) end_to_end: Option<Whole>,
    pub(super) glass_to_glass: Option<Whole>,
    pub(super) accounted: Option<Accounted>,
}

/// Frames whose stages explain their whole delay.
#[derive(Debug, Deserialize)]
pub(super) struct Accounted {
    pub(super) within: u64,
    pub(super) of: u64,
}
