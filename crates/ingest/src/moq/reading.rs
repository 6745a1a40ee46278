//! The tasks that read the tracks and the catalog of a broadcast.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{Kind, TrackIndex};
use glassline_quic::moq::{
    BroadcastReader, BroadcastTracks, ReceivedFrame, Rendition, SubscribeError, TrackReader,
};
use glassline_runtime::{Counter, FaultPoint, Part, Supervisor};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::BroadcastIngest;

/// Distance from the newest group at which a late group is given up.
const DEADLINE: Duration = Duration::from_secs(2);

/// Most frames that wait for the hub, which is never busy for long.
pub(super) const WAITING: usize = 16;

/// An event from a task that reads a track or the catalog.
pub(super) enum ReaderEvent {
    Frame(TrackIndex, ReceivedFrame),
    /// A track of the broadcast ended.
    TrackOver(TrackIndex),
    /// The catalog has other tracks now, or the broadcast ended.
    CatalogOver,
    Error(SubscribeError),
    /// The task that reads the broadcast panicked.
    Panicked,
}

/// The tasks that read a broadcast. They end when this value is dropped.
pub(super) struct Readers {
    pub(super) events: mpsc::Receiver<ReaderEvent>,
    /// Tells the task of each track whether its frames are wanted; at first they are.
    pub(super) wanted: Vec<watch::Sender<bool>>,
    _tasks: JoinSet<()>,
}

impl Readers {
    /// Begins to read the `chosen` renditions, and to look for changes of the catalog.
    pub(super) fn start(
        ingest: &BroadcastIngest,
        subscription: BroadcastReader,
        chosen: &[Rendition],
    ) -> Self {
        let (out, events) = mpsc::channel(WAITING);
        let (mut wanted, mut tasks) = (Vec::new(), JoinSet::new());
        for (track, rendition) in TrackIndex::enumerate(chosen) {
            let (switch, is_wanted) = watch::channel(true);
            wanted.push(switch);
            let reading = TrackReading {
                tracks: subscription.tracks(),
                rendition: rendition.clone(),
                track,
                late_groups: Arc::clone(&ingest.late_groups),
                out: out.clone(),
                supervisor: Arc::clone(&ingest.supervisor),
            };
            let supervisor = Arc::clone(&ingest.supervisor);
            tasks.spawn(told(supervisor, reading.run(is_wanted), out.clone()));
        }
        let following = follow(subscription, chosen.to_vec(), out.clone());
        tasks.spawn(told(Arc::clone(&ingest.supervisor), following, out));
        Self {
            events,
            wanted,
            _tasks: tasks,
        }
    }
}

/// Waits until `deadline`; forever without one.
pub(super) async fn wait_until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Waits for `reading`, and tells the publishing task if it panics: the track would be missing, and
/// nobody would know why.
async fn told(
    supervisor: Arc<Supervisor>,
    reading: impl Future<Output = ()>,
    out: mpsc::Sender<ReaderEvent>,
) {
    if supervisor.catch_task(Part::Quic, reading).await.is_err() {
        let _ = out.send(ReaderEvent::Panicked).await;
    }
}

/// Reads a track, while its frames are wanted, and sends them to the publishing task.
struct TrackReading {
    tracks: BroadcastTracks,
    rendition: Rendition,
    track: TrackIndex,
    late_groups: Arc<Counter>,
    out: mpsc::Sender<ReaderEvent>,
    supervisor: Arc<Supervisor>,
}

impl TrackReading {
    async fn run(self, mut wanted: watch::Receiver<bool>) {
        loop {
            // A dropped sender means that the publishing task has ended.
            if wanted.wait_for(|it| *it).await.is_err() {
                return;
            }
            let reader = match self.tracks.read(&self.rendition, DEADLINE).await {
                Ok(reader) => reader,
                Err(error) => {
                    let _ = self.out.send(ReaderEvent::Error(error)).await;
                    return;
                }
            };
            tokio::select! {
                () = self.forward(reader) => return,
                // The reader is dropped, which ends the subscription.
                _ = wanted.wait_for(|it| !*it) => {}
            }
        }
    }

    /// Sends frames on until the track or the publishing task ends.
    async fn forward(&self, mut reader: TrackReader) {
        let mut late = 0;
        loop {
            self.supervisor.fault_point(FaultPoint::QuicTrack);
            let event = match reader.next().await {
                Ok(Some(frame)) => ReaderEvent::Frame(self.track, frame),
                Ok(None) => ReaderEvent::TrackOver(self.track),
                Err(error) => ReaderEvent::Error(error),
            };
            self.late_groups.add(reader.late() - late);
            late = reader.late();
            let is_last = !matches!(event, ReaderEvent::Frame(..));
            if self.out.send(event).await.is_err() || is_last {
                return;
            }
        }
    }
}

/// Reports when the catalog no longer has the chosen tracks.
async fn follow(
    mut subscription: BroadcastReader,
    chosen: Vec<Rendition>,
    out: mpsc::Sender<ReaderEvent>,
) {
    let kind = |it: &Rendition| (it.name.clone(), it.track.codec, it.framing);
    let before: Vec<_> = chosen.iter().map(kind).collect();
    let has_video = |it: &&Rendition| it.track.kind() == Kind::Video;
    let has_layers = chosen.iter().filter(has_video).count() > 1;
    let event = loop {
        match subscription.catalog().await {
            Ok(Some(catalog)) => {
                if let Err(error) = catalog.choose() {
                    break ReaderEvent::Error(error.into());
                }
                let now: Vec<_> = catalog.renditions.iter().map(kind).collect();
                // The order of layers may change with the bitrates that are stated.
                let has_best = has_layers || now.first() == before.first();
                if !has_best || !before.iter().all(|it| now.contains(it)) {
                    break ReaderEvent::CatalogOver;
                }
            }
            // Some publishers end the catalog track once the catalog was sent.
            Ok(None) => {
                subscription.ended().await;
                break ReaderEvent::CatalogOver;
            }
            Err(error) => break ReaderEvent::Error(error),
        }
    };
    let _ = out.send(event).await;
}
