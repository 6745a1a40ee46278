//! Turns the RTP packets of a source, pulled or pushed, into media units.
//!
//! ```text
//! SourceReceiver ─► UnitAssembler (access units, one timeline) ─► Units ─► MediaUnit
//! ```

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;

use glassline_media::{Kind, MediaUnit, Track, TrackIndex};
use glassline_rtp::payload::UnsupportedFormat;
use glassline_rtp::receive::Received;
use glassline_rtp::units::UnitAssembler;

use super::lack::Lack;
use super::units::Units;

/// Assembles a source's packets to access units and packetizes these anew as media units, on one
/// timeline.
///
/// A keyframe that comes without parameter sets gets the latest ones, or those of the session
/// description. Memory is bounded by one access unit a track.
#[derive(Debug)]
pub struct Assembler {
    assembler: UnitAssembler,
    units: Units,
    damaged: bool,
}

impl Assembler {
    /// Creates an assembler of tracks as their session description has them;
    /// [`Format::track`](glassline_rtsp::sdp::Format::track) makes such tracks.
    ///
    /// # Errors
    /// Returns [`UnsupportedFormat`] if the payload format of a track is not supported.
    pub fn new(tracks: Vec<Track>) -> Result<Self, UnsupportedFormat> {
        Ok(Self {
            assembler: UnitAssembler::new(&tracks)?,
            units: Units::new(tracks),
            damaged: false,
        })
    }

    /// Returns the tracks as they are to be published: with the parameter sets seen so far, and
    /// with the format parameters of the packets that are made here.
    pub fn tracks(&self) -> &[Track] {
        self.units.tracks()
    }

    /// Returns whether a stream can be published from this unit on: a keyframe of the first video
    /// track, or any unit if there is only audio.
    pub fn starts(&self, media_unit: &MediaUnit) -> bool {
        self.units.starts(media_unit)
    }

    /// Returns what the source lacks, if it has sent no unit to begin with.
    pub const fn lack(&self) -> Lack {
        self.units.lack()
    }

    /// Takes a part of what the source sent and appends the media units that are complete with it
    /// to `out`. Ignores an unknown track.
    pub fn take(&mut self, track: TrackIndex, received: Received<'_>, out: &mut Vec<MediaUnit>) {
        let Self {
            assembler,
            units,
            damaged,
        } = self;
        match received {
            Received::Packet(packet) => assembler.push(track, packet, |unit| {
                let is_video = units.tracks()[track].kind() == Kind::Video;
                *damaged |= is_video && unit.after_loss && !unit.keyframe;
                units.push(unit, out);
            }),
            Received::Report { ntp, timestamp } => assembler.sender_report(track, ntp, timestamp),
        }
    }

    /// Returns the tracks if it turned out since the last call that a track has B-frames, or no
    /// longer has them.
    pub fn take_redescribed(&mut self) -> Option<&[Track]> {
        self.units.take_redescribed()
    }

    /// Returns how many frames since the last call were dropped because they are too large.
    pub fn take_oversized(&mut self) -> u64 {
        self.assembler.take_oversized()
    }

    /// Returns whether frames since the last call depend on a lost one, which only a keyframe
    /// repairs.
    pub fn take_damage(&mut self) -> bool {
        std::mem::take(&mut self.damaged)
    }
}

#[cfg(test)]
mod tests;
