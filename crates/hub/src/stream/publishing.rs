//! The publishers of a stream, one after the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use glassline_media::{Kind, LayerIndex, MediaUnit, Stage, Track, TrackIndex};

use super::{
    Inner, Prospect, SourceNote, State, Stream, StreamLadder, WantedKeyframes, latency_track,
};
use crate::error::PublishError;
use crate::events::{SourceNumber, StreamChange};
use crate::layout::first_changed;
use crate::ring::Ring;

/// Interval at which a keyframe is requested again of a source that something stands in for: the
/// request may be lost on its way.
const REQUEST_AGAIN: Duration = Duration::from_secs(1);

/// The place that a publisher takes when it begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// The source, if no other source publishes.
    Source(Option<SourceNote>),
    /// The source, in place of another source that may still publish.
    Replace(SourceNote),
    /// The stand-in for a source that is away, or has sent nothing for `silence`.
    StandIn {
        /// The name of the published media, for the API.
        what: String,
        silence: Duration,
    },
}

/// A source that holds the stream.
#[derive(Debug)]
pub(super) struct PublishingSource {
    /// Number of its publisher.
    pub(super) number: u64,
    /// Its tracks, which are not the stream's while something stands in for the source.
    tracks: Arc<[Track]>,
    /// When its latest unit came, or when it began.
    latest: Instant,
    /// When a keyframe was last requested of the source so that it can go on.
    resumption_requested: Option<Instant>,
    /// Readers of events were told that the source has sent nothing for long.
    pub(super) is_silent: bool,
    /// Number of its frames that were dropped because they were too large.
    pub(super) oversized: u64,
}

/// The stand-in for a source.
#[derive(Debug)]
pub(super) struct StandIn {
    /// Number of its publisher.
    number: u64,
    /// The name of the published media, for the API.
    pub(super) what: Arc<str>,
    /// When the stand-in began to publish.
    pub(super) since: Instant,
}

impl PublishingSource {
    pub(super) fn silent_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.latest)
    }

    /// Returns whether a decoder can begin with `unit`.
    fn can_begin(&self, unit: &MediaUnit) -> bool {
        let has_video = self.tracks.iter().any(|it| it.kind() == Kind::Video);
        let is_first = unit.track == latency_track(&self.tracks);
        !has_video || is_first && unit.keyframe && unit.first
    }
}

impl Inner {
    pub(super) fn is_source(&self, number: u64) -> bool {
        self.source.as_ref().is_some_and(|it| it.number == number)
    }

    pub(super) fn is_published(&self) -> bool {
        self.source.is_some() || self.stand_in.is_some()
    }

    /// Returns the number of the publisher whose units are published.
    pub(super) fn present(&self) -> Option<u64> {
        let stand_in = self.stand_in.as_ref().map(|it| it.number);
        stand_in.or(self.source.as_ref().map(|it| it.number))
    }

    /// Prepares the stream for units of `tracks` by another publisher than before. Returns the change of
    /// the layout, if there is one.
    fn begin_tracks(&mut self, tracks: Arc<[Track]>) -> Option<StreamChange> {
        let before = self.layout.number();
        let is_new = self.layout.begin_source(&tracks);
        if is_new {
            self.drop_units(before);
            // Receivers of the old tracks end now, and not only with the first new unit.
            self.subscribers.wake_all();
        }
        if self.subscribers.preference.clear() {
            self.subscribers.wake_all();
        }
        let tracks = self.with_rungs(tracks);
        self.make_rings(&tracks);
        let rings = self.rings.iter_mut().flatten();
        rings.for_each(Ring::begin_source);
        self.tracks = tracks;
        self.timeline.begin_source();
        is_new.then(|| StreamChange::Layout(self.layout.number()))
    }

    /// Makes publisher `number` of `tracks` the source.
    fn begin_source(
        &mut self,
        (number, tracks): (u64, &Arc<[Track]>),
        note: Option<SourceNote>,
        now: Instant,
    ) {
        self.source = Some(PublishingSource {
            number,
            tracks: Arc::clone(tracks),
            latest: now,
            resumption_requested: None,
            is_silent: false,
            oversized: 0,
        });
        self.stand_in = None;
        self.parting = None;
        self.note = note.map(Arc::new);
        self.totals.sources += 1;
        self.state = State::Live { since: now };
    }

    /// Ends the publishing of the source, and leaves the stream in `state`. Returns the change.
    fn end_source(&mut self, state: State) -> Option<StreamChange> {
        if self.stand_in.is_none() {
            self.parting = self.parting_keyframe();
        }
        let ended = self.source.take();
        self.failures += u64::from(matches!(state, State::Down { .. }));
        if state == State::Idle {
            // The next receiver comes much later, and must not begin with these.
            self.drop_units(self.layout.number());
        }
        self.state = state;
        ended.map(|it| StreamChange::Gone(SourceNumber(it.number)))
    }

    /// Ends what stands in for the source, whose units are published from now on. Returns the change of
    /// the layout, if there is one.
    fn resume_source(&mut self) -> Option<StreamChange> {
        self.stand_in = None;
        self.parting = None;
        let source = self.source.as_mut()?;
        source.resumption_requested = None;
        let tracks = Arc::clone(&source.tracks);
        self.begin_tracks(tracks)
    }
}

impl Stream {
    /// Makes a publisher of `tracks` the current one; returns its number.
    pub(crate) fn begin_publishing(
        &self,
        tracks: Vec<Track>,
        begin: Begin,
        now: Instant,
    ) -> Result<u64, PublishError> {
        if tracks.is_empty() {
            return Err(PublishError::NoTracks);
        }
        let mut inner = self.inner.lock();
        if inner.is_deleted {
            return Err(self.deleted());
        }
        let is_busy = inner.source.as_ref().is_some_and(|source| match &begin {
            Begin::Source(_) => true,
            Begin::Replace(_) => false,
            Begin::StandIn { silence, .. } => {
                inner.stand_in.is_none() && source.silent_for(now) < *silence
            }
        });
        if is_busy {
            return Err(PublishError::Busy {
                name: self.name.clone(),
            });
        }
        inner.publishers += 1;
        let (number, tracks) = (inner.publishers, Arc::<[Track]>::from(tracks));
        let mut changes = Vec::new();
        match begin {
            Begin::StandIn { what, .. } => {
                if inner.source.is_some() && inner.stand_in.is_none() {
                    inner.parting = inner.parting_keyframe();
                }
                let what = what.into();
                inner.stand_in = Some(StandIn {
                    number,
                    what,
                    since: now,
                });
                changes.push(StreamChange::StandIn);
            }
            Begin::Source(note) => inner.begin_source((number, &tracks), note, now),
            Begin::Replace(note) => {
                let replaced = inner.source.as_ref().map(|it| SourceNumber(it.number));
                changes.extend(replaced.map(StreamChange::Gone));
                inner.begin_source((number, &tracks), Some(note), now);
            }
        }
        changes.extend(inner.begin_tracks(tracks));
        let ready = inner.is_source(number).then_some(SourceNumber(number));
        changes.extend(ready.map(StreamChange::Ready));
        self.tell(inner, &changes);
        self.source_watchers.wake();
        Ok(number)
    }

    /// Replaces the description of the tracks of publisher `number`, if it still publishes.
    pub(crate) fn describe(&self, number: u64, tracks: &[Track]) -> Result<(), PublishError> {
        let mut inner = self.inner.lock();
        let is_present = inner.present() == Some(number);
        let known = match &inner.source {
            Some(source) if source.number == number => Arc::clone(&source.tracks),
            _ => Arc::clone(&inner.tracks),
        };
        if let Some((track, old)) = first_changed(&known, tracks) {
            return Err(PublishError::TrackChanged {
                track,
                old: old.codec,
                new: tracks[track].codec,
            });
        }
        if known.len() != tracks.len() {
            return Err(PublishError::NoSuchTrack {
                track: TrackIndex(tracks.len()),
                tracks: known.len(),
            });
        }
        if let Some(source) = inner.source.as_mut().filter(|it| it.number == number) {
            source.tracks = tracks.into();
        }
        if is_present {
            let tracks = inner.with_rungs(tracks.into());
            inner.redescribe(tracks);
            inner.drop_absent_layers();
        }
        Ok(())
    }

    /// Takes a unit of publisher `number`: numbers it, maps its time to the stream's timeline, keeps it, and wakes the
    /// subscribers. Returns `None` if something stands in for the publisher and goes on.
    pub(crate) fn accept(
        &self,
        number: u64,
        unit: MediaUnit,
        now: Instant,
    ) -> Result<Option<Arc<MediaUnit>>, PublishError> {
        let mut inner = self.inner.lock();
        if inner.is_deleted {
            return Err(self.deleted());
        }
        let is_present = inner.present() == Some(number);
        let Some(source) = inner.source.as_mut().filter(|it| it.number == number) else {
            if is_present {
                return self.keep(&mut inner, unit, now).map(Some);
            }
            return Err(PublishError::Replaced {
                name: self.name.clone(),
            });
        };
        source.latest = now;
        let resumed = std::mem::take(&mut source.is_silent).then_some(StreamChange::Resumed);
        if is_present {
            let kept = self.keep(&mut inner, unit, now).map(Some);
            self.tell(inner, resumed.as_slice());
            return kept;
        }
        check_layer(&unit, &source.tracks)?;
        if !source.can_begin(&unit) {
            let requested = source.resumption_requested;
            let is_due =
                requested.is_none_or(|at| now.saturating_duration_since(at) >= REQUEST_AGAIN);
            if is_due {
                source.resumption_requested = Some(now);
                self.resumption_wanted.store(true, Ordering::Relaxed);
            }
            self.tell(inner, resumed.as_slice());
            return Ok(None);
        }
        let mut changes = Vec::new();
        changes.extend(resumed);
        changes.push(StreamChange::StandIn);
        changes.extend(inner.resume_source());
        let kept = self.keep(&mut inner, unit, now).map(Some);
        self.tell(inner, &changes);
        self.resumption_wanted.store(false, Ordering::Relaxed);
        self.source_watchers.wake();
        kept
    }

    /// Numbers a unit of the present publisher, and keeps it.
    fn keep(
        &self,
        inner: &mut Inner,
        mut unit: MediaUnit,
        now: Instant,
    ) -> Result<Arc<MediaUnit>, PublishError> {
        check_layer(&unit, &inner.tracks)?;
        let timing = inner.timeline.map(unit.time, unit.stamps.origin);
        unit.time = timing.time;
        unit.stamps.reference = timing.reference;
        unit.stamps.published = now;
        if unit.track_layer() == latency_track(&inner.tracks).into() {
            inner
                .ingest
                .record(Stage::Ingest, unit.stamps.ingest(), now);
            if let Some(relay) = unit.stamps.relay {
                inner.ingest.record(Stage::Relay, relay.delay, now);
            }
        }
        // The encodings of a track are in its base layer, each for a time.
        if unit.layer == LayerIndex::BASE {
            inner.totals.units += 1;
            inner.totals.packets += unit.packet_count() as u64;
            inner.totals.bytes += unit.payload_bytes() as u64;
            inner.rate.add(unit.payload_bytes() as u64, now);
        }
        let ring = &mut inner.rings[unit.track][usize::from(unit.layer.0)];
        let unit = ring.push(unit, &self.limits);
        inner.subscribers.wake_readers(unit.track_layer());
        if let Some(doubled) = inner.made.ladder.doubled(&unit) {
            let of = doubled.track_layer();
            inner.rings[of.track][usize::from(of.layer.0)].push(doubled, &self.limits);
            inner.subscribers.wake_readers(of);
        }
        Ok(unit)
    }

    /// Returns the keyframes that were requested of publisher `number` since the last call.
    pub(crate) fn take_keyframe_requests(&self, number: u64) -> WantedKeyframes {
        let wished = self.keyframe_wishes.get();
        if wished.is_empty() && !self.resumption_wanted.load(Ordering::Relaxed) {
            return wished;
        }
        let inner = self.inner.lock();
        if inner.present() == Some(number) {
            return self.keyframe_wishes.take();
        }
        let resumes =
            inner.is_source(number) && self.resumption_wanted.swap(false, Ordering::Relaxed);
        match resumes {
            true => WantedKeyframes::BASE,
            false => WantedKeyframes::default(),
        }
    }

    /// Returns the error of a publisher whose stream was deleted.
    fn deleted(&self) -> PublishError {
        PublishError::Deleted {
            name: self.name.clone(),
        }
    }

    /// Ends the stream for good: a layout without tracks begins, which ends all receivers.
    pub(crate) fn retire(&self) {
        let mut inner = self.inner.lock();
        inner.is_deleted = true;
        // The publisher ends with its next unit, and what it leaves behind is no news.
        inner.source = None;
        inner.stand_in = None;
        inner.parting = None;
        // Requests that wait for a source end with a failure.
        inner.prospect = Prospect::None;
        inner.failures += 1;
        let before = inner.layout.number();
        inner.layout.begin_empty();
        inner.tracks = Vec::new().into();
        inner.made.ladder = StreamLadder::default();
        inner.drop_units(before);
        inner.state = State::Ended {
            detail: "the stream was deleted".to_owned(),
        };
        inner.subscribers.wake_all();
        drop(inner);
        self.source_watchers.wake();
    }

    /// Returns whether the stream was deleted.
    pub fn is_deleted(&self) -> bool {
        self.inner.lock().is_deleted
    }

    /// Ends publishing by publisher `number`, if it still publishes.
    pub(crate) fn end_publishing(&self, number: u64, state: State) {
        let mut inner = self.inner.lock();
        let mut changes = Vec::new();
        if inner.is_source(number) {
            changes.extend(inner.end_source(state));
        } else if inner
            .stand_in
            .as_ref()
            .is_some_and(|it| it.number == number)
        {
            if inner.source.is_some() {
                // What the source sends next need not follow a keyframe in the rings.
                let layout = inner.layout.number();
                inner.drop_units(layout);
                changes.extend(inner.resume_source());
            }
            inner.stand_in = None;
            changes.push(StreamChange::StandIn);
        } else {
            return;
        }
        // No unit will come that wakes the subscribers.
        inner.subscribers.wake_all();
        self.tell(inner, &changes);
        self.source_watchers.wake();
    }

    /// Takes the right to publish away from the present source, if there is one, and leaves the
    /// stream in `state`. The next unit of that source is refused with
    /// [`PublishError::Replaced`].
    pub fn revoke(&self, state: State) {
        let mut inner = self.inner.lock();
        if inner.source.is_none() {
            return;
        }
        let gone = inner.end_source(state);
        inner.subscribers.wake_all();
        self.tell(inner, gone.as_slice());
        self.source_watchers.wake();
    }
}

/// Checks that a unit names a track and a layer that the source announced.
fn check_layer(unit: &MediaUnit, tracks: &[Track]) -> Result<(), PublishError> {
    let Some(track) = tracks.get(unit.track.get()) else {
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
