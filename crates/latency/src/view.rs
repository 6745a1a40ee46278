//! Latency figures as the API shows them.

use std::borrow::Cow;
use std::time::Duration;

use glassline_hub::StreamName;
use glassline_media::{Stage, Summary};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use super::data::DataView;
use super::distribution::Figures;
use super::path::{PathView, SelectedPath};

/// One row of a table of stages.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StageRow {
    /// Name of the stage.
    pub stage: &'static str,
    /// Number of samples in the window.
    pub count: u64,
    /// Number of frames whose stamps could not be joined.
    pub unmatched: u64,
    /// Number of frames that did not arrive at this stage.
    pub lost: u64,
    /// Median delay in ms.
    pub p50_ms: f64,
    /// 95th percentile of the delay in ms.
    pub p95_ms: f64,
    /// 99th percentile of the delay in ms.
    pub p99_ms: f64,
    /// Longest delay in ms.
    pub max_ms: f64,
}

impl StageRow {
    pub(super) fn of_figures(stage: Stage, figures: &Figures, unmatched: u64, lost: u64) -> Self {
        Self {
            stage: stage.as_str(),
            count: figures.count,
            unmatched,
            lost,
            p50_ms: figures.p50,
            p95_ms: figures.p95,
            p99_ms: figures.p99,
            max_ms: figures.max,
        }
    }

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

/// A delay over several stages, over the window.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Whole {
    /// Number of frames in the window.
    pub count: u64,
    /// Median delay in ms.
    pub p50_ms: f64,
    /// 95th percentile of the delay in ms.
    pub p95_ms: f64,
    /// Longest delay in ms.
    pub max_ms: f64,
    /// Largest uncertainty of the clock offset among these frames, in ms: half the shortest round
    /// trip of the exchange.
    pub error_ms: f64,
}

impl Whole {
    /// Returns the delay; `None` if no frame has it.
    pub(super) fn of_figures(delay: &Figures, error_ms: f64) -> Option<Self> {
        (delay.count > 0).then_some(Self {
            count: delay.count,
            p50_ms: delay.p50,
            p95_ms: delay.p95,
            max_ms: delay.max,
            error_ms,
        })
    }
}

/// The delays of one viewer's frames.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ViewerLatency {
    /// Time span of the figures in seconds.
    pub window_s: u64,
    /// The server's and the viewer's stages, in order.
    pub stages: Vec<StageRow>,
    /// Delay from a frame's origin until it is presented: the sum of its stages.
    pub end_to_end: Option<Whole>,
    /// The delay, measured with the code drawn into the frame.
    pub glass_to_glass: Option<Whole>,
    /// Number of frames whose sum of stages and glass-to-glass delay agree within the error, and
    /// number of frames that have both.
    pub accounted: Accounted,
    /// The latest frames, one by one.
    pub frames: Vec<FrameLine>,
}

/// How many frames have stages that explain their whole delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Accounted {
    /// Number of frames whose sum of stages and independent measurement agree within the error.
    pub within: u64,
    /// Number of frames with both measurements.
    pub of: u64,
}

/// The delays of one frame.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FrameLine {
    /// RTP timestamp of the frame, as the viewer knows it.
    pub rtp_timestamp: u32,
    /// Delay of each stage in ms.
    pub stages: StageDelays,
    /// Sum of all stages in ms.
    pub sum_ms: f64,
    /// Delay measured with the code drawn into the frame, in ms.
    pub glass_to_glass_ms: Option<f64>,
    /// Uncertainty of both measurements in ms.
    pub error_ms: f64,
}

/// Delay of each stage in ms, by [`Stage::index`]; those that were not measured are missing from
/// the map that this becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct StageDelays(pub [Option<f64>; Stage::ALL.len()]);

impl Serialize for StageDelays {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let delays = Stage::ALL.into_iter().zip(self.0);
        let known = delays.filter_map(|(stage, ms)| Some((stage.as_str(), ms?)));
        serializer.collect_map(known)
    }
}

impl JsonSchema for StageDelays {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "StageDelays".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        serde_json::Map::<String, serde_json::Value>::json_schema(generator)
    }
}

/// The delays of a stream, of all its viewers that report together.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StreamDelays {
    /// Stages in order, over the last seconds; those behind `send` come from the viewers.
    pub stages: Vec<StageRow>,
    /// Delay from a frame's origin until it is presented.
    pub end_to_end: Option<Whole>,
    /// Delay measured with the code drawn into frames.
    pub glass_to_glass: Option<Whole>,
}

/// All latency figures of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StreamLatency {
    /// Name of the stream.
    pub stream: String,
    /// Time span of the figures in seconds.
    pub window_s: u64,
    /// Stages in order; those behind `send` come from the viewers that report.
    pub stages: Vec<StageRow>,
    /// Delay from a frame's origin until it is presented, over all reporting viewers.
    pub end_to_end: Option<Whole>,
    /// Delay measured with the code drawn into frames, over all reporting viewers.
    pub glass_to_glass: Option<Whole>,
    /// Figures of the reporting viewers on this page.
    pub viewers: Vec<NamedLatency>,
    /// State of the path to each viewer that is under congestion control, of those on this page.
    pub paths: Vec<NamedPath>,
    /// Number of viewers on all pages: those that report, or whose path is known.
    pub total: usize,
}

/// The path to one viewer of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NamedPath {
    /// First letters of the session's name.
    pub viewer: String,
    /// State of the path.
    #[serde(flatten)]
    pub path: PathView,
}

/// The selected path to a viewer.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ViewerPath {
    /// Name of the stream that the viewer watches.
    pub stream: String,
    /// First letters of the session's name.
    pub viewer: String,
    /// Candidate pair that ICE selected.
    pub path: SelectedPath,
    /// Statistics of the viewer's data channels, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<DataView>,
}

/// The path to a viewer, with the state of its congestion control.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchedPath {
    /// The stream that the viewer watches.
    pub stream: StreamName,
    /// First letters of the session's name.
    pub viewer: String,
    /// Candidate pair that ICE selected.
    pub selected: SelectedPath,
    /// State of the path as its congestion control sees it; `None` for a viewer without feedback.
    pub congestion: Option<PathView>,
}

/// A publisher of messages next to a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DataPublisher {
    /// Name of the stream.
    pub stream: String,
    /// First letters of the session's name.
    pub publisher: String,
    /// Statistics of the publisher's data channels.
    pub data: DataView,
}

/// One viewer's figures in the list of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NamedLatency {
    /// First letters of the session's name.
    pub viewer: String,
    /// Figures of the viewer.
    #[serde(flatten)]
    pub latency: ViewerLatency,
}
