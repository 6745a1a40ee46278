//! One source of a pull: its catalog, and a task for each layer that reads units.

use std::sync::Arc;
use std::time::Duration;

use glassline_latency::FrameCode;
use glassline_media::{Kind, LayerIndex, MediaUnit, Track, TrackIndex, TrackLayer};
use glassline_quic::moq::{
    DrawnCode, KeyframeRequester, MESSAGES_VERSION, MessageOpener, NodeName, PATH_MAX, PeerClock,
    Provenance, ReadError, UnitBroadcastReader, UnitCatalog, UnitReader,
};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::sessions::Sessions;
use super::{PullFailure, PullSource};

/// Distance from the newest group at which a late group is given up.
const DEADLINE: Duration = Duration::from_secs(2);

/// Most units that wait for the hub, which is never busy for long.
const WAITING: usize = 64;

/// An arrival from a source at the driver of its pull.
#[derive(Debug)]
pub(super) enum Arrival {
    /// The source's tracks, before their first unit, and whenever other codecs begin.
    Tracks(Arc<Described>),
    /// The tracks, described anew.
    Redescribed(Arc<Described>),
    Unit(MediaUnit),
    /// The source has failed or ended; nothing follows.
    Over(PullFailure),
}

/// The tracks of a source, and where they come from.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) provenance: Provenance,
    pub(super) tracks: Vec<Track>,
    /// Requests keyframes of the video tracks.
    pub(super) keyframes: Vec<KeyframeRequester>,
    /// Opens streams of messages; `None` if the source knows no messages of this version.
    pub(super) messages: Option<MessageOpener>,
    /// The number in the frames, with the clock that its epoch is told by.
    pub(super) code: Option<(DrawnCode, PeerClock)>,
}

impl Described {
    /// Returns the number in the frames by this server's clock. `None` before the clocks of the servers
    /// were compared, too.
    pub(super) fn frame_code(&self) -> Option<FrameCode> {
        let (code, clock) = self.code.as_ref()?;
        Some(FrameCode {
            fps: code.fps,
            frames: code.frames,
            epoch: clock.round(code.epoch_ns, code.round())?,
        })
    }
}

/// A source that is being read. It is given up when this value is dropped.
#[derive(Debug)]
pub(super) struct Reception {
    pub(super) source: PullSource,
    arrivals: mpsc::Receiver<Arrival>,
    task: JoinHandle<()>,
}

impl Reception {
    /// Begins to read the stream `name` from `source`. The servers `asking` ask, this one last.
    pub(super) fn start(
        source: PullSource,
        name: String,
        asking: Vec<NodeName>,
        sessions: Arc<Sessions>,
    ) -> Self {
        let (out, arrivals) = mpsc::channel(WAITING);
        let reading = Reading {
            source: source.clone(),
            name,
            asking,
            out: out.clone(),
        };
        let task = tokio::spawn(async move {
            let over = match reading.run(&sessions).await {
                Ok(()) => PullFailure::Ended,
                Err(failure) => failure,
            };
            let _ = out.send(Arrival::Over(over)).await;
        });
        Self {
            source,
            arrivals,
            task,
        }
    }

    /// Returns what arrives next.
    pub(super) async fn next(&mut self) -> Arrival {
        let over = || Arrival::Over(PullFailure::Ended);
        self.arrivals.recv().await.unwrap_or_else(over)
    }
}

impl Drop for Reception {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Reading {
    source: PullSource,
    name: String,
    asking: Vec<NodeName>,
    out: mpsc::Sender<Arrival>,
}

impl Reading {
    /// Reads the source until it ends.
    async fn run(&self, sessions: &Sessions) -> Result<(), PullFailure> {
        let session = sessions.get(&self.source.address).await?;
        let attempt = sessions.attempt();
        let reader = session
            .read_units(&self.asking, &self.name, attempt)
            .await?;
        tokio::select! {
            read = self.follow(reader) => read,
            ended = session.ended() => Err(ReadError::from(ended).into()),
        }
    }

    async fn follow(&self, mut reader: UnitBroadcastReader) -> Result<(), PullFailure> {
        // Dropping the set ends all tasks.
        let mut tasks = JoinSet::new();
        let mut readers = Vec::new();
        let mut before: Option<(Vec<Vec<String>>, Vec<KeyframeRequester>)> = None;
        loop {
            let catalog = tokio::select! {
                catalog = reader.catalog() => catalog?,
                Some(ended) = tasks.join_next() => match ended {
                    Ok(Err(failure)) => return Err(failure),
                    // A track ends before its catalog or its broadcast does.
                    _ => continue,
                },
            };
            let Some(catalog) = catalog else {
                return Ok(());
            };
            self.check(&catalog.provenance)?;
            let (is_new, keyframes) = match before.take() {
                Some((layers, keyframes)) if layers == catalog.layers => (false, keyframes),
                _ => {
                    tasks = JoinSet::new();
                    readers = read_all(&reader, &catalog).await?;
                    let video = readers.iter().filter(|(kind, _)| *kind == Kind::Video);
                    (true, video.map(|(_, units)| units.keyframes()).collect())
                }
            };
            before = Some((catalog.layers, keyframes.clone()));
            let knows_messages = catalog.messages == u64::from(MESSAGES_VERSION);
            let described = Arc::new(Described {
                provenance: catalog.provenance,
                tracks: catalog.tracks,
                keyframes,
                messages: knows_messages.then(|| reader.messages()),
                code: catalog.code.map(|code| (code, reader.clock())),
            });
            let arrival = match is_new {
                true => Arrival::Tracks(described),
                false => Arrival::Redescribed(described),
            };
            if self.out.send(arrival).await.is_err() {
                return Ok(());
            }
            // Only now, so that no unit comes before its tracks.
            for (_, units) in readers.drain(..) {
                tasks.spawn(forward(units, self.out.clone()));
            }
        }
    }

    /// Checks that the stream is the expected one, and no circle of servers passes it on.
    fn check(&self, provenance: &Provenance) -> Result<(), PullFailure> {
        let found = provenance.epoch;
        if let Some(expected) = self.source.epoch.filter(|expected| *expected != found) {
            return Err(PullFailure::Epoch { expected, found });
        }
        let own = self.asking.last();
        let is_loop = own.is_some_and(|own| provenance.path.contains(own));
        if is_loop || provenance.path.len() > PATH_MAX {
            return Err(PullFailure::Loop);
        }
        Ok(())
    }
}

/// Subscribes to all layers of all tracks.
async fn read_all(
    reader: &UnitBroadcastReader,
    catalog: &UnitCatalog,
) -> Result<Vec<(Kind, UnitReader)>, PullFailure> {
    let mut readers = Vec::new();
    let tracks = catalog.tracks.iter().zip(&catalog.layers).enumerate();
    for (index, (track, names)) in tracks {
        for (layer, name) in names.iter().enumerate() {
            let of = TrackLayer {
                track: TrackIndex(index),
                layer: LayerIndex(u8::try_from(layer).unwrap_or(u8::MAX)),
            };
            let units = reader.read(of, track.kind(), name, DEADLINE).await?;
            readers.push((track.kind(), units));
        }
    }
    Ok(readers)
}

/// Sends the units of one layer to the driver.
async fn forward(mut units: UnitReader, out: mpsc::Sender<Arrival>) -> Result<(), PullFailure> {
    while let Some(received) = units.next().await? {
        let unit = received.parts.unite();
        let unit = unit.map_err(|error| ReadError::Object(error.into()))?;
        if out.send(Arrival::Unit(unit)).await.is_err() {
            break;
        }
    }
    Ok(())
}
