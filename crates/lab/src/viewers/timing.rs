//! Times of a step as the few quantiles that tools read, in ms.

use serde::{Deserialize, Serialize};

/// Join times; `None` if no viewer joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Join {
    /// Median time, in ms.
    pub p50: Option<f64>,
    /// 95th percentile of the times, in ms.
    pub p95: Option<f64>,
    /// Longest time, in ms.
    pub max: Option<f64>,
    /// Time until all viewers of the step had joined or failed.
    pub all: Option<f64>,
}

/// Intervals between frames; `None` if no frame arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// 99th percentile of the intervals, in ms.
    pub p99: Option<f64>,
    /// Longest interval, in ms.
    pub max: Option<f64>,
}

/// Times from connecting until the whole answer to DESCRIBE arrived, of ten requests a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Describe {
    /// Number of requests that were answered with success.
    pub answered: usize,
    /// Number of requests that were refused, or not answered within five seconds.
    pub failed: usize,
    /// Median; `None` if no request was answered.
    pub p50: Option<f64>,
    /// 99th percentile of the times, in ms.
    pub p99: Option<f64>,
    /// Longest time, in ms.
    pub max: Option<f64>,
}

/// Figures of viewers of HLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hls {
    /// Requests of playlists, parts and segments, per viewer and second.
    pub requests_per_viewer_second: f64,
    /// Times at which a viewer's buffer was empty.
    pub stalls: u64,
    /// Share of the time in which buffers were empty.
    pub stalled_ratio: f64,
    /// Median distance from live of what plays, in ms; `None` if the playlist has no dates.
    pub latency_p50_ms: Option<f64>,
    /// 95th percentile of the distances, in ms.
    pub latency_p95_ms: Option<f64>,
}

/// One-way delay of media packets, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delay {
    /// Median delay, in ms.
    pub p50: f64,
    /// 95th percentile of the delays, in ms.
    pub p95: f64,
    /// 99th percentile of the delays, in ms.
    pub p99: f64,
}
