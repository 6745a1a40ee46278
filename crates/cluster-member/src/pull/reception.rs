//! One source of a pull: its catalog, and a task for each layer that is carried, which reads units.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use glassline_latency::FrameCode;
use glassline_media::{Kind, LayerIndex, MediaUnit, Track, TrackIndex, TrackLayer};
use glassline_messages::PublisherClaim;
use glassline_quic::moq::{
    DrawnCode, KeyframeRequester, MESSAGES_VERSION, MessageOpener, NodeName, PATH_MAX, PeerClock,
    Provenance, ReadError, UnitBroadcastReader, UnitCatalog, UnitReader,
};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

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
    /// Returns the epoch and the process under which the stream is published.
    pub(super) fn claim(&self) -> PublisherClaim {
        PublisherClaim {
            epoch: self.provenance.epoch,
            process: self.provenance.incarnation,
        }
    }

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
    /// `wanted`: the layers to carry; of a track without one, the base layer.
    pub(super) fn start(
        source: PullSource,
        name: String,
        asking: Vec<NodeName>,
        sessions: Arc<Sessions>,
        wanted: watch::Receiver<Vec<TrackLayer>>,
    ) -> Self {
        let (out, arrivals) = mpsc::channel(WAITING);
        let reading = Reading {
            source: source.clone(),
            name,
            asking,
            out: out.clone(),
            wanted,
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
    wanted: watch::Receiver<Vec<TrackLayer>>,
}

/// The tasks that read layers, each with its layer.
#[derive(Debug, Default)]
struct LayerReadings {
    tasks: JoinSet<Result<(), PullFailure>>,
    by_layer: HashMap<TrackLayer, AbortHandle>,
}

impl Reading {
    /// Reads the source until it ends.
    async fn run(mut self, sessions: &Sessions) -> Result<(), PullFailure> {
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

    async fn follow(&mut self, mut reader: UnitBroadcastReader) -> Result<(), PullFailure> {
        // Dropping the readings ends all tasks.
        let mut readings = LayerReadings::default();
        let mut present: Option<UnitCatalog> = None;
        loop {
            let catalog = tokio::select! {
                catalog = reader.catalog() => catalog?,
                Some(ended) = readings.tasks.join_next() => match ended {
                    Ok(Err(failure)) => return Err(failure),
                    // A track ends before its catalog or its broadcast does, or is carried no more.
                    _ => continue,
                },
                Ok(()) = self.wanted.changed(), if present.is_some() => {
                    if let Some(catalog) = &present {
                        self.read(&reader, catalog, &mut readings).await?;
                    }
                    continue;
                }
            };
            let Some(catalog) = catalog else {
                return Ok(());
            };
            self.check(&catalog.provenance)?;
            let is_new = present
                .as_ref()
                .is_none_or(|it| it.layers != catalog.layers);
            if is_new {
                readings = LayerReadings::default();
            }
            present = Some(catalog.clone());
            let video = catalog.tracks.iter().zip(&catalog.layers);
            let video = video.filter(|(track, _)| track.kind() == Kind::Video);
            // The source requests keyframes of all layers that are carried.
            let names = video.filter_map(|(_, names)| names.first());
            let keyframes = names.map(|name| reader.keyframes_of(name)).collect();
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
            if let Some(catalog) = &present {
                self.read(&reader, catalog, &mut readings).await?;
            }
        }
    }

    /// Begins to read the layers that are wanted, and ends to read others.
    async fn read(
        &mut self,
        reader: &UnitBroadcastReader,
        catalog: &UnitCatalog,
        readings: &mut LayerReadings,
    ) -> Result<(), PullFailure> {
        let wanted = layers_of(catalog, &self.wanted.borrow_and_update());
        readings.by_layer.retain(|layer, task| {
            let is_wanted = wanted.iter().any(|(wanted, _)| wanted == layer);
            if !is_wanted {
                task.abort();
            }
            is_wanted
        });
        for (layer, name) in wanted {
            if readings.by_layer.contains_key(&layer) {
                continue;
            }
            let kind = catalog.tracks[layer.track.get()].kind();
            let units = reader.read(layer, kind, name, DEADLINE).await?;
            let task = readings.tasks.spawn(forward(units, self.out.clone()));
            readings.by_layer.insert(layer, task);
        }
        Ok(())
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

/// Returns the layers of a catalog that are `wanted`, with their names; of a track without one, the base layer.
fn layers_of<'a>(catalog: &'a UnitCatalog, wanted: &[TrackLayer]) -> Vec<(TrackLayer, &'a String)> {
    let mut layers = Vec::new();
    for (track, names) in TrackIndex::enumerate(&catalog.layers) {
        let named = names.iter().enumerate().map(|(layer, name)| {
            let layer = LayerIndex(u8::try_from(layer).unwrap_or(u8::MAX));
            (TrackLayer { track, layer }, name)
        });
        let before = layers.len();
        layers.extend(named.clone().filter(|(layer, _)| wanted.contains(layer)));
        if layers.len() == before {
            layers.extend(named.take(1));
        }
    }
    layers
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
