//! Where the milliseconds went, from the source to each viewer's screen.
//!
//! ```text
//!  hub: ingest      shards: hub, pace, send      viewers: network … render
//!        └─────────────┬─────────────┴──────────────────┘
//!                    Board ──► GET /api/v1/streams/{name}/latency, metrics
//! ```
//!
//! Shards keep their own tables and lend them here. A page reports its frames
//! once a second; each is joined with the server's stamps of the same frame by
//! RTP timestamp, so that its stages add up to its whole delay.

mod account;
mod data;
mod frame_stamps;
mod path;
mod report;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use glassline_hub::{Stream, StreamName};
use glassline_media::{Stage, StageTable, Summary};
use serde::Serialize;

pub use account::{Account, Joined};
pub use data::DataView;
pub use frame_stamps::FrameStamps;
pub use path::{PathView, SelectedEnd, SelectedPath};
pub use report::{FrameReport, Report, ReportError, join};

use crate::runtime::SessionId;

/// Span of the stage tables.
const STAGE_WINDOW: Duration = Duration::from_secs(10);

/// Span of every figure here, in seconds.
pub const WINDOW_S: u64 = STAGE_WINDOW.as_secs();

/// Latency accounts of every stream.
#[derive(Debug, Default)]
pub struct Board {
    streams: Mutex<HashMap<StreamName, Accounts>>,
}

#[derive(Debug, Default)]
struct Accounts {
    shards: HashMap<usize, Arc<Mutex<StageTable>>>,
    viewers: HashMap<SessionId, Account>,
    paths: HashMap<SessionId, (Instant, PathView)>,
    selected: HashMap<SessionId, SelectedPath>,
    data: HashMap<SessionId, DataView>,
}

impl Board {
    /// The table of `stream` that shard `shard` writes.
    pub fn stages(&self, stream: &StreamName, shard: usize) -> Arc<Mutex<StageTable>> {
        let mut streams = self.lock();
        let accounts = streams.entry(stream.clone()).or_default();
        let table = accounts
            .shards
            .entry(shard)
            .or_insert_with(|| Arc::new(Mutex::new(StageTable::new(STAGE_WINDOW))));
        Arc::clone(table)
    }

    /// Adds what a viewer reported and returns its figures.
    pub fn report(
        &self,
        stream: &StreamName,
        viewer: &SessionId,
        joined: Joined,
        now: Instant,
    ) -> ViewerLatency {
        let mut streams = self.lock();
        let account = streams
            .entry(stream.clone())
            .or_default()
            .viewers
            .entry(viewer.clone())
            .or_default();
        account.add(joined, now);
        account.latency(now)
    }

    /// Shows how the way to a viewer stands at `now`.
    pub fn show_path(&self, stream: &StreamName, viewer: &SessionId, view: PathView, now: Instant) {
        let mut streams = self.lock();
        let accounts = streams.entry(stream.clone()).or_default();
        accounts.paths.insert(viewer.clone(), (now, view));
    }

    /// Shows which way datagrams go to a viewer.
    pub fn show_selected(&self, stream: &StreamName, viewer: &SessionId, path: SelectedPath) {
        let mut streams = self.lock();
        let accounts = streams.entry(stream.clone()).or_default();
        accounts.selected.insert(viewer.clone(), path);
    }

    /// Shows how the data channels of a viewer, or of a publisher of messages, stand.
    pub fn show_data(&self, stream: &StreamName, session: &SessionId, view: DataView) {
        let mut streams = self.lock();
        let accounts = streams.entry(stream.clone()).or_default();
        accounts.data.insert(session.clone(), view);
    }

    /// Who publishes messages beside each stream.
    pub fn data_publishers(&self) -> Vec<DataPublisher> {
        let streams = self.lock();
        let all = streams.iter().flat_map(|(stream, accounts)| {
            let publishing = accounts
                .data
                .iter()
                .filter(|(_, data)| data.is_publishers());
            publishing.map(move |(session, data)| DataPublisher {
                stream: stream.to_string(),
                publisher: short(session),
                data: *data,
            })
        });
        let mut all: Vec<DataPublisher> = all.collect();
        drop(streams);
        all.sort_by(|a, b| (&a.stream, &a.publisher).cmp(&(&b.stream, &b.publisher)));
        all
    }

    /// The ways to all viewers, by stream.
    pub fn selected(&self) -> Vec<ViewerPath> {
        let streams = self.lock();
        let all = streams.iter().flat_map(|(stream, accounts)| {
            let selected = accounts.selected.iter();
            selected.map(move |(session, path)| ViewerPath {
                stream: stream.to_string(),
                viewer: short(session),
                path: path.clone(),
                data: accounts.data.get(session).copied(),
            })
        });
        let mut all: Vec<ViewerPath> = all.collect();
        drop(streams);
        all.sort_by(|a, b| (&a.stream, &a.viewer).cmp(&(&b.stream, &b.viewer)));
        all
    }

    /// Drops what a viewer that left had reported.
    pub fn forget(&self, stream: &StreamName, viewer: &SessionId) {
        if let Some(accounts) = self.lock().get_mut(stream) {
            accounts.viewers.remove(viewer);
            accounts.paths.remove(viewer);
            accounts.selected.remove(viewer);
            accounts.data.remove(viewer);
        }
    }

    /// Drops all figures of a stream that is gone.
    pub fn forget_stream(&self, stream: &StreamName) {
        self.lock().remove(stream);
    }

    /// All figures of `stream`.
    pub fn latency(&self, stream: &Stream, now: Instant) -> StreamLatency {
        let mut server = self.server_stages(stream, now);
        let mut streams = self.lock();
        let mut everyone = Account::default();
        let mut viewers = Vec::new();
        let mut paths = Vec::new();
        if let Some(accounts) = streams.get_mut(stream.name()) {
            for (session, account) in &mut accounts.viewers {
                let latency = account.latency(now);
                if latency.end_to_end.is_some() {
                    let viewer = short(session);
                    viewers.push(NamedLatency { viewer, latency });
                }
                everyone.merge(account);
            }
            let stale = |at: Instant| now.saturating_duration_since(at) > STAGE_WINDOW;
            let fresh = accounts.paths.iter().filter(|(_, (at, _))| !stale(*at));
            paths.extend(fresh.map(|(session, (_, path))| NamedPath {
                viewer: short(session),
                path: path.clone(),
            }));
        }
        drop(streams);
        let mut stages: Vec<StageRow> = server
            .summaries(now)
            .iter()
            .map(|(stage, summary)| StageRow::of_summary(*stage, summary))
            .collect();
        let seen = everyone.latency(now);
        let beyond = |row: &StageRow| {
            [
                Stage::Network,
                Stage::JitterBuffer,
                Stage::Decode,
                Stage::Render,
            ]
            .iter()
            .any(|stage| stage.as_str() == row.stage)
        };
        stages.extend(seen.stages.into_iter().filter(beyond));
        viewers.sort_by(|a, b| a.viewer.cmp(&b.viewer));
        paths.sort_by(|a: &NamedPath, b| a.viewer.cmp(&b.viewer));
        StreamLatency {
            stream: stream.name().to_string(),
            window_s: WINDOW_S,
            stages,
            end_to_end: seen.end_to_end,
            glass_to_glass: seen.glass_to_glass,
            viewers,
            paths,
        }
    }

    /// The server's own stages of `stream`, all shards together.
    pub fn server_stages(&self, stream: &Stream, now: Instant) -> StageTable {
        let mut table = stream.ingest_stage();
        if let Some(accounts) = self.lock().get_mut(stream.name()) {
            for shard in accounts.shards.values() {
                table.merge(
                    &mut shard.lock().unwrap_or_else(PoisonError::into_inner),
                    now,
                );
            }
        }
        table
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StreamName, Accounts>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
    fn of_summary(stage: Stage, summary: &Summary) -> Self {
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
    /// The same, measured by the code burnt into the picture.
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

/// The beginning of its name is enough for people, and does not give away the right to
/// change it.
fn short(session: &SessionId) -> String {
    session.as_str().chars().take(6).collect()
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
