mod rate;
mod state;
mod subscription;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use glassline_media::{Bitrate, Kind, MediaUnit, Stage, StageTable, Track, TrackLayer};

use crate::error::PublishError;
use crate::ring::Ring;
use crate::timeline::Timeline;
use crate::wake::Wake;
use crate::watch::Watchers;
use crate::{Limits, StreamName};

use rate::Rate;
pub use state::{State, StreamLifetime};
pub use subscription::Subscription;

/// Span of the stage table and the bitrate.
const WINDOW: Duration = Duration::from_secs(10);

/// What went through a stream since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Access units or parts of them.
    pub bursts: u64,
    /// RTP packets.
    pub packets: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Sources that published, one after the other.
    pub sources: u64,
}

/// One named stream: its tracks, its recent units, its timeline, its state.
pub struct Stream {
    name: StreamName,
    limits: Limits,
    inner: Mutex<Inner>,
    /// Of the hub that lists it, if one does.
    watchers: Watchers,
    viewers: AtomicUsize,
    keyframe_wanted: AtomicBool,
}

struct Inner {
    state: State,
    tracks: Arc<[Track]>,
    /// Of each track, a ring for each layer.
    rings: Vec<Vec<Ring>>,
    timeline: Timeline,
    /// Counts publishers, so that one that was replaced can tell.
    generation: u64,
    publishing: bool,
    lifetime: StreamLifetime,
    /// Since when nobody publishes or holds it, as far as anybody looked.
    left: Option<Instant>,
    subscribers: Vec<Weak<dyn Wake>>,
    totals: Totals,
    ingest: StageTable,
    rate: Rate,
}

impl Inner {
    /// Rings for each layer of `tracks`; those that are there stay.
    fn make_rings(&mut self, tracks: &[Track]) {
        let count = self.rings.len().max(tracks.len());
        self.rings.resize_with(count, Vec::new);
        for (rings, track) in self.rings.iter_mut().zip(tracks) {
            let count = rings.len().max(track.layer_count());
            rings.resize_with(count, Ring::default);
        }
    }

    fn ring(&self, TrackLayer { track, layer }: TrackLayer) -> Option<&Ring> {
        self.rings.get(track)?.get(usize::from(layer.0))
    }

    /// Tells all subscribers, and forgets those who are gone.
    fn wake(&mut self) {
        self.subscribers
            .retain(|subscriber| match subscriber.upgrade() {
                Some(subscriber) => {
                    subscriber.wake();
                    true
                }
                None => false,
            });
    }
}

impl Stream {
    /// A stream that goes when its publisher has left.
    pub(crate) fn admitted(name: StreamName, limits: Limits, watchers: Watchers) -> Self {
        Self {
            name,
            limits,
            inner: Mutex::new(Inner {
                state: State::Connecting,
                tracks: Arc::new([]),
                rings: Vec::new(),
                timeline: Timeline::default(),
                generation: 0,
                publishing: false,
                lifetime: StreamLifetime::default(),
                left: None,
                subscribers: Vec::new(),
                totals: Totals::default(),
                ingest: StageTable::new(WINDOW),
                rate: Rate::default(),
            }),
            watchers,
            viewers: AtomicUsize::new(0),
            keyframe_wanted: AtomicBool::new(false),
        }
    }

    /// A stream that no hub lists, for those who are given it.
    pub fn unlisted(name: StreamName, limits: Limits) -> Arc<Self> {
        let stream = Self::admitted(name, limits, Watchers::default());
        stream.set_lifetime(StreamLifetime::Configured);
        Arc::new(stream)
    }

    /// Sets how long the stream is listed without a publisher. A configured stream stays
    /// configured.
    pub fn set_lifetime(&self, lifetime: StreamLifetime) {
        let mut inner = self.lock();
        if inner.lifetime != StreamLifetime::Configured {
            inner.lifetime = lifetime;
        }
    }

    /// For how long nobody publishes or holds the stream; `None` if somebody does, or if
    /// it is listed all the same.
    pub(crate) fn left(&self, is_held: bool, now: Instant) -> Option<Duration> {
        let mut inner = self.lock();
        if is_held || inner.publishing || inner.lifetime == StreamLifetime::Configured {
            inner.left = None;
            return None;
        }
        if inner.lifetime == StreamLifetime::Transient {
            return Some(Duration::MAX);
        }
        let since = *inner.left.get_or_insert(now);
        Some(now.saturating_duration_since(since))
    }

    /// The stream's name.
    pub fn name(&self) -> &StreamName {
        &self.name
    }

    /// What the source is doing.
    pub fn state(&self) -> State {
        self.lock().state.clone()
    }

    /// States what the source is doing, for sources that are not publishing now.
    pub fn set_state(&self, state: State) {
        self.lock().state = state;
    }

    /// The tracks of the latest source; empty before the first one.
    pub fn tracks(&self) -> Arc<[Track]> {
        Arc::clone(&self.lock().tracks)
    }

    /// The track whose frames the latency accounts follow: the frame, or the
    /// first audio where there is none.
    pub fn accounted_track(&self) -> usize {
        accounted(&self.lock().tracks)
    }

    /// What went through since the stream was made.
    pub fn totals(&self) -> Totals {
        self.lock().totals
    }

    /// Payload rate over the last seconds.
    pub fn bitrate(&self, now: Instant) -> Bitrate {
        self.lock().rate.read(now)
    }

    /// The ingest stage: its delays so far.
    pub fn ingest_stage(&self) -> StageTable {
        self.lock().ingest.clone()
    }

    /// Lets a publisher of `tracks` begin; its number.
    pub(crate) fn begin_publishing(
        &self,
        tracks: Vec<Track>,
        now: Instant,
    ) -> Result<u64, PublishError> {
        if tracks.is_empty() {
            return Err(PublishError::NoTracks);
        }
        let mut inner = self.lock();
        if inner.publishing {
            return Err(PublishError::Busy {
                name: self.name.clone(),
            });
        }
        same_codecs(&inner.tracks, &tracks)?;
        inner.make_rings(&tracks);
        inner.tracks = tracks.into();
        inner.timeline.begin_source();
        inner.generation += 1;
        inner.publishing = true;
        inner.totals.sources += 1;
        inner.state = State::Live { since: now };
        let generation = inner.generation;
        drop(inner);
        self.watchers.wake();
        Ok(generation)
    }

    /// Says anew what the tracks are, if that is the publisher's to say.
    pub(crate) fn describe(&self, generation: u64, tracks: &[Track]) -> Result<(), PublishError> {
        let mut inner = self.lock();
        same_codecs(&inner.tracks, tracks)?;
        if inner.tracks.len() != tracks.len() {
            return Err(PublishError::NoSuchTrack {
                track: tracks.len(),
                tracks: inner.tracks.len(),
            });
        }
        if inner.generation == generation && inner.publishing {
            inner.make_rings(tracks);
            inner.tracks = tracks.into();
            inner.wake();
        }
        Ok(())
    }

    /// Numbers, places and keeps `unit`, then wakes the subscribers.
    pub(crate) fn accept(
        &self,
        mut unit: MediaUnit,
        now: Instant,
    ) -> Result<Arc<MediaUnit>, PublishError> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        check_place(&unit, &inner.tracks)?;
        let placed = inner.timeline.place(unit.time, unit.stamps.origin);
        unit.time = placed.time;
        unit.stamps.reference = placed.reference;
        unit.stamps.published = now;
        if unit.track_layer() == accounted(&inner.tracks).into() {
            let delay = now.saturating_duration_since(unit.stamps.origin);
            inner.ingest.record(Stage::Ingest, delay, now);
        }
        inner.totals.bursts += 1;
        inner.totals.packets += unit.packet_count() as u64;
        inner.totals.bytes += unit.payload_bytes() as u64;
        inner.rate.add(unit.payload_bytes() as u64, now);
        let ring = &mut inner.rings[unit.track][usize::from(unit.layer.0)];
        let unit = ring.push(unit, &self.limits);
        inner.wake();
        Ok(unit)
    }

    pub(crate) fn account(&self, stage: Stage, delay: Duration, now: Instant) {
        self.lock().ingest.record(stage, delay, now);
    }

    pub(crate) fn end_publishing(&self, generation: u64, state: State) {
        let mut inner = self.lock();
        if inner.generation == generation && inner.publishing {
            inner.publishing = false;
            inner.state = state;
            // Nothing will come that tells them.
            inner.wake();
            drop(inner);
            self.watchers.wake();
        }
    }

    /// The units of a track's layer from its latest keyframe on, so that a new viewer
    /// has a frame at once. Empty if the ring no longer holds one.
    pub fn since_keyframe(&self, layer: impl Into<TrackLayer>) -> Vec<Arc<MediaUnit>> {
        let mut out = Vec::new();
        if let Some(ring) = self.lock().ring(layer.into()) {
            ring.since_keyframe(&mut out);
        }
        out
    }

    /// The units of a track's layer from number `index` on that the ring still holds,
    /// for a reader that moves to another subscription.
    pub fn since(&self, layer: impl Into<TrackLayer>, index: u64) -> Vec<Arc<MediaUnit>> {
        let mut out = Vec::new();
        if let Some(ring) = self.lock().ring(layer.into()) {
            ring.read_from(index, &mut out);
        }
        out
    }

    /// The unit that holds packet `number` of a track's layer, and the packet's place
    /// in the unit; `None` if it left the ring or never was.
    pub fn find(
        &self,
        layer: impl Into<TrackLayer>,
        number: u64,
    ) -> Option<(Arc<MediaUnit>, usize)> {
        self.lock().ring(layer.into())?.find(number)
    }

    /// Asks the source for a keyframe; those that cannot make one ignore it.
    pub fn request_keyframe(&self) {
        self.keyframe_wanted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn take_keyframe_request(&self) -> bool {
        self.keyframe_wanted.swap(false, Ordering::Relaxed)
    }

    /// Counts a viewer for as long as the token lives.
    pub fn viewer(self: &Arc<Self>) -> ViewerToken {
        self.viewers.fetch_add(1, Ordering::Relaxed);
        ViewerToken(Arc::clone(self))
    }

    /// Viewers right now.
    pub fn viewers(&self) -> usize {
        self.viewers.load(Ordering::Relaxed)
    }

    /// Bytes that the rings keep.
    pub fn memory_bytes(&self) -> usize {
        self.lock().rings.iter().flatten().map(Ring::bytes).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every update below the lock leaves the rings whole, so a panic elsewhere
        // on a publisher's thread must not take the viewers down with it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("name", &self.name)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

fn same_codecs(old: &[Track], new: &[Track]) -> Result<(), PublishError> {
    let places = old.iter().zip(new).enumerate();
    match places
        .into_iter()
        .find(|(_, (old, new))| old.codec != new.codec)
    {
        Some((place, (old, new))) => Err(PublishError::TrackChanged {
            place,
            old: old.codec,
            new: new.codec,
        }),
        None => Ok(()),
    }
}

/// A unit belongs to a track and a layer that the source announced.
fn check_place(unit: &MediaUnit, tracks: &[Track]) -> Result<(), PublishError> {
    let Some(track) = tracks.get(unit.track) else {
        return Err(PublishError::NoSuchTrack {
            track: unit.track,
            tracks: tracks.len(),
        });
    };
    if usize::from(unit.layer.0) >= track.layer_count() {
        return Err(PublishError::NoSuchLayer {
            track: unit.track,
            layer: unit.layer.0,
            layers: track.layer_count(),
        });
    }
    Ok(())
}

fn accounted(tracks: &[Track]) -> usize {
    let mut kinds = tracks.iter().map(Track::kind);
    kinds.position(|kind| kind == Kind::Video).unwrap_or(0)
}

/// Counts one viewer of a stream until dropped.
#[derive(Debug)]
pub struct ViewerToken(Arc<Stream>);

impl Drop for ViewerToken {
    fn drop(&mut self) {
        self.0.viewers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
