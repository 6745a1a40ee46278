//! The layers that a viewer gets, and how it moves from one to another.
//!
//! ```text
//! preference of the stream changed ─► choose ─► the keyframe of the new layer that the hub keeps ─► moved
//!                                       └─ none, or too long ago: requested ─► its next keyframe ─► moved
//! ```

use std::sync::Arc;
use std::time::Instant;

use glassline_hub::Stream;
use glassline_media::{LayerIndex, MediaUnit, TrackLayer};
use glassline_webrtc::{SenderIndex, Session};

use super::{StreamSender, TrackSender};
use crate::webrtc::ramp::Ramp;
use crate::webrtc::track_sender::LayerMove;

impl StreamSender {
    /// Returns the transcoded layers that the viewer gets.
    pub fn transcoded(&self) -> impl Iterator<Item = TrackLayer> + '_ {
        let sources = self.tracks.iter().map(|it| it.source);
        sources.filter(|source| source.layer == LayerIndex::TRANSCODED)
    }

    /// Returns the layers whose units the viewer needs: those that it gets, and those to which it moves.
    pub fn layers(&self) -> impl Iterator<Item = TrackLayer> + '_ {
        let moving = self.tracks.iter().filter_map(TrackSender::target);
        self.tracks.iter().map(|it| it.source).chain(moving)
    }

    /// Returns whether the viewer moves to another layer and waits for that layer's keyframe.
    pub fn is_moving(&self) -> bool {
        self.tracks.iter().any(|it| it.target().is_some())
    }

    /// Requests a keyframe of what `sender` sends, because the viewer asks for one.
    pub fn request_keyframe(&mut self, sender: SenderIndex, stream: &Stream, now: Instant) {
        let mut tracks = self.tracks.iter_mut();
        if let Some(track) = tracks.find(|it| it.sender == sender)
            && track.is_asked_for_keyframe(now)
        {
            stream.request_keyframe_of(track.target().unwrap_or(track.source));
        }
    }

    /// Chooses the layers anew, because the stream's preference is another one. The thread reads the
    /// layers of the new preference already.
    pub fn choose(&mut self, session: &Session, stream: &Stream, now: Instant) {
        for place in 0..self.tracks.len() {
            let Some(to) = self.chosen(place, stream, now) else {
                continue;
            };
            let track = &mut self.tracks[place];
            if !to.is_awaited && track.next().is_none() {
                let beginning = stream.beginning(track.source.track);
                track.switch_to(LayerMove::to(beginning.layer));
            }
            let is_other = track.switch_to(to);
            if is_other && self.has_started {
                self.enter(place, session, stream, now);
            }
        }
    }

    /// Moves a viewer that began on a lower layer to the best one, which comes once it is read.
    pub(super) fn rise(&mut self, session: &Session, stream: &Stream, now: Instant) {
        let is_lower = |it: &TrackSender| {
            !self.fixed.contains(&it.source) && it.source != stream.preferred(it.source.track)
        };
        if self.tracks.iter().any(is_lower) {
            self.choose(session, stream, now);
        }
    }

    /// Begins with the latest keyframe of the layer that the viewer gets, or to which it moves. Requests
    /// a keyframe if there is none to begin with.
    pub(super) fn enter(&mut self, place: usize, session: &Session, stream: &Stream, now: Instant) {
        let track = &mut self.tracks[place];
        let layer = track.target().unwrap_or(track.source);
        let past = stream.since_keyframe(layer);
        let keyframe = past.first().map_or(0, |it| it.payload_bytes());
        let bytes: usize = past.iter().map(|it| it.payload_bytes()).sum();
        let last = last_before_move(track, stream);
        if !track.catch_up(past, last.as_deref(), now) {
            stream.request_keyframe_of(layer);
        } else if !session.has_congestion_control() {
            let live = stream.bitrate(now);
            self.ramp = Ramp::of(live, keyframe as u64, bytes as u64, now).map(Box::new);
        }
    }

    /// Moves the viewer if the unit is a keyframe of a layer to which it moves.
    #[cold]
    pub(super) fn cross(&mut self, unit: &Arc<MediaUnit>, read_at: Instant, stream: &Stream) {
        let mut tracks = self.tracks.iter_mut();
        let Some(track) = tracks.find(|it| it.target() == Some(unit.track_layer())) else {
            return;
        };
        let last = last_before_move(track, stream);
        if !track.cross(unit, last.as_deref(), read_at) {
            stream.request_keyframe_of(unit.track_layer());
        }
    }
}

/// Returns the unit that a track was offered last, behind whose numbers those of the layer go on to which
/// the viewer moves; `None` if it moves to none.
fn last_before_move(track: &TrackSender, stream: &Stream) -> Option<Arc<MediaUnit>> {
    track.target()?;
    last_offered(track, stream)
}

/// Returns the unit that a track was offered last; `None` if the hub has it no more.
pub(super) fn last_offered(track: &TrackSender, stream: &Stream) -> Option<Arc<MediaUnit>> {
    let index = track.next()?.checked_sub(1)?;
    stream.unit(track.source, index)
}
