//! Units as RTP packets, for every uplink that carries RTP.

use glassline_media::{MediaTime, MediaUnit, Stamps, Track, UnitBuilder};
use glassline_rtp::payload::Packetizer;

use super::Error;
use crate::publish::unit::Unit;

/// How the units of a track are sent.
#[derive(Debug)]
pub(super) struct PacketizedTrack {
    /// Index of the track's sender; `None` if the server does not take the track.
    sender: Option<usize>,
    timestamp_start: u32,
    clock_rate: u32,
    packetizer: Packetizer,
}

impl PacketizedTrack {
    /// Returns a track whose RTP timestamps begin with `timestamp_start`, in ticks of `clock_rate`
    /// Hz.
    pub(super) fn new(track: &Track, sender: usize, timestamp_start: u32, clock_rate: u32) -> Self {
        Self {
            sender: Some(sender),
            timestamp_start,
            clock_rate,
            packetizer: Packetizer::new(track),
        }
    }

    /// Returns a track that the server does not take.
    pub(super) fn left_out(track: &Track) -> Self {
        Self {
            sender: None,
            ..Self::new(track, 0, 0, track.clock_rate)
        }
    }
}

/// The tracks of a stream, by their index in the source.
#[derive(Debug)]
pub(super) struct PacketizedTracks {
    tracks: Vec<PacketizedTrack>,
    builder: UnitBuilder,
}

/// The packets of a unit, and which sender sends them.
#[derive(Debug)]
pub(super) struct PacketizedUnit {
    pub(super) sender: usize,
    /// RTP timestamp on the wire.
    pub(super) timestamp: u32,
    pub(super) unit: MediaUnit,
}

impl PacketizedTracks {
    pub(super) fn new(tracks: Vec<PacketizedTrack>) -> Self {
        Self {
            tracks,
            builder: UnitBuilder::default(),
        }
    }

    /// Makes packets of a unit; `None` if the server does not take its track, or if the unit has
    /// nothing to send.
    ///
    /// # Errors
    /// If RTP does not carry the unit.
    pub(super) fn packetize(&mut self, unit: &Unit) -> Result<Option<PacketizedUnit>, Error> {
        let Some(track) = self.tracks.get_mut(unit.track.get()) else {
            return Ok(None);
        };
        let Some(sender) = track.sender else {
            return Ok(None);
        };
        self.builder.clear();
        let packetized = track.packetizer.packetize(&unit.data, &mut self.builder);
        packetized.map_err(|error| Error::Unit(error.to_string()))?;
        let stamps = Stamps::arrived(unit.made);
        let built = self
            .builder
            .build(unit.track, unit.time, unit.keyframe, stamps);
        Ok(built.map(|built| PacketizedUnit {
            sender,
            timestamp: timestamp(unit.time, track.clock_rate, track.timestamp_start),
            unit: built,
        }))
    }
}

/// Returns the RTP timestamp of a media time, for a clock of `rate` Hz that began with `start`.
// RTP timestamps wrap around.
pub(super) fn timestamp(time: MediaTime, rate: u32, start: u32) -> u32 {
    start.wrapping_add(time.ticks(rate) as u32)
}
