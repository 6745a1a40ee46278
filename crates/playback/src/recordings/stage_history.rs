//! The history of delays beside the recordings: a row a minute of each stream that is recorded.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use glassline_hub::{Hub, StreamName};
use glassline_latency::LatencyRegistry;
use glassline_recording::{Catalogue, Recorders, RecordingState, RecordingStatus, StageMinute};
use glassline_runtime::BlockingPool;

/// Interval at which delays are looked at: the window of the figures.
const EACH: Duration = Duration::from_secs(10);

/// The delays of the present minute.
#[derive(Debug)]
pub(super) struct StageHistory {
    latencies: Arc<LatencyRegistry>,
    hub: Arc<Hub>,
    /// Number of the minute, since 1970.
    minute: u64,
    streams: BTreeMap<StreamName, BTreeMap<String, f32>>,
    next: Option<Instant>,
    /// The threads that wait for the disk of a folder. A minute of such a folder is not kept.
    writing: HashMap<PathBuf, BlockingPool>,
}

impl StageHistory {
    pub(super) fn new(latencies: Arc<LatencyRegistry>, hub: Arc<Hub>) -> Self {
        Self {
            latencies,
            hub,
            minute: 0,
            streams: BTreeMap::new(),
            next: None,
            writing: HashMap::new(),
        }
    }

    /// Looks at the delays of all recorded streams, if it is time. Returns what writes the minute that is over.
    pub(super) fn look(
        &mut self,
        recorders: &Recorders,
        now: Instant,
        wall: SystemTime,
    ) -> Option<BoxFuture<'static, ()>> {
        if self.next.is_some_and(|it| now < it) {
            return None;
        }
        self.next = Some(now + EACH);
        let statuses = recorders.statuses();
        let minute = StageMinute::number(wall);
        let over = (minute != self.minute).then(|| self.written(recorders, &statuses));
        self.minute = minute;
        for status in statuses {
            if status.state == RecordingState::Recording {
                self.add(&status.stream, now);
            }
        }
        over.flatten()
    }

    fn add(&mut self, name: &StreamName, now: Instant) {
        let Some(stream) = self.hub.stream(name.as_str()) else {
            return;
        };
        let mut table = self.latencies.server_stages(&stream, now);
        let delays = self.latencies.delays(name, &mut table, now);
        let stages = self.streams.entry(name.clone()).or_default();
        for row in delays.stages {
            let tenths = (row.p95_ms * 10.0).round() as f32 / 10.0;
            let longest = stages.entry(row.stage.to_owned()).or_default();
            *longest = longest.max(tenths);
        }
    }

    fn written(
        &mut self,
        recorders: &Recorders,
        statuses: &[RecordingStatus],
    ) -> Option<BoxFuture<'static, ()>> {
        let mut rows = HashMap::<PathBuf, Vec<_>>::new();
        for (stream, p95_ms) in std::mem::take(&mut self.streams) {
            let status = statuses.iter().find(|it| it.stream == stream);
            if let Some(folder) = status.and_then(|it| it.folder.clone()) {
                let at_s = self.minute * 60;
                let minute = StageMinute { at_s, p95_ms };
                rows.entry(folder).or_default().push((stream, minute));
            }
        }
        self.writing.retain(|_, it| it.is_used());
        let mut writing = Vec::new();
        for (folder, rows) in rows {
            if self.writing.contains_key(&folder) {
                continue;
            }
            let thread = BlockingPool::new(1);
            self.writing.insert(folder.clone(), thread.clone());
            let catalogue = recorders.catalogue().clone();
            writing.push(async move { thread.run(move || write(&catalogue, &folder, rows)).await });
        }
        // A panic is noted where it happens.
        (!writing.is_empty()).then(|| join_all(writing).map(drop).boxed())
    }
}

/// Writes minutes of streams that are recorded into `folder`. Blocks.
fn write(catalogue: &Catalogue, folder: &Path, rows: Vec<(StreamName, StageMinute)>) {
    for (stream, minute) in rows {
        if let Err(error) = catalogue.add_stage_minute(folder, &stream, &minute) {
            tracing::debug!(%stream, %error, "delays are not kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use glassline_hub::{SourceNote, Wake};
    use glassline_media::{Codec, Track};
    use glassline_recording::{FolderPlan, Keep, Layers, Plan, RecorderParts, StreamPlan};
    use glassline_runtime::{Clock, Supervisor};

    use super::*;

    struct NoWake;

    impl Wake for NoWake {
        fn wake(&self) {}
    }

    fn plan(path: &Path) -> Plan {
        let of_stream = StreamPlan {
            folder: path.to_owned(),
            is_automatic: true,
            is_demanded: false,
            file: Duration::from_secs(600),
            layers: Layers::Best,
            keep: Keep::default(),
        };
        Plan {
            folders: vec![FolderPlan {
                path: path.to_owned(),
                sync: Duration::from_secs(1),
                bytes_max: None,
                free_min: 0,
            }],
            of_stream: Arc::new(move |_| Some(of_stream.clone())),
        }
    }

    #[tokio::test]
    async fn a_minute_of_a_recorded_stream_is_written_beside_its_files() {
        let folder = std::env::temp_dir().join(format!("glassline-stages-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("cam")).expect("a folder");
        let hub = Arc::<Hub>::default();
        let recorders = Recorders::start(RecorderParts {
            hub: Arc::clone(&hub),
            clock: Clock::start(),
            supervisor: Supervisor::start().expect("a thread"),
            known_file: None,
        });
        let recorders = recorders.expect("threads");
        recorders.set_plan(plan(&folder)).expect("threads");
        let mut events = hub.events(Arc::new(NoWake));
        let stream = hub.create(StreamName::parse("cam").expect("a name"));
        let stream = stream.expect("room");
        let note = SourceNote {
            protocol: "whip",
            left_out: Vec::new(),
        };
        let now = Instant::now();
        let publisher = stream.publish_as(note, vec![Track::new(Codec::Vp8)], now);
        let _publisher = publisher.expect("free");
        let mut happened = Vec::new();
        events.poll(&mut happened);
        recorders.observe(&happened);
        let mut history = StageHistory::new(Arc::default(), Arc::clone(&hub));
        // 2026-11-30 14:03:50.
        let wall = UNIX_EPOCH + Duration::from_secs(1_796_047_430);
        stream.note_recorded(Duration::from_millis(400), now);
        assert!(history.look(&recorders, now, wall).is_none());
        let soon = now + Duration::from_secs(1);
        assert!(
            history.look(&recorders, soon, wall + EACH).is_none(),
            "not yet"
        );
        let write = history.look(&recorders, now + EACH, wall + EACH);
        write.expect("the minute is over").await;
        let text = std::fs::read_to_string(folder.join("cam/2026-11-30/stages.jsonl"));
        let text = text.expect("a file");
        recorders.stop(Duration::from_secs(10));
        let _ = std::fs::remove_dir_all(&folder);
        let minute: StageMinute = serde_json::from_str(&text).expect("one line");
        assert_eq!(minute.at_s, 1_796_047_380);
        let record = minute.p95_ms["record"];
        assert!((record - 400.0).abs() < 5.0, "{text}");
    }
}
