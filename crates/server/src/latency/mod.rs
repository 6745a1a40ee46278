//! Measures each stage of the delay from the source to each viewer's screen.
//!
//! ```text
//!  hub: ingest      shards: hub, pace, send      viewers: network … render
//!        └─────────────┬─────────────┴──────────────────┘
//!                    LatencyRegistry ──► GET /api/v1/streams/{name}/latency, metrics
//! ```
//!
//! Shards write their own tables, which they share with this module. A page reports its frames once
//! a second. Each frame is joined with the server's stamps of the same frame by RTP timestamp, so
//! that its stages add up to its whole delay.

mod account;
mod data;
mod everyone;
mod frame_stamps;
mod path;
mod report;
mod view;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use glassline_hub::{Stream, StreamName};
use glassline_media::{Stage, StageTable};

use account::STAGE_WINDOW;
pub use account::WINDOW_S;
pub use account::{Account, Joined};
pub use data::DataView;
use everyone::{Everyone, is_viewers};
pub use frame_stamps::FrameStamps;
pub use path::{PathView, SelectedEnd, SelectedPath};
pub use report::{FrameReport, Origins, Report, ReportError, join};
pub use view::{Accounted, DataPublisher, FrameLine, NamedLatency, NamedPath, StageRow};
pub use view::{StreamDelays, StreamLatency, ViewerLatency, ViewerPath, WatchedPath, Whole};

use crate::runtime::{SessionId, shrink};

/// The registry of delays, paths and data channel statistics of every stream.
#[derive(Debug, Default)]
pub struct LatencyRegistry {
    streams: Mutex<HashMap<StreamName, Accounts>>,
}

#[derive(Debug, Default)]
struct Accounts {
    shards: HashMap<usize, Arc<Mutex<StageTable>>>,
    viewers: HashMap<SessionId, Account>,
    /// What all reports said, once there was one.
    everyone: Option<Everyone>,
    paths: HashMap<SessionId, (Instant, PathView)>,
    selected: HashMap<SessionId, SelectedPath>,
    data: HashMap<SessionId, DataView>,
}

impl Accounts {
    /// Returns whether a thread writes a table, or a viewer has an entry.
    fn is_in_use(&self) -> bool {
        let is_written = |table: &Arc<_>| Arc::strong_count(table) > 1;
        self.shards.values().any(is_written)
            || !self.viewers.is_empty()
            || !self.paths.is_empty()
            || !self.selected.is_empty()
            || !self.data.is_empty()
    }

    /// Returns the state of the path to a viewer under congestion control, unless it is old.
    fn path(&self, viewer: &SessionId, now: Instant) -> Option<&PathView> {
        let (at, path) = self.paths.get(viewer)?;
        (now.saturating_duration_since(*at) <= STAGE_WINDOW).then_some(path)
    }

    fn forget(&mut self, viewer: &SessionId) {
        self.viewers.remove(viewer);
        self.paths.remove(viewer);
        self.selected.remove(viewer);
        self.data.remove(viewer);
        shrink(&mut self.viewers);
        shrink(&mut self.paths);
        shrink(&mut self.selected);
        shrink(&mut self.data);
    }
}

impl LatencyRegistry {
    /// Returns the table of stage delays of `stream` that shard `shard` writes.
    pub fn stages(&self, stream: &StreamName, shard: usize) -> Arc<Mutex<StageTable>> {
        let mut streams = self.lock();
        let accounts = streams.entry(stream.clone()).or_default();
        let table = accounts
            .shards
            .entry(shard)
            .or_insert_with(|| Arc::new(Mutex::new(StageTable::new(STAGE_WINDOW))));
        Arc::clone(table)
    }

    /// Adds a viewer's report and returns the viewer's figures.
    pub fn report(
        &self,
        stream: &StreamName,
        viewer: &SessionId,
        joined: Joined,
        now: Instant,
    ) -> ViewerLatency {
        let mut streams = self.lock();
        let accounts = streams.entry(stream.clone()).or_default();
        let everyone = accounts.everyone.get_or_insert_with(|| Everyone::new(now));
        everyone.add(&joined.frames, now);
        let account = accounts.viewers.entry(viewer.clone()).or_default();
        account.add(joined, now);
        account.latency(now)
    }

    /// Stores the state of the path to a viewer at `now`.
    pub fn show_path(&self, stream: &StreamName, viewer: &SessionId, view: PathView, now: Instant) {
        let mut streams = self.lock();
        let accounts = streams.entry(stream.clone()).or_default();
        accounts.paths.insert(viewer.clone(), (now, view));
    }

    /// Stores the ICE candidate pair that carries a viewer's datagrams.
    pub fn show_selected(&self, stream: &StreamName, viewer: &SessionId, path: SelectedPath) {
        let mut streams = self.lock();
        let accounts = streams.entry(stream.clone()).or_default();
        accounts.selected.insert(viewer.clone(), path);
    }

    /// Stores the statistics of the data channels of a viewer or of a publisher of messages.
    pub fn show_data(&self, stream: &StreamName, session: &SessionId, view: DataView) {
        let mut streams = self.lock();
        let accounts = streams.entry(stream.clone()).or_default();
        accounts.data.insert(session.clone(), view);
    }

    /// Returns the publishers of messages of all streams.
    pub fn data_publishers(&self) -> Vec<DataPublisher> {
        let streams = self.lock();
        let all = streams.iter().flat_map(|(stream, accounts)| {
            let publishing = accounts
                .data
                .iter()
                .filter(|(_, data)| data.is_publishers());
            publishing.map(move |(session, data)| DataPublisher {
                stream: stream.to_string(),
                publisher: session.beginning().to_owned(),
                data: *data,
            })
        });
        let mut all: Vec<DataPublisher> = all.collect();
        drop(streams);
        all.sort_by(|a, b| (&a.stream, &a.publisher).cmp(&(&b.stream, &b.publisher)));
        all
    }

    /// Returns the selected paths of all viewers, by stream.
    pub fn selected(&self) -> Vec<ViewerPath> {
        let streams = self.lock();
        let all = streams.iter().flat_map(|(stream, accounts)| {
            let selected = accounts.selected.iter();
            selected.map(move |(session, path)| ViewerPath {
                stream: stream.to_string(),
                viewer: session.beginning().to_owned(),
                path: path.clone(),
                data: accounts.data.get(session).copied(),
            })
        });
        let mut all: Vec<ViewerPath> = all.collect();
        drop(streams);
        all.sort_by(|a, b| (&a.stream, &a.viewer).cmp(&(&b.stream, &b.viewer)));
        all
    }

    /// Returns the paths to all connected viewers of all streams at `now`, in no order.
    pub fn watched(&self, now: Instant) -> Vec<WatchedPath> {
        let streams = self.lock();
        let all = streams.iter().flat_map(|(stream, accounts)| {
            let selected = accounts.selected.iter();
            selected.map(move |(session, path)| WatchedPath {
                stream: stream.clone(),
                viewer: session.beginning().to_owned(),
                selected: path.clone(),
                congestion: accounts.path(session, now).cloned(),
            })
        });
        all.collect()
    }

    /// Removes all entries of a viewer that left.
    pub fn forget(&self, stream: &StreamName, viewer: &SessionId) {
        if let Some(accounts) = self.lock().get_mut(stream) {
            accounts.forget(viewer);
        }
    }

    /// Removes the entries of streams that nobody reads any more and that are not `listed`: files
    /// of the media folder end without being swept out of the hub.
    pub fn sweep(&self, listed: impl Fn(&StreamName) -> bool) {
        let mut streams = self.lock();
        streams.retain(|stream, accounts| accounts.is_in_use() || listed(stream));
        shrink(&mut streams);
    }

    /// Removes all entries of a stream that no longer exists.
    pub fn forget_stream(&self, stream: &StreamName) {
        self.lock().remove(stream);
    }

    /// Returns the delays of the stream `name` in a time that does not grow with its viewers. `server`
    /// has the stages of the server, from [`server_stages`](Self::server_stages).
    pub fn delays(&self, name: &StreamName, server: &mut StageTable, now: Instant) -> StreamDelays {
        let mut stages = server_rows(server, now);
        let mut streams = self.lock();
        let accounts = streams.get_mut(name);
        let mut everyone = accounts.and_then(|it| it.everyone.as_mut());
        if let Some(everyone) = &mut everyone {
            stages.extend(everyone.stages(now));
        }
        StreamDelays {
            stages,
            end_to_end: everyone.as_mut().and_then(|it| it.end_to_end(now)),
            glass_to_glass: everyone.and_then(|it| it.glass_to_glass(now)),
        }
    }

    /// Returns all figures of `stream`.
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
                    let viewer = session.beginning().to_owned();
                    viewers.push(NamedLatency { viewer, latency });
                }
                everyone.merge(account);
            }
            paths.extend(accounts.paths.keys().filter_map(|session| {
                Some(NamedPath {
                    viewer: session.beginning().to_owned(),
                    path: accounts.path(session, now)?.clone(),
                })
            }));
        }
        drop(streams);
        let mut stages = server_rows(&mut server, now);
        let seen = everyone.latency(now);
        let measured = Stage::ALL.into_iter().filter(|stage| is_viewers(*stage));
        let measured: Vec<&str> = measured.map(Stage::as_str).collect();
        let beyond = seen.stages.into_iter();
        stages.extend(beyond.filter(|row| measured.contains(&row.stage)));
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

    /// Returns the server's own stages of `stream`, of all shards together.
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

fn server_rows(server: &mut StageTable, now: Instant) -> Vec<StageRow> {
    let summaries = server.summaries(now);
    let rows = summaries.iter();
    rows.map(|(stage, summary)| StageRow::of_summary(*stage, summary))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> StreamName {
        StreamName::parse(text).expect("a name")
    }

    #[test]
    fn a_stream_that_is_gone_leaves_nothing() {
        let registry = LatencyRegistry::default();
        let now = Instant::now();
        // A folder of many files, each played once by a thread.
        for file in 0..1_000 {
            drop(registry.stages(&name(&format!("file-{file}")), 0));
        }
        let live = registry.stages(&name("~played"), 0);
        drop(registry.stages(&name("camera"), 0));
        let viewer = SessionId::new("viewer");
        registry.report(&name("watched"), &viewer, Joined::default(), now);
        let kept = |registry: &LatencyRegistry| {
            registry.sweep(|stream| stream.as_str() == "camera");
            let streams = registry.lock();
            let mut names: Vec<String> = streams.keys().map(ToString::to_string).collect();
            names.sort();
            (names, streams.capacity())
        };
        let (names, capacity) = kept(&registry);
        assert_eq!(names, ["camera", "watched", "~played"]);
        assert!(capacity < 1_000, "{capacity}");
        drop(live);
        registry.forget(&name("watched"), &viewer);
        assert_eq!(kept(&registry).0, ["camera"]);
    }

    #[test]
    fn a_crowd_of_viewers_leaves_no_room_behind() {
        let registry = LatencyRegistry::default();
        let now = Instant::now();
        let stream = name("camera");
        let viewers: Vec<_> = (0..5_000)
            .map(|it| SessionId::new(&it.to_string()))
            .collect();
        for viewer in &viewers {
            registry.report(&stream, viewer, Joined::default(), now);
        }
        for viewer in &viewers {
            registry.forget(&stream, viewer);
        }
        let capacity = registry.lock()[&stream].viewers.capacity();
        assert!(capacity < 1_000, "{capacity}");
    }
}
