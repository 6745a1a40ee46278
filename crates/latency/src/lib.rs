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

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "virtual time begins at some instant"
    )
)]

mod account;
mod accounts;
mod captures;
mod data;
mod distribution;
mod everyone;
mod frame_codes;
mod frame_columns;
mod frame_stamps;
mod pace;
mod path;
mod report;
mod timestamps;
mod view;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use glassline_hub::{Stream, StreamName};
use glassline_media::{Stage, StageTable};
use parking_lot::{Mutex, RwLock};

pub use account::WINDOW_S;
use account::Window;
pub use account::{Account, Joined};
use accounts::{Accounts, Viewer};
pub use captures::{CaptureLog, PublisherClock};
pub use data::DataView;
use everyone::{Everyone, is_viewers};
pub use frame_codes::{FrameCode, FrameCodes};
pub use frame_stamps::FrameStamps;
use pace::ReportPace;
pub use path::{LayerView, PathView, SelectedEnd, SelectedPath};
pub use report::{FrameReport, Origins, Report, ReportAllowance, ReportError, join};
pub use view::{
    Accounted, DataPublisher, FrameLine, NamedLatency, NamedPath, StageDelays, StageRow,
};
pub use view::{StreamDelays, StreamLatency, ViewerLatency, ViewerPath, WatchedPath, Whole};

use glassline_runtime::{SessionId, shrink};

/// The registry of delays, paths and data channel statistics of every stream.
///
/// Each stream has locks of its own. Figures are computed from copies, without any.
#[derive(Debug, Default)]
pub struct LatencyRegistry {
    streams: RwLock<HashMap<StreamName, Arc<Accounts>>>,
    pace: ReportPace,
}

impl LatencyRegistry {
    /// Returns the table of stage delays of `stream` that shard `shard` writes.
    pub fn stages(&self, stream: &StreamName, shard: usize) -> Arc<Mutex<StageTable>> {
        // Under the lock of the registry, so that a sweep sees that the table is written.
        let mut streams = self.streams.write();
        streams.entry(stream.clone()).or_default().stages(shard)
    }

    /// Adds a viewer's report and returns the viewer's figures.
    pub fn report(
        &self,
        stream: &StreamName,
        viewer: &SessionId,
        joined: &Joined,
        now: Instant,
    ) -> ViewerLatency {
        self.made(stream).report(viewer, joined, now).latency()
    }

    /// Returns the seconds after which a page that reports now should report again.
    pub fn report_interval_s(&self, now: Instant) -> u64 {
        let reporters = |(_, accounts): (_, Arc<Accounts>)| accounts.reporters();
        let pages = || self.all().into_iter().map(reporters).sum();
        self.pace.interval_s(now, pages)
    }

    /// Stores the state of the path to a viewer at `now`.
    pub fn show_path(&self, stream: &StreamName, viewer: &SessionId, view: PathView, now: Instant) {
        let accounts = self.made(stream);
        accounts.connections().show_path(viewer, view, now);
    }

    /// Returns the layer that a viewer gets by its path, and why, as its shard told last.
    pub fn layer(
        &self,
        stream: &StreamName,
        viewer: &SessionId,
        now: Instant,
    ) -> Option<LayerView> {
        let accounts = self.made(stream);
        let connections = accounts.connections();
        connections.path(viewer, now)?.layer.clone()
    }

    /// Stores the ICE candidate pair that carries a viewer's datagrams.
    pub fn show_selected(&self, stream: &StreamName, viewer: &SessionId, path: SelectedPath) {
        let accounts = self.made(stream);
        accounts.connections().selected.insert(viewer.clone(), path);
    }

    /// Stores the statistics of the data channels of a viewer or of a publisher of messages.
    pub fn show_data(&self, stream: &StreamName, session: &SessionId, view: DataView) {
        let accounts = self.made(stream);
        accounts.connections().data.insert(session.clone(), view);
    }

    /// Returns the publishers of messages of all streams.
    pub fn data_publishers(&self) -> Vec<DataPublisher> {
        let mut all = Vec::new();
        for (stream, accounts) in self.all() {
            let connections = accounts.connections();
            let publishing = connections.data.iter();
            let publishing = publishing.filter(|(_, data)| data.is_publishers);
            all.extend(publishing.map(|(session, data)| DataPublisher {
                stream: stream.to_string(),
                publisher: session.beginning().to_owned(),
                data: *data,
            }));
        }
        all.sort_by(|a, b| (&a.stream, &a.publisher).cmp(&(&b.stream, &b.publisher)));
        all
    }

    /// Returns the selected paths of all viewers, by stream.
    pub fn selected(&self) -> Vec<ViewerPath> {
        let mut all = Vec::new();
        for (stream, accounts) in self.all() {
            let connections = accounts.connections();
            let selected = connections.selected.iter();
            all.extend(selected.map(|(session, path)| ViewerPath {
                stream: stream.to_string(),
                viewer: session.beginning().to_owned(),
                path: path.clone(),
                data: connections.data.get(session).copied(),
            }));
        }
        all.sort_by(|a, b| (&a.stream, &a.viewer).cmp(&(&b.stream, &b.viewer)));
        all
    }

    /// Returns the paths to all connected viewers of all streams at `now`, in no order.
    pub fn watched(&self, now: Instant) -> Vec<WatchedPath> {
        let mut all = Vec::new();
        for (stream, accounts) in self.all() {
            let connections = accounts.connections();
            let selected = connections.selected.iter();
            all.extend(selected.map(|(session, path)| WatchedPath {
                stream: stream.clone(),
                viewer: session.beginning().to_owned(),
                selected: path.clone(),
                congestion: connections.path(session, now).cloned(),
            }));
        }
        all
    }

    /// Removes all entries of a viewer that left.
    pub fn forget(&self, stream: &StreamName, viewer: &SessionId) {
        if let Some(accounts) = self.of(stream) {
            accounts.forget(viewer);
        }
    }

    /// Removes the entries of streams that nobody reads any more and that are not `listed`: files
    /// of the media folder end without being swept out of the hub.
    pub fn sweep(&self, listed: impl Fn(&StreamName) -> bool) {
        let mut streams = self.streams.write();
        // Whoever holds the accounts of a stream is about to write there.
        let is_held = |accounts: &Arc<Accounts>| Arc::strong_count(accounts) > 1;
        streams
            .retain(|stream, accounts| is_held(accounts) || accounts.is_in_use() || listed(stream));
        shrink(&mut streams);
    }

    /// Removes all entries of a stream that no longer exists.
    pub fn forget_stream(&self, stream: &StreamName) {
        let mut streams = self.streams.write();
        let accounts = streams.remove(stream);
        drop(streams);
        // They are freed without a lock.
        drop(accounts);
    }

    /// Returns the delays of the stream `name` in a time that does not grow with its viewers. `server`
    /// has the stages of the server, from [`server_stages`](Self::server_stages).
    pub fn delays(&self, name: &StreamName, server: &mut StageTable, now: Instant) -> StreamDelays {
        let everyone = self.of(name).and_then(|accounts| accounts.everyone(now));
        let everyone = everyone.as_ref();
        let mut stages = server_rows(server, now);
        stages.extend(everyone.into_iter().flat_map(Everyone::stages));
        StreamDelays {
            stages,
            end_to_end: everyone.and_then(Everyone::end_to_end),
            glass_to_glass: everyone.and_then(Everyone::glass_to_glass),
        }
    }

    /// Returns the figures of `stream`, and those of the viewers on `page`, a range of all by name.
    pub fn latency(&self, stream: &Stream, page: &Range<usize>, now: Instant) -> StreamLatency {
        let mut server = self.server_stages(stream, now);
        let accounts = self.of(stream.name());
        let all = accounts.map_or_else(Vec::new, |it| it.viewers(now));
        let mut seen = Window::default();
        all.iter().for_each(|it| seen.merge(&it.window));
        let seen = seen.latency();
        let measured = Stage::ALL.into_iter().filter(|stage| is_viewers(*stage));
        let measured: Vec<&str> = measured.map(Stage::as_str).collect();
        let mut stages = server_rows(&mut server, now);
        let beyond = seen.stages.into_iter();
        stages.extend(beyond.filter(|row| measured.contains(&row.stage)));
        let is_listed = |it: &&Viewer| it.window.has_frames() || it.path.is_some();
        let total = all.iter().filter(is_listed).count();
        let listed = all.iter().filter(is_listed);
        let listed: Vec<&Viewer> = listed.skip(page.start).take(page.len()).collect();
        let reporting = listed.iter().filter(|it| it.window.has_frames());
        let named = |it: &&Viewer| NamedLatency {
            viewer: it.name.clone(),
            latency: it.window.latency(),
        };
        let viewers = reporting.map(named).collect();
        let with_path = listed.iter().filter_map(|it| Some((it, it.path.clone()?)));
        let paths = with_path.map(|(it, path)| NamedPath {
            viewer: it.name.clone(),
            path,
        });
        StreamLatency {
            stream: stream.name().to_string(),
            window_s: WINDOW_S,
            stages,
            end_to_end: seen.end_to_end,
            glass_to_glass: seen.glass_to_glass,
            viewers,
            paths: paths.collect(),
            total,
        }
    }

    /// Returns the server's own stages of `stream`, of all shards together.
    pub fn server_stages(&self, stream: &Stream, now: Instant) -> StageTable {
        let mut table = stream.ingest_stage();
        if let Some(accounts) = self.of(stream.name()) {
            accounts.add_stages(&mut table, now);
        }
        table
    }

    /// Returns the accounts of a stream that has some.
    fn of(&self, stream: &StreamName) -> Option<Arc<Accounts>> {
        let streams = self.streams.read();
        streams.get(stream).cloned()
    }

    /// Returns the accounts of a stream, which are made if there are none.
    fn made(&self, stream: &StreamName) -> Arc<Accounts> {
        self.of(stream).unwrap_or_else(|| {
            let mut streams = self.streams.write();
            Arc::clone(streams.entry(stream.clone()).or_default())
        })
    }

    /// Returns the accounts of all streams, in no order.
    fn all(&self) -> Vec<(StreamName, Arc<Accounts>)> {
        let streams = self.streams.read();
        let all = streams.iter();
        all.map(|(stream, accounts)| (stream.clone(), Arc::clone(accounts)))
            .collect()
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
        registry.report(&name("watched"), &viewer, &Joined::default(), now);
        let kept = |registry: &LatencyRegistry| {
            registry.sweep(|stream| stream.as_str() == "camera");
            let streams = registry.streams.read();
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
            registry.report(&stream, viewer, &Joined::default(), now);
        }
        for viewer in &viewers {
            registry.forget(&stream, viewer);
        }
        let capacity = registry.of(&stream).expect("there").viewers_capacity();
        assert!(capacity < 1_000, "{capacity}");
    }

    /// Returns the report of `frames` frames in second `second` of a viewer's session.
    fn second(second: u32, frames: u32) -> Joined {
        let delay = |frame: u32| 20.0 + f64::from(frame % 17);
        let frames = (0..frames).map(|frame| account::FrameSample {
            timestamp: second * 90_000 + frame,
            ..account::tests::sample(delay(frame), Some(delay(frame)))
        });
        Joined {
            frames: frames.collect(),
            ..Joined::default()
        }
    }

    /// Returns the processor time of this thread.
    #[cfg(target_os = "linux")]
    fn cpu_time() -> std::time::Duration {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("of this thread");
        let nanos = text.split_whitespace().next().map(str::parse);
        std::time::Duration::from_nanos(nanos.expect("a number").expect("a number"))
    }

    /// A report took 0.5 ms of an optimized build where 600 frames were kept, and several times
    /// that of this one.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_reports_of_two_hundred_pages_cost_a_fraction_of_a_second() {
        use std::time::Duration;

        let registry = LatencyRegistry::default();
        let (stream, start) = (name("camera"), Instant::now());
        let viewers: Vec<_> = (0..200).map(|it| SessionId::new(&it.to_string())).collect();
        let report = |at: u32, frames: u32| {
            let now = start + Duration::from_secs(at.into());
            let joined = second(at, frames);
            let began = cpu_time();
            for viewer in &viewers {
                registry.report(&stream, viewer, &joined, now);
            }
            cpu_time() - began
        };
        for at in 0..10 {
            report(at, 60);
        }
        let full = report(10, 60);
        let empty = report(10, 0);
        println!("200 reports: {full:?}, without frames: {empty:?}");
        assert!(full < Duration::from_millis(600), "{full:?}");
        assert!(empty < Duration::from_millis(500), "{empty:?}");
        let latency = registry.report(&stream, &viewers[0], &Joined::default(), start);
        assert_eq!(latency.end_to_end.map(|it| it.count), Some(660));
    }
}
