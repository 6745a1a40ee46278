//! Offers the hub's streams to other servers of the cluster, as units.
//!
//! ```text
//! another server asks ─► NodeRequests ─► the stream's task: hub ─ units ─► UnitBroadcast
//!                           └ not in this hub ─► Finder: pulled from a third server
//! ```
//!
//! A stream costs nothing here until a server asks for it, and is written once for all that do. Of several
//! layers, those are written that servers read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Hub, Stream, StreamName, Subscription, Wake};
use glassline_media::{Bitrate, Kind, LayerIndex, MediaUnit, Track, TrackIndex, TrackLayer};
use glassline_quic::moq::{
    DrawnCode, Ended, NodeClock, NodeName, NodeRequest, Origin, PATH_MAX, Provenance,
    RequestRefusal, UnitBroadcast,
};
use glassline_runtime::{Part, Supervisor, TaskWaker, await_tracks, may_come};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::moq::DEADLINE;

/// Time for which a stream is still written after its last reader left.
const LINGER: Duration = Duration::from_secs(2);

/// Most requests that wait for one stream's task.
const WAITING: usize = 64;

/// Interval at which the rates of layers are measured, by which other servers choose.
const MEASUREMENTS: Duration = Duration::from_secs(2);

/// Longest time that a server waits for a stream that this one may get.
const PATIENCE: Duration = Duration::from_secs(3);

/// Begins to pull a stream that the hub does not have, for the servers that ask. Returns the stream
/// to wait for, if there may be one.
pub type Finder = Arc<dyn Fn(&str, &[NodeName]) -> Option<Arc<Stream>> + Send + Sync>;

/// Returns where a stream comes from.
pub type Provenances = Arc<dyn Fn(&StreamName) -> Provenance + Send + Sync>;

/// The number that the source of a stream draws into its frames, if it draws one.
pub type DrawnCodes = Arc<dyn Fn(&StreamName) -> Option<DrawnCode> + Send + Sync>;

/// The services that offering streams to servers needs.
#[derive(Clone)]
pub struct Services {
    /// Hub whose streams are offered.
    pub hub: Arc<Hub>,
    /// Name of this server in the cluster.
    pub node: NodeName,
    /// Clock of this server, as others see it.
    pub clock: NodeClock,
    /// Finds a stream that another server asks for.
    pub find: Finder,
    /// Returns which servers a stream has passed.
    pub provenance_of: Provenances,
    /// Returns the number that a source draws into its frames.
    pub code_of: DrawnCodes,
    /// Returns whether servers may have the stream of this name.
    pub has: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// Returns whether this server is the one of the cluster that publishes the stream of this name, or
    /// is about to.
    pub is_own: Arc<dyn Fn(&StreamName) -> bool + Send + Sync>,
    /// Watches the tasks that serve others.
    pub supervisor: Arc<Supervisor>,
}

/// Serves the requests of other servers until this one stops.
pub async fn run(origin: Origin, services: Services, mut stopped: watch::Receiver<bool>) {
    let Ok(requests) = origin.serve_nodes() else {
        return;
    };
    let mut offered: HashMap<String, mpsc::Sender<NodeRequest>> = HashMap::new();
    let mut tasks = JoinSet::new();
    loop {
        let request = tokio::select! {
            request = requests.next() => request,
            Some(_) = tasks.join_next() => {
                offered.retain(|_, task| !task.is_closed());
                continue;
            }
            _ = stopped.wait_for(|stop| *stop) => return,
        };
        let Some(request) = request else { return };
        if request.is_loop(&services.node) {
            request.refuse(RequestRefusal::Loop);
            continue;
        }
        let name = request.name().to_owned();
        let request = match offered.get(&name) {
            None => request,
            Some(task) => match task.try_send(request) {
                Ok(()) => continue,
                // More requests than any cluster makes: they come again.
                Err(mpsc::error::TrySendError::Full(request)) => {
                    request.refuse(RequestRefusal::NotFound);
                    continue;
                }
                // The task has just ended.
                Err(mpsc::error::TrySendError::Closed(request)) => request,
            },
        };
        let (to, from) = mpsc::channel(WAITING);
        let asking = request.asking().to_vec();
        // There is room for it.
        let _ = to.try_send(request);
        let (origin, services) = (origin.clone(), services.clone());
        offered.insert(name.clone(), to);
        tasks.spawn(async move {
            let supervisor = Arc::clone(&services.supervisor);
            let offering = offer(&name, &asking, from, &origin, &services);
            if supervisor.catch_task(Part::Quic, offering).await.is_err() {
                tracing::error!(
                    stream = name,
                    "offering the stream to other servers panicked: they ask again"
                );
            }
        });
    }
}

/// Offers one stream for as long as servers read it.
async fn offer(
    name: &str,
    asking: &[NodeName],
    mut requests: mpsc::Receiver<NodeRequest>,
    origin: &Origin,
    services: &Services,
) {
    let found = tokio::time::timeout(PATIENCE, find(name, asking, services)).await;
    let refusal = match found {
        Ok(Some(stream)) => match Offered::new(stream, origin, services) {
            Ok(offered) => {
                if let Err(ended) = offered.run(&mut requests).await {
                    tracing::debug!(stream = name, %ended, "stream is not offered to servers any more");
                }
                RequestRefusal::NotFound
            }
            Err(refusal) => refusal,
        },
        Ok(None) | Err(_) => RequestRefusal::NotFound,
    };
    requests.close();
    while let Some(request) = requests.recv().await {
        request.refuse(refusal);
    }
}

/// Returns the stream, once it has tracks.
async fn find(name: &str, asking: &[NodeName], services: &Services) -> Option<Arc<Stream>> {
    if !(services.has)(name) {
        return None;
    }
    if let Ok(name) = StreamName::parse(name)
        && (services.is_own)(&name)
    {
        return await_own(&name, services).await;
    }
    let found = services.hub.stream(name);
    let stream = found.or_else(|| (services.find)(name, asking))?;
    if may_come(&stream) {
        drop(await_tracks(&stream).await);
    }
    (!stream.tracks().is_empty()).then_some(stream)
}

/// Returns a stream of this server's own, once it is published. Other servers learn of a publisher when
/// it has the name, which is before its first frame. Refused then, they would search elsewhere for
/// seconds.
async fn await_own(name: &StreamName, services: &Services) -> Option<Arc<Stream>> {
    let changed = Arc::new(TaskWaker::default());
    let waker = Arc::clone(&changed) as Arc<dyn Wake>;
    let _events = services.hub.events_of(name.clone(), waker);
    // A camera on demand comes because somebody asks.
    let mut demand = None;
    while (services.is_own)(name) {
        if let Some(stream) = services.hub.stream(name.as_str()) {
            if stream.is_published() && !stream.tracks().is_empty() {
                return Some(stream);
            }
            demand.get_or_insert_with(|| stream.demand());
        }
        changed.woken().await;
    }
    None
}

/// A stream that is offered.
struct Offered {
    stream: Arc<Stream>,
    broadcast: UnitBroadcast,
    provenance: Provenance,
    services: Services,
    arrival: Arc<TaskWaker>,
    /// Reads the layers that servers read; until the first one does, the base layer of each track.
    subscription: Subscription,
    /// The layers that servers read.
    wanted: Vec<TrackLayer>,
    /// Number of the next unit of each layer.
    next: HashMap<TrackLayer, u64>,
    /// The tracks as other servers know them, and when they were measured.
    told: Vec<Track>,
    measured: Instant,
    /// When somebody needed the stream.
    needed: Instant,
}

impl Offered {
    fn new(
        stream: Arc<Stream>,
        origin: &Origin,
        services: &Services,
    ) -> Result<Self, RequestRefusal> {
        let provenance = (services.provenance_of)(stream.name());
        if provenance.path.len() > PATH_MAX {
            return Err(RequestRefusal::Loop);
        }
        let broadcast = origin.units(stream.name().as_str(), services.clock, DEADLINE);
        let broadcast = broadcast.map_err(|_| RequestRefusal::NotFound)?;
        let arrival = Arc::new(TaskWaker::default());
        let subscription = stream.subscribe(Arc::clone(&arrival) as Arc<dyn Wake>);
        Ok(Self {
            stream,
            broadcast,
            provenance,
            services: services.clone(),
            arrival,
            subscription,
            wanted: Vec::new(),
            next: HashMap::new(),
            told: Vec::new(),
            measured: Instant::now(),
            needed: Instant::now(),
        })
    }

    async fn run(mut self, requests: &mut mpsc::Receiver<NodeRequest>) -> Result<(), Ended> {
        let mut layout = self.stream.layout();
        let mut tracks = self.stream.tracks();
        let mut code = (self.services.code_of)(self.stream.name());
        self.describe(&tracks, code)?;
        self.begin();
        let mut arrived = Vec::new();
        loop {
            if self.broadcast.has_reader() {
                self.needed = Instant::now();
            }
            let unneeded = tokio::time::sleep_until((self.needed + LINGER).into());
            tokio::select! {
                request = requests.recv() => match request {
                    Some(request) => {
                        self.needed = Instant::now();
                        request.accept(&self.broadcast);
                    }
                    None => break,
                },
                () = self.arrival.woken() => {}
                () = self.broadcast.layers_changed(&self.wanted) => {}
                () = self.broadcast.keyframe_requested() => self.request_keyframes(),
                () = unneeded => {
                    if !self.broadcast.has_reader() {
                        break;
                    }
                }
            }
            let provenance = (self.services.provenance_of)(self.stream.name());
            let present = self.stream.tracks();
            let is_new_layout = self.stream.layout() != layout;
            let drawn = (self.services.code_of)(self.stream.name());
            let is_like = match (&drawn, &code) {
                (Some(one), Some(other)) => one.is_like(other),
                (one, other) => one == other,
            };
            let has_other_source = provenance != self.provenance || !is_like;
            let has_other_rates = self.has_other_rates(&present);
            if has_other_rates
                || is_new_layout
                || !Arc::ptr_eq(&present, &tracks)
                || has_other_source
            {
                (layout, tracks, self.provenance) = (self.stream.layout(), present, provenance);
                code = drawn;
                self.describe(&tracks, code)?;
                if is_new_layout {
                    self.begin();
                }
            }
            self.follow_readers();
            self.read(&mut arrived);
        }
        self.broadcast.finish();
        Ok(())
    }

    /// Describes the tracks as other servers get them, with the rates of their layers.
    fn describe(&mut self, tracks: &[Track], code: Option<DrawnCode>) -> Result<(), Ended> {
        self.measured = Instant::now();
        self.told = self.measure(tracks, self.measured);
        self.broadcast.describe(&self.provenance, &self.told, code)
    }

    /// Returns the tracks with the rates of their layers. Layers in another codec than their track's are for
    /// this server's receivers alone: other servers get the best encoding then.
    fn measure(&self, tracks: &[Track], now: Instant) -> Vec<Track> {
        let mut tracks = tracks.to_vec();
        for (track, described) in TrackIndex::enumerate(&mut tracks) {
            if described.layers.iter().any(|it| it.other_codec.is_some()) {
                described.layers.clear();
            }
            for (place, layer) in described.layers.iter_mut().enumerate() {
                if !layer.is_paused() {
                    let index = LayerIndex::of_encoding(place);
                    let of = TrackLayer {
                        track,
                        layer: index,
                    };
                    layer.bitrate = Some(self.stream.figures(of, now).bitrate);
                }
            }
        }
        tracks
    }

    /// Returns whether the rates of layers are to be told anew.
    fn has_other_rates(&mut self, tracks: &[Track]) -> bool {
        let now = Instant::now();
        let is_layered = self.told.iter().any(|it| !it.layers.is_empty());
        if !is_layered || now.saturating_duration_since(self.measured) < MEASUREMENTS {
            return false;
        }
        self.measured = now;
        let measured = self.measure(tracks, now);
        let layers = |tracks: &[Track]| -> Vec<u64> {
            let layers = tracks.iter().flat_map(|it| &it.layers);
            layers
                .map(|it| it.bitrate.map_or(0, Bitrate::bps))
                .collect()
        };
        let (told, measured) = (layers(&self.told), layers(&measured));
        let is_other = |(old, new): (&u64, &u64)| 3 * old.abs_diff(*new) > *old.max(new);
        told.len() != measured.len() || told.iter().zip(&measured).any(is_other)
    }

    /// Writes what is needed to begin with.
    fn begin(&mut self) {
        self.next.clear();
        let layers = match self.wanted.is_empty() {
            true => bases(&self.stream.tracks()).collect(),
            false => self.wanted.clone(),
        };
        layers.into_iter().for_each(|it| self.begin_layer(it));
    }

    /// Writes the units of a layer from its latest keyframe on.
    fn begin_layer(&mut self, layer: TrackLayer) {
        let tracks = self.stream.tracks();
        let described = tracks.get(layer.track.get());
        if described.is_none_or(|it| it.kind() == Kind::Audio) {
            return;
        }
        let units = self.stream.since_keyframe(layer);
        if units.is_empty() {
            // The keyframe has left the ring, and nobody can begin without one.
            self.stream.request_keyframe_of(layer);
        }
        units.iter().for_each(|unit| self.write(unit));
    }

    /// Reads the layers that servers read, and begins those that are new.
    fn follow_readers(&mut self) {
        let read = self.broadcast.layers_read();
        if read == self.wanted {
            return;
        }
        match read.is_empty() {
            true => {
                let bases: Vec<_> = bases(&self.stream.tracks()).collect();
                self.subscription.read(&bases);
            }
            false => self.subscription.read(&read),
        }
        let before = std::mem::replace(&mut self.wanted, read.clone());
        let new = read.into_iter().filter(|it| !before.contains(it));
        new.for_each(|it| self.begin_layer(it));
    }

    /// Requests keyframes of the layers that servers read.
    fn request_keyframes(&self) {
        let tracks = self.stream.tracks();
        let is_video = |it: &&TrackLayer| {
            let track = tracks.get(it.track.get());
            track.is_some_and(|it| it.kind() == Kind::Video)
        };
        let read = self.wanted.iter().filter(is_video);
        read.for_each(|it| self.stream.request_keyframe_of(*it));
    }

    fn read(&mut self, arrived: &mut Vec<Arc<MediaUnit>>) {
        self.subscription.poll(arrived);
        for unit in arrived.drain(..) {
            self.write(&unit);
        }
    }

    fn write(&mut self, unit: &MediaUnit) {
        let next = self.next.entry(unit.track_layer()).or_default();
        if unit.index >= *next {
            *next = unit.index + 1;
            self.broadcast.write(unit);
        }
    }
}

/// Returns the base layer of each track.
fn bases(tracks: &[Track]) -> impl Iterator<Item = TrackLayer> + use<> {
    TrackIndex::first(tracks.len()).map(TrackLayer::from)
}
