//! One stream of the hub: tracks, rings of units, timeline, state, and its subscribers.
mod demand;
mod dropped_units;
mod keyframe_wishes;
mod ladder;
mod layer_wish;
mod layers;
mod only_source;
mod preference;
mod publishing;
mod rate;
mod rendition;
mod source_note;
mod stand_in;
mod state;
mod status;
mod subscribers;
mod subscription;
mod telling;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use glassline_media::{Bitrate, Kind, MediaUnit, Stage, StageTable, Track, TrackIndex, TrackLayer};
use parking_lot::Mutex;

use crate::events::{EventQueues, Incarnation, StreamChange};
use crate::keyframe_size::KeyframeSize;
use crate::layout::{LayoutTracks, TrackLayout};
use crate::ring::{LayerFigures, Ring};
use crate::timeline::Timeline;
use crate::transcode::Transcode;
use crate::watch::Watchers;
use crate::{Limits, StreamName};

pub use demand::Demand;
use keyframe_wishes::KeyframeWishes;
pub use keyframe_wishes::WantedKeyframes;
use ladder::StreamLadder;
pub use ladder::{LadderNeed, LadderPlan, PlannedRung};
pub use layer_wish::{LayerWish, LayerWishError, NoSuchLayer};
pub use layers::LayersRead;
pub(crate) use publishing::Begin;
use publishing::{PublishingSource, StandIn};
use rate::Rate;
use rendition::Rendition;
pub use rendition::RenditionPublisher;
pub use source_note::SourceNote;
pub use stand_in::PartingKeyframe;
pub use state::{Prospect, State, StreamLifetime};
pub use status::Status;
use subscribers::Subscribers;
pub use subscription::Subscription;
use telling::Announced;

/// Window of the ingest stage's delays.
const WINDOW: Duration = Duration::from_secs(10);

/// Counts of a stream since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Units: access units or parts of them.
    pub units: u64,
    /// RTP packets of those units.
    pub packets: u64,
    /// Payload bytes of those packets.
    pub bytes: u64,
    /// Sources that published the stream, one after the other.
    pub sources: u64,
    /// Frames that sources dropped because they were too large.
    pub oversized: u64,
}

/// One named stream: its tracks, recent units, timeline and state.
///
/// A source calls [`publish`](Self::publish), an egress [`subscribe`](Self::subscribe); see
/// the [crate's example](crate). Streams are shared as `Arc<Stream>`, and all methods take
/// `&self`.
#[derive(derive_more::Debug)]
#[debug("Stream {{ name: {name:?}, state: {:?}, .. }}", self.state())]
pub struct Stream {
    name: StreamName,
    limits: Limits,
    inner: Mutex<Inner>,
    incarnation: Incarnation,
    /// Readers of the events of the hub that made the stream; empty if no hub did.
    events: EventQueues,
    viewers: AtomicUsize,
    /// Keyframes that viewers want, until the publisher asks.
    keyframe_wishes: KeyframeWishes,
    /// Set for a source that something stands in for, which has to begin with a keyframe.
    resumption_wanted: AtomicBool,
    /// Number of [`Demand`]s.
    demands: AtomicUsize,
    /// Watchers of this stream's demand and of its source.
    source_watchers: Watchers,
    /// Choice in the configuration of the source; `None` without one.
    transcode: Mutex<Option<Transcode>>,
}

/// The state of a stream, behind its lock.
struct Inner {
    state: State,
    tracks: Arc<[Track]>,
    layout: LayoutTracks,
    /// The rings of each track, by index: one for each layer.
    rings: Vec<Vec<Ring>>,
    made: MadeLayers,
    timeline: Timeline,
    /// Number of publishers so far. A publisher that was replaced recognizes it by its number.
    publishers: u64,
    /// The source that holds the stream, whether or not something stands in for it.
    source: Option<PublishingSource>,
    /// The stand-in for the source.
    stand_in: Option<StandIn>,
    /// Latest keyframe of the source before something stood in for it, or before it ended; `None`
    /// while units of a source are published.
    parting: Option<PartingKeyframe>,
    /// The prospect of tracks that a request may wait for.
    prospect: Prospect,
    /// Number of times that the source failed.
    failures: u64,
    listing: Listing,
    /// Whether the stream was deleted: nothing is published any more.
    is_deleted: bool,
    subscribers: Subscribers,
    totals: Totals,
    ingest: StageTable,
    rate: Rate,
    /// The note of the present or latest source about itself.
    note: Option<Arc<SourceNote>>,
    announced: Announced,
}

/// The layers that this server makes of tracks.
#[derive(Default)]
struct MadeLayers {
    /// Layers that have a publisher, or had one.
    renditions: Vec<Rendition>,
    ladder: StreamLadder,
}

/// How the hub lists a stream.
#[derive(Debug, Default)]
struct Listing {
    /// Whether the hub lists the stream. The events of a stream that no hub lists are for nobody.
    is_listed: bool,
    lifetime: StreamLifetime,
    /// Kind of the source that alone publishes the stream; `None` if clients may publish it, too.
    only_source: Option<&'static str>,
    /// Instant at which a sweep first found the stream without publisher and holder.
    unused_since: Option<Instant>,
}

impl Inner {
    /// Creates the missing rings for the layers of `tracks`; existing rings stay.
    fn make_rings(&mut self, tracks: &[Track]) {
        let count = self.rings.len().max(tracks.len());
        self.rings.resize_with(count, Vec::new);
        for (rings, track) in self.rings.iter_mut().zip(tracks) {
            let count = rings.len().max(track.layer_count());
            rings.resize_with(count, Ring::default);
        }
    }

    fn ring(&self, of: TrackLayer) -> Option<&Ring> {
        if self.is_rendition(of) {
            return self.rendition(of).map(Rendition::ring);
        }
        self.rings.get(of.track.get())?.get(usize::from(of.layer.0))
    }
}

impl Stream {
    /// Creates a stream that is removed some time after its publisher left.
    pub(crate) fn admitted(name: StreamName, limits: Limits, events: EventQueues) -> Self {
        Self {
            name,
            limits,
            inner: Mutex::new(Inner {
                state: State::Connecting,
                tracks: Arc::new([]),
                layout: LayoutTracks::default(),
                rings: Vec::new(),
                made: MadeLayers::default(),
                timeline: Timeline::default(),
                publishers: 0,
                source: None,
                stand_in: None,
                parting: None,
                prospect: Prospect::default(),
                failures: 0,
                listing: Listing::default(),
                is_deleted: false,
                subscribers: Subscribers::default(),
                totals: Totals::default(),
                ingest: StageTable::new(WINDOW),
                rate: Rate::default(),
                note: None,
                announced: Announced::default(),
            }),
            incarnation: events.next_incarnation(),
            events,
            viewers: AtomicUsize::new(0),
            keyframe_wishes: KeyframeWishes::default(),
            resumption_wanted: AtomicBool::new(false),
            demands: AtomicUsize::new(0),
            source_watchers: Watchers::default(),
            transcode: Mutex::default(),
        }
    }

    /// Creates a stream that no hub lists, for callers that are given the stream.
    pub fn unlisted(name: StreamName, limits: Limits) -> Arc<Self> {
        let stream = Self::admitted(name, limits, EventQueues::default());
        stream.set_lifetime(StreamLifetime::Configured);
        Arc::new(stream)
    }

    /// Sets how long the stream is listed without a publisher. A stream that the configuration names
    /// stays listed.
    pub fn set_lifetime(&self, lifetime: StreamLifetime) {
        let mut inner = self.inner.lock();
        if !inner.listing.lifetime.is_lasting() && inner.listing.lifetime != lifetime {
            inner.listing.lifetime = lifetime;
            // The status may be another one.
            self.tell(inner, &[StreamChange::State]);
        }
    }

    /// Returns whether the stream stays listed always, because the configuration names it.
    pub fn is_configured(&self) -> bool {
        self.inner.lock().listing.lifetime.is_lasting()
    }

    /// Looks for what only the passing of time changes. Returns for how long the stream has had neither
    /// publisher nor holder; `None` if it has one of them, or if it is configured and therefore stays
    /// listed.
    pub(crate) fn sweep(&self, is_held: bool, now: Instant) -> Option<Duration> {
        let mut inner = self.inner.lock();
        if is_held || inner.is_published() || inner.listing.lifetime.is_lasting() {
            inner.listing.unused_since = None;
            self.tell_silence(inner, now);
            return None;
        }
        if inner.listing.lifetime == StreamLifetime::Transient {
            return Some(Duration::MAX);
        }
        let since = *inner.listing.unused_since.get_or_insert(now);
        Some(now.saturating_duration_since(since))
    }

    /// Returns the stream's name.
    pub fn name(&self) -> &StreamName {
        &self.name
    }

    /// Returns the state of the stream's source.
    pub fn state(&self) -> State {
        self.inner.lock().state.clone()
    }

    /// Sets the state of a source that does not publish now.
    pub fn set_state(&self, state: State) {
        let mut inner = self.inner.lock();
        if inner.is_deleted {
            return;
        }
        inner.failures += u64::from(matches!(state, State::Down { .. }));
        inner.state = state;
        // Requests wait for the source, and learn here that it failed.
        inner.subscribers.wake_all();
        self.tell(inner, &[StreamChange::State]);
        self.source_watchers.wake();
    }

    /// Returns who gets video transcoded that browsers cannot show; `None` if the source's configuration
    /// chooses nothing.
    pub fn transcode(&self) -> Option<Transcode> {
        *self.transcode.lock()
    }

    /// Sets the viewers who get transcoded video from now on.
    pub fn set_transcode(&self, choice: Option<Transcode>) {
        *self.transcode.lock() = choice;
    }

    /// Returns the event that a request may wait for while the stream has no tracks.
    pub fn prospect(&self) -> Prospect {
        self.inner.lock().prospect
    }

    /// Sets the event that a request may wait for while the stream has no tracks.
    pub fn set_prospect(&self, prospect: Prospect) {
        let mut inner = self.inner.lock();
        if std::mem::replace(&mut inner.prospect, prospect) != prospect {
            self.tell(inner, &[StreamChange::Prospect]);
        }
    }

    /// Number of times that the source failed since the stream was created.
    pub fn failures(&self) -> u64 {
        self.inner.lock().failures
    }

    /// Returns the tracks of the latest source; empty before the first one.
    pub fn tracks(&self) -> Arc<[Track]> {
        Arc::clone(&self.inner.lock().tracks)
    }

    /// Returns the present track layout. A receiver reads the layout before
    /// [`tracks`](Self::tracks) and ends once the layout is another one, because the stream then
    /// has tracks that the receiver did not negotiate.
    pub fn layout(&self) -> TrackLayout {
        self.inner.lock().layout.number()
    }

    /// Returns the index of the track whose frames the latency tables count: the first video
    /// track, or track 0 if there is no video.
    pub fn latency_track(&self) -> TrackIndex {
        latency_track(&self.inner.lock().tracks)
    }

    /// Returns the counts since the stream was created.
    pub fn totals(&self) -> Totals {
        self.inner.lock().totals
    }

    /// Returns the payload bitrate over the last seconds.
    pub fn bitrate(&self, now: Instant) -> Bitrate {
        self.inner.lock().rate.read(now)
    }

    /// Returns the delays of the stages up to publication, and of the way to a recording.
    pub fn ingest_stage(&self) -> StageTable {
        self.inner.lock().ingest.clone()
    }

    /// Counts how long frames took from publication until a recording had them, at `now`. A recording calls
    /// this once a fragment.
    pub fn note_recorded(&self, delay: Duration, now: Instant) {
        self.inner.lock().ingest.record(Stage::Record, delay, now);
    }

    /// Returns what a track's layer carries, measured on the units that the hub keeps. The cost is
    /// that of a look at two seconds of units.
    pub fn figures(&self, layer: impl Into<TrackLayer>, now: Instant) -> LayerFigures {
        let inner = self.inner.lock();
        let ring = inner.ring(layer.into());
        ring.map_or_else(LayerFigures::default, |ring| ring.figures(now))
    }

    /// Returns the size of the latest keyframe of a track's layer; `None` before the first one of the
    /// present source.
    pub fn keyframe_size(&self, layer: impl Into<TrackLayer>) -> Option<KeyframeSize> {
        self.inner.lock().ring(layer.into())?.keyframe_size()
    }

    /// Returns the note of the present or latest source; `None` if there is none.
    pub fn source_note(&self) -> Option<Arc<SourceNote>> {
        self.inner.lock().note.clone()
    }

    /// Returns how many frames the present source dropped because they were too large; 0 without a
    /// source.
    pub fn source_oversized(&self) -> u64 {
        self.inner
            .lock()
            .source
            .as_ref()
            .map_or(0, |it| it.oversized)
    }

    /// Counts frames that publisher `number` dropped because they were too large, if it is the source.
    pub(crate) fn count_oversized(&self, number: u64, frames: u64) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        if inner.is_source(number)
            && let Some(source) = &mut inner.source
        {
            source.oversized += frames;
            inner.totals.oversized += frames;
        }
    }

    /// Records the delay of a stage before the hub.
    pub(crate) fn record_stage(&self, stage: Stage, delay: Duration, now: Instant) {
        self.inner.lock().ingest.record(stage, delay, now);
    }

    /// Returns the latest keyframe of a track's layer; `None` if it left the ring.
    pub fn latest_keyframe(&self, layer: impl Into<TrackLayer>) -> Option<Arc<MediaUnit>> {
        self.inner
            .lock()
            .ring(layer.into())?
            .latest_keyframe()
            .cloned()
    }

    /// Returns the units of a track's layer from its latest keyframe on, so that a new viewer
    /// has a video frame at once. Empty if the keyframe left the ring.
    pub fn since_keyframe(&self, layer: impl Into<TrackLayer>) -> Vec<Arc<MediaUnit>> {
        let mut out = Vec::new();
        if let Some(ring) = self.inner.lock().ring(layer.into()) {
            ring.since_keyframe(&mut out);
        }
        out
    }

    /// Returns the units of a track's layer from number `index` on that the ring still has, for
    /// a reader that moves to another subscription.
    pub fn since(&self, layer: impl Into<TrackLayer>, index: u64) -> Vec<Arc<MediaUnit>> {
        let mut out = Vec::new();
        if let Some(ring) = self.inner.lock().ring(layer.into()) {
            ring.read_from(index, &mut out);
        }
        out
    }

    /// Returns unit number `index` of a track's layer; `None` if it left the ring or is not published yet.
    pub fn unit(&self, layer: impl Into<TrackLayer>, index: u64) -> Option<Arc<MediaUnit>> {
        self.inner.lock().ring(layer.into())?.unit(index).cloned()
    }

    /// Returns the unit of a track's layer that contains packet `number`, and the packet's
    /// index in the unit. `None` if the unit left the ring or never existed.
    pub fn find(
        &self,
        layer: impl Into<TrackLayer>,
        number: u64,
    ) -> Option<(Arc<MediaUnit>, usize)> {
        self.inner.lock().ring(layer.into())?.find(number)
    }

    /// Counts one more viewer for as long as the token lives.
    pub fn add_viewer(self: &Arc<Self>) -> ViewerToken {
        if self.viewers.fetch_add(1, Ordering::Relaxed) == 0 {
            self.tell_viewers();
        }
        ViewerToken(Arc::clone(self))
    }

    /// Number of viewers at present.
    pub fn viewers(&self) -> usize {
        self.viewers.load(Ordering::Relaxed)
    }

    /// Number of bytes that the units of the stream take. Units that share the bytes of their frame count
    /// them each.
    pub fn memory_bytes(&self) -> usize {
        let inner = self.inner.lock();
        let renditions = inner.made.renditions.iter().map(Rendition::ring);
        let rings = inner.rings.iter().flatten().chain(renditions);
        rings.map(Ring::bytes).sum()
    }
}

/// Returns the index of the track that latency tables count.
fn latency_track(tracks: &[Track]) -> TrackIndex {
    let mut kinds = tracks.iter().map(Track::kind);
    let video = kinds.position(|kind| kind == Kind::Video);
    TrackIndex(video.unwrap_or(0))
}

/// Counts one viewer of a stream until it is dropped.
#[derive(Debug)]
pub struct ViewerToken(Arc<Stream>);

impl Drop for ViewerToken {
    fn drop(&mut self) {
        if self.0.viewers.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.tell_viewers();
        }
    }
}

#[cfg(test)]
mod tests;
