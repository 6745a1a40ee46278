//! Figures as the API shows them.

use std::time::Duration;

use glassline_media::{Stage, Summary};
use serde::Serialize;

use super::data::DataView;
use super::path::{PathView, SelectedPath};

/// One line of a table of stages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageRow {
    /// Name of the stage.
    pub stage: &'static str,
    /// Samples in the window.
    pub count: u64,
    /// Frames whose stamps could not be joined.
    pub unmatched: u64,
    /// Frames that never came so far.
    pub lost: u64,
    /// Median.
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Longest.
    pub max_ms: f64,
}

impl StageRow {
    pub(super) fn of_summary(stage: Stage, summary: &Summary) -> Self {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        Self {
            stage: stage.as_str(),
            count: summary.count,
            unmatched: 0,
            lost: 0,
            p50_ms: ms(summary.p50),
            p95_ms: ms(summary.p95),
            p99_ms: ms(summary.p99),
            max_ms: ms(summary.max),
        }
    }
}

/// A whole delay over the window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Whole {
    /// Frames in the window.
    pub count: u64,
    /// Median.
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// Longest.
    pub max_ms: f64,
    /// Largest uncertainty of the clocks' offset among these frames: half the
    /// shortest round trip of the exchange.
    pub error_ms: f64,
}

/// What one viewer's frames went through.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ViewerLatency {
    /// Span of the figures.
    pub window_s: u64,
    /// Server's and viewer's stages, in order.
    pub stages: Vec<StageRow>,
    /// From a frame's origin until presented: the sum of its stages.
    pub end_to_end: Option<Whole>,
    /// The same, measured by the code burnt into the frame.
    pub glass_to_glass: Option<Whole>,
    /// Frames whose sum of stages and glass-to-glass agree within the error,
    /// and frames that have both.
    pub accounted: Accounted,
    /// The latest frames, one by one.
    pub frames: Vec<FrameLine>,
}

/// How many frames' stages explain their whole delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Accounted {
    /// Sum and independent measure agree within the printed error.
    pub within: u64,
    /// Frames with both measures.
    pub of: u64,
}

/// One frame's way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrameLine {
    /// As the viewer knows it.
    pub rtp_timestamp: u32,
    /// Milliseconds in each stage.
    pub stages: serde_json::Map<String, serde_json::Value>,
    /// All stages together.
    pub sum_ms: f64,
    /// Measured by the burnt-in code.
    pub glass_to_glass_ms: Option<f64>,
    /// Uncertainty of either.
    pub error_ms: f64,
}

/// All figures of a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamLatency {
    /// Its name.
    pub stream: String,
    /// Span of the figures.
    pub window_s: u64,
    /// Stages in order; those beyond `send` from the viewers that report.
    pub stages: Vec<StageRow>,
    /// Over all reporting viewers.
    pub end_to_end: Option<Whole>,
    /// Over all reporting viewers.
    pub glass_to_glass: Option<Whole>,
    /// Each reporting viewer.
    pub viewers: Vec<NamedLatency>,
    /// The way to each viewer that is under congestion control.
    pub paths: Vec<NamedPath>,
}

/// The way to one viewer of a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedPath {
    /// The first letters of its session's name.
    pub viewer: String,
    /// How it stands.
    #[serde(flatten)]
    pub path: PathView,
}

/// Which way datagrams go to a viewer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ViewerPath {
    /// What it watches.
    pub stream: String,
    /// The first letters of its session's name.
    pub viewer: String,
    /// The way.
    pub path: SelectedPath,
    /// Its data channels, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<DataView>,
}

/// Who publishes messages beside a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DataPublisher {
    /// Beside which.
    pub stream: String,
    /// The first letters of its session's name.
    pub publisher: String,
    /// Its data channels.
    pub data: DataView,
}

/// One viewer's figures among a stream's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedLatency {
    /// The first letters of its session's name.
    pub viewer: String,
    /// Its figures.
    #[serde(flatten)]
    pub latency: ViewerLatency,
}
