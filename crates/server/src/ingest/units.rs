//! Turns whole access units of a source into media units.
//!
//! ```text
//! TimedUnit ─► ParameterSets ─► UnitPacketizer ─► MediaUnit
//!          └─► Reordering
//! ```

use glassline_demux::reordering::Reordering;
use glassline_media::{Codec, Kind, MediaUnit, Track, TrackIndex, annexb};
use glassline_rtp::payload::{ParameterSets, h265};
use glassline_rtp::units::TimedUnit;

use super::tracks;
use super::unit_packetizer::{UnitPacketizer, UnitTiming};

/// Packetizes a source's access units. A keyframe that comes without parameter sets gets the latest
/// ones, or those of the description.
#[derive(Debug)]
pub(crate) struct Units {
    tracks: Vec<Track>,
    states: Vec<TrackState>,
    redescribed: bool,
}

#[derive(Debug)]
struct TrackState {
    sets: Option<ParameterSets>,
    reordering: Option<Reordering>,
    packetizer: UnitPacketizer,
    video: bool,
}

impl Units {
    /// Creates the state of tracks as their description has them.
    pub(crate) fn new(tracks: Vec<Track>) -> Self {
        let state = |track: &Track| TrackState {
            sets: ParameterSets::of(track),
            reordering: reordering(track),
            packetizer: UnitPacketizer::new(track),
            video: track.kind() == Kind::Video,
        };
        Self {
            states: tracks.iter().map(state).collect(),
            tracks: tracks.into_iter().map(tracks::as_sent).collect(),
            redescribed: false,
        }
    }

    /// Returns the tracks as they are to be published, with the parameter sets seen so far.
    pub(crate) fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// Returns whether a stream can be published from this unit on: a keyframe of the video, or any
    /// unit if there is only audio.
    pub(crate) fn starts(&self, media_unit: &MediaUnit) -> bool {
        let video = self.states.iter().position(|state| state.video);
        video.is_none_or(|video| media_unit.track == TrackIndex(video) && media_unit.keyframe)
    }

    /// Appends the media units of an access unit to `out`. Ignores a unit of an unknown track.
    pub(crate) fn push(&mut self, unit: TimedUnit, out: &mut Vec<MediaUnit>) {
        let Some(state) = self.states.get_mut(unit.track.get()) else {
            return;
        };
        let track = &mut self.tracks[unit.track];
        if let Some(reordering) = &mut state.reordering {
            reordering.push(&unit.data, unit.after_loss);
            let is_reordered = reordering.is_reordered();
            self.redescribed |= track.video.reordered != is_reordered;
            track.video.reordered = is_reordered;
        }
        let timing = UnitTiming {
            track: unit.track,
            time: unit.time,
            origin: unit.received,
        };
        let (keyframe, data) = match &mut state.sets {
            Some(sets) => sets.complete(unit.keyframe, unit.data),
            None => (unit.keyframe || !state.video, unit.data),
        };
        state.packetizer.packetize(&data, keyframe, timing, out);
        if let Some(sets) = &mut state.sets {
            sets.describe(track);
        }
    }

    /// Returns the tracks if it turned out since the last call that a track has B-frames, or no
    /// longer has them.
    pub(crate) fn take_redescribed(&mut self) -> Option<&[Track]> {
        std::mem::take(&mut self.redescribed).then_some(&self.tracks)
    }
}

/// Creates the detector of B-frames for a track, starting from its description; `None` for a codec
/// without them.
fn reordering(track: &Track) -> Option<Reordering> {
    let mut reordering = Reordering::of(track.codec)?;
    let sets = match track.codec {
        Codec::H264 => vec![track.video.sps.clone(), track.video.pps.clone()],
        _ => h265::sets_of(track),
    };
    for set in sets {
        let unit = [&[0], &annexb::START_CODE[..], &set].concat();
        reordering.push(&unit, false);
    }
    Some(reordering)
}
