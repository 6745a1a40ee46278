//! The publishers of a stream, one after the other.

use std::sync::Arc;
use std::time::Instant;

use glassline_media::{MediaUnit, Stage, Track, TrackIndex};

use super::{State, Stream, latency_track};
use crate::error::PublishError;
use crate::ring::Ring;

/// How a publisher begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// As the source, if no other source publishes.
    Source,
    /// As the source, in place of one that may still publish.
    Replace,
    /// In place of a source that is away. The text says what is published.
    StandIn(String),
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
        let mut inner = self.lock();
        let is_source_there = inner.publishing && inner.stand_in.is_none();
        if is_source_there && begin != Begin::Replace {
            return Err(PublishError::Busy {
                name: self.name.clone(),
            });
        }
        if inner.layout.begin_source(&tracks) {
            inner.drop_units();
            // Receivers of the old tracks end now, and not only with the first new unit.
            inner.wake();
        }
        inner.make_rings(&tracks);
        let rings = inner.rings.iter_mut().flatten();
        rings.for_each(Ring::begin_source);
        inner.tracks = tracks.into();
        inner.timeline.begin_source();
        inner.generation += 1;
        inner.publishing = true;
        if let Begin::StandIn(what) = begin {
            inner.stand_in = Some(what.into());
        } else {
            inner.stand_in = None;
            inner.parting = None;
            inner.note = None;
            inner.totals.sources += 1;
            inner.state = State::Live { since: now };
        }
        let generation = inner.generation;
        drop(inner);
        self.watchers.wake();
        self.source_watchers.wake();
        Ok(generation)
    }

    /// Replaces the description of the tracks if publisher `generation` is the current one.
    pub(crate) fn describe(&self, generation: u64, tracks: &[Track]) -> Result<(), PublishError> {
        let mut inner = self.lock();
        if let Some((track, old)) = inner.layout.first_changed(tracks) {
            return Err(PublishError::TrackChanged {
                track,
                old: old.codec,
                new: tracks[track].codec,
            });
        }
        if inner.tracks.len() != tracks.len() {
            return Err(PublishError::NoSuchTrack {
                track: TrackIndex(tracks.len()),
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

    /// Takes a unit of publisher `generation`: numbers it, maps its time to the stream's timeline, keeps it, and wakes the
    /// subscribers.
    pub(crate) fn accept(
        &self,
        generation: u64,
        mut unit: MediaUnit,
        now: Instant,
    ) -> Result<Arc<MediaUnit>, PublishError> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        if inner.generation != generation {
            return Err(PublishError::Replaced {
                name: self.name.clone(),
            });
        }
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
        inner.totals.units += 1;
        inner.totals.packets += unit.packet_count() as u64;
        inner.totals.bytes += unit.payload_bytes() as u64;
        inner.rate.add(unit.payload_bytes() as u64, now);
        let ring = &mut inner.rings[unit.track][usize::from(unit.layer.0)];
        let unit = ring.push(unit, &self.limits);
        inner.wake();
        Ok(unit)
    }

    /// Ends publishing if publisher `generation` is the current one.
    pub(crate) fn end_publishing(&self, generation: u64, state: State) {
        let mut inner = self.lock();
        if inner.generation == generation && inner.publishing {
            inner.publishing = false;
            if inner.stand_in.take().is_none() {
                inner.parting = inner.parting_keyframe();
                inner.failures += u64::from(matches!(state, State::Down { .. }));
                if state == State::Idle {
                    // The next receiver comes much later, and must not begin with these.
                    inner.drop_units();
                }
                inner.state = state;
            }
            // No unit will come that wakes the subscribers.
            inner.wake();
            drop(inner);
            self.watchers.wake();
            self.source_watchers.wake();
        }
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
