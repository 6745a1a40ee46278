//! Tests of the two stages between a source's packets and its media units, without a hub.
//!
//! ```text
//! SourceReceiver ─► UnitAssembler (access units, one timeline) ─► Units ─► MediaUnit
//! ```

pub(crate) mod fuzzing;

use glassline_media::{MediaUnit, Track, TrackIndex};
use glassline_rtp::payload::UnsupportedFormat;
use glassline_rtp::receive::Received;
use glassline_rtp::units::UnitAssembler;

use super::units::Units;

/// Assembles a source's packets to access units and packetizes these anew as media units, on one
/// timeline.
///
/// A keyframe that comes without parameter sets gets the latest ones, or those of the session
/// description. Memory is bounded by one access unit a track.
#[derive(Debug)]
pub(crate) struct Assembler {
    assembler: UnitAssembler,
    units: Units,
}

impl Assembler {
    /// Creates an assembler of tracks as their session description has them;
    /// [`Format::track`](glassline_rtsp::sdp::Format::track) makes such tracks.
    ///
    /// # Errors
    /// Returns [`UnsupportedFormat`] if the payload format of a track is not supported.
    pub(crate) fn new(tracks: Vec<Track>) -> Result<Self, UnsupportedFormat> {
        Ok(Self {
            assembler: UnitAssembler::new(&tracks)?,
            units: Units::new(tracks),
        })
    }

    /// Returns the tracks as they are to be published: with the parameter sets seen so far, and
    /// with the format parameters of the packets that are made here.
    pub(crate) fn tracks(&self) -> &[Track] {
        self.units.tracks()
    }

    /// Returns whether a stream can be published from this unit on: a keyframe of the first video
    /// track, or any unit if there is only audio.
    pub(crate) fn starts(&self, media_unit: &MediaUnit) -> bool {
        self.units.starts(media_unit)
    }

    /// Takes a part of what the source sent and appends the media units that are complete with it
    /// to `out`. Ignores an unknown track.
    pub(crate) fn take(
        &mut self,
        track: TrackIndex,
        received: Received<'_>,
        out: &mut Vec<MediaUnit>,
    ) {
        let Self { assembler, units } = self;
        match received {
            Received::Packet(packet) => {
                assembler.push(track, packet, |unit| units.push(unit, out));
            }
            Received::Report { ntp, timestamp } => assembler.sender_report(track, ntp, timestamp),
        }
    }

    /// Returns the tracks if it turned out since the last call that a track has B-frames, or no
    /// longer has them.
    pub(crate) fn take_redescribed(&mut self) -> Option<&[Track]> {
        self.units.take_redescribed()
    }
}

#[cfg(test)]
mod tests;
