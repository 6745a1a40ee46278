//! The access units of one session on their way into a layer.

use std::time::Instant;

use glassline_hub::SourceNote;
use glassline_media::{MediaUnit, Track, TrackIndex};
use glassline_rtp::units::TimedUnit;

use super::super::sink::Sink;
use super::LayerShare;
use super::clock::Disagreement;
use crate::Units;
use crate::lack::Lack;
use crate::live_publisher::Published;
use crate::on_demand::Supply as _;
use crate::oversized::OversizedFrames;
use crate::publishing::HubRefusal;

/// Publishes the access units of a session as a layer. Dropping it ends the layer's frames.
#[derive(Debug)]
pub(super) struct LayerSink {
    share: LayerShare,
    units: Units,
    note: SourceNote,
    live_since: Option<Instant>,
    refusal: Option<HubRefusal>,
    oversized: OversizedFrames,
    /// Whether frames depend on a lost one, which only a keyframe repairs.
    is_damaged: bool,
    /// The disagreement of sender reports that the log was told.
    told: Option<Disagreement>,
    /// Media units of one access unit, empty between calls and kept for the capacity.
    media_units: Vec<MediaUnit>,
}

impl LayerSink {
    pub(super) fn new(share: LayerShare, note: SourceNote, tracks: Vec<Track>) -> Self {
        let sink = Self {
            share,
            units: Units::new(tracks),
            note,
            live_since: None,
            refusal: None,
            oversized: OversizedFrames::default(),
            is_damaged: false,
            told: None,
            media_units: Vec::new(),
        };
        sink.describe();
        sink
    }

    fn describe(&self) {
        let (layer, tracks) = (self.share.layer, self.units.tracks());
        let left_out = &self.note.left_out;
        let mut publication = self.share.publication.lock();
        publication.describe_session(layer, tracks, left_out);
    }
}

impl Sink for LayerSink {
    fn tracks(&self) -> &[Track] {
        self.units.tracks()
    }

    fn leave_out(&mut self, tracks: Vec<Track>, why: String) {
        self.units = Units::new(tracks);
        self.note.left_out.push(why);
        self.describe();
    }

    fn publish(&mut self, mut unit: TimedUnit, now: Instant) -> Published {
        let mut published = Published::default();
        if self.refusal.is_some() {
            return published;
        }
        let (layer, is_video) = (self.share.layer, unit.track == TrackIndex(0));
        self.is_damaged |= is_video && unit.after_loss && !unit.keyframe;
        let mut publication = self.share.publication.lock();
        unit.time = publication.place(layer, &unit);
        self.units.push(unit, &mut self.media_units);
        if self.units.take_redescribed().is_some() {
            let (tracks, left_out) = (self.units.tracks(), &self.note.left_out);
            publication.describe_session(layer, tracks, left_out);
        }
        for media_unit in self.media_units.drain(..) {
            match publication.publish(layer, media_unit, now) {
                Ok(None) => {}
                Ok(Some(is_keyframe)) => {
                    published.is_keyframe |= is_keyframe && is_video;
                    self.live_since.get_or_insert(now);
                }
                Err(refusal) => {
                    self.refusal = Some(refusal);
                    break;
                }
            }
        }
        published
    }

    fn note_wall_clock(&mut self, ahead_ns: i128) {
        let layer = self.share.layer;
        let noted = self
            .share
            .publication
            .lock()
            .note_wall_clock(layer, ahead_ns);
        if let Err(disagreement) = noted
            && self.told.is_none()
        {
            self.told = Some(disagreement);
            let (stream, seconds) = (self.share.stream().name(), disagreement.apart.as_secs());
            tracing::warn!(
                %stream,
                "the camera's sender reports of two of its streams are {seconds} s apart: the streams are \
                 joined by arrival"
            );
        }
    }

    fn take_keyframe_wish(&mut self) -> bool {
        let is_asked = self
            .share
            .publication
            .lock()
            .take_keyframe_wish(self.share.layer);
        is_asked | std::mem::take(&mut self.is_damaged)
    }

    fn live_since(&self) -> Option<Instant> {
        self.live_since
    }

    fn note_oversized(&mut self, frames: u64, now: Instant) {
        let publication = self.share.publication.lock();
        let name = self.share.stream.name();
        self.oversized
            .note(frames, name, publication.publisher(), now);
    }

    fn oversized(&self) -> u64 {
        self.oversized.dropped()
    }

    fn lack(&self) -> Lack {
        self.units.lack()
    }

    fn refused(&mut self) -> Result<(), HubRefusal> {
        self.refusal.take().map_or(Ok(()), Err)
    }

    fn leave(self: Box<Self>) {
        self.share.set_state(glassline_hub::State::Idle);
    }
}

impl Drop for LayerSink {
    fn drop(&mut self) {
        let mut publication = self.share.publication.lock();
        publication.end_session(self.share.layer, Instant::now());
    }
}
