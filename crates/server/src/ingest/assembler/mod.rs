//! Turns the RTP packets of a source, pulled or pushed, into media units.
//!
//! ```text
//! Packet ─► Depacketizer ─► Unit ─► ParameterSets ─► UnitPacketizer ─► MediaUnit
//!   └ arrival, timestamp ─► SourceClock (one timeline for the tracks) ─┘
//! ```

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod parameter_sets;
mod source_clock;

use std::collections::VecDeque;
use std::time::Instant;

use glassline_demux::reordering::Reordering;
use glassline_media::{Codec, Kind, MediaUnit, Track, TrackIndex, annexb};
use glassline_rtp::TimestampExtender;
use glassline_rtp::payload::{Depacketizer, Unit, UnsupportedFormat};
use glassline_rtp::reorder::ReceivedPacket;

use super::tracks;
use super::unit_packetizer::{UnitPacketizer, UnitTiming};
pub(super) use parameter_sets::ParameterSets;
use source_clock::SourceClock;

/// Most access units of a track whose arrival is remembered: the one being assembled and a few
/// whose packets are lost.
const ARRIVALS_MAX: usize = 16;

/// One RTP packet of a source, in sequence order for its track.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    /// Index into the tracks given to [`Assembler::new`].
    pub(crate) track: TrackIndex,
    /// Extended sequence number. When a source begins anew, its numbers continue above all earlier
    /// ones.
    pub(crate) sequence: u64,
    /// RTP timestamp as on the wire.
    pub(crate) timestamp: u32,
    pub(crate) marker: bool,
    /// Payload of the packet, without header and padding.
    pub(crate) payload: &'a [u8],
    pub(crate) received: Instant,
}

impl<'a> Packet<'a> {
    /// Returns a packet of `track` that a reorder buffer handed on.
    pub(crate) fn of(track: TrackIndex, packet: ReceivedPacket<'a>) -> Self {
        Self {
            track,
            sequence: packet.sequence,
            timestamp: packet.timestamp,
            marker: packet.marker,
            payload: packet.payload,
            received: packet.received,
        }
    }
}

/// Assembles a source's packets to access units and packetizes these anew as media units, on one
/// timeline.
///
/// A frame is complete at its marker, or when the next frame begins for sources that set no marker.
/// A keyframe that comes without parameter sets gets the latest ones, or those of the session
/// description. Memory is bounded by one access unit a track.
#[derive(Debug)]
pub(crate) struct Assembler {
    tracks: Vec<Track>,
    states: Vec<TrackState>,
    clock: SourceClock,
    damaged: bool,
    /// Whether the description of the tracks changed since [`Self::take_redescribed`] was called
    /// last.
    redescribed: bool,
}

/// The state of one track between its packets and its media units.
#[derive(Debug)]
struct TrackState {
    timestamps: TimestampExtender,
    depacketizer: Depacketizer,
    /// Extended RTP timestamp and arrival of the first packet of each access unit.
    arrivals: VecDeque<(i64, Instant)>,
    sets: Option<ParameterSets>,
    reordering: Option<Reordering>,
    packetizer: UnitPacketizer,
    video: bool,
}

impl Assembler {
    /// Creates an assembler of tracks as their session description has them;
    /// [`track_of`](super::track_of) makes such tracks.
    ///
    /// # Errors
    /// Returns [`UnsupportedFormat`] if the payload format of a track is not supported.
    pub(crate) fn new(tracks: Vec<Track>) -> Result<Self, UnsupportedFormat> {
        let rates: Vec<_> = tracks.iter().map(|track| track.clock_rate).collect();
        let audio = tracks.iter().position(|track| track.kind() == Kind::Audio);
        let states = tracks
            .iter()
            .map(TrackState::new)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            states,
            clock: SourceClock::new(&rates, TrackIndex(audio.unwrap_or(0))),
            tracks: tracks.into_iter().map(tracks::as_sent).collect(),
            damaged: false,
            redescribed: false,
        })
    }

    /// Returns the tracks as they are to be published: with the parameter sets seen so far, and
    /// with the format parameters of the packets that are made here.
    pub(crate) fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// Returns whether a stream can be published from this unit on: a keyframe of the first video
    /// track, or any unit if there is only audio.
    pub(crate) fn starts(&self, media_unit: &MediaUnit) -> bool {
        let mut tracks = self.tracks.iter();
        match tracks.position(|track| track.kind() == Kind::Video) {
            Some(video) => media_unit.track == TrackIndex(video) && media_unit.keyframe,
            None => true,
        }
    }

    /// Takes a packet and appends the media units that are complete with it to `out`. Ignores a
    /// packet of an unknown track.
    pub(crate) fn push(&mut self, packet: &Packet<'_>, out: &mut Vec<MediaUnit>) {
        let Some(state) = self.states.get_mut(packet.track.get()) else {
            return;
        };
        let ticks = state.push(packet);
        while let Some(unit) = state.depacketizer.poll() {
            let (ticks, received) = state.arrival(&unit, ticks, packet.received);
            self.damaged |= state.video && unit.after_loss && !unit.keyframe;
            let video = &mut self.tracks[packet.track].video;
            if let Some(reordering) = &mut state.reordering {
                reordering.push(&unit.data, unit.after_loss);
                let is_reordered = reordering.is_reordered();
                self.redescribed |= video.reordered != is_reordered;
                video.reordered = is_reordered;
            }
            let timing = UnitTiming {
                track: packet.track,
                time: self.clock.time(packet.track, ticks, received),
                origin: received,
            };
            state.packetize(unit, timing, out);
            if let Some(sets) = &mut state.sets {
                sets.describe(&mut self.tracks[packet.track]);
            }
        }
    }

    /// Returns the tracks if it turned out since the last call that a track has B-frames, or no
    /// longer has them.
    pub(crate) fn take_redescribed(&mut self) -> Option<&[Track]> {
        std::mem::take(&mut self.redescribed).then_some(&self.tracks)
    }

    /// Returns whether frames since the last call depend on a lost one, which only a keyframe
    /// repairs.
    pub(crate) fn take_damage(&mut self) -> bool {
        std::mem::take(&mut self.damaged)
    }

    /// Notes that the source sampled `timestamp` of `track`, as on the wire, at the NTP time `ntp`
    /// (RFC 3550 §6.4.1). Does nothing before the track's first packet.
    pub(crate) fn sender_report(&mut self, track: TrackIndex, ntp: u64, timestamp: u32) {
        let state = self.states.get(track.get());
        if let Some(latest) = state.and_then(|state| state.timestamps.highest()) {
            let ticks = TimestampExtender::near(latest, timestamp);
            self.clock.sender_report(track, ntp, ticks);
        }
    }
}

impl TrackState {
    fn new(track: &Track) -> Result<Self, UnsupportedFormat> {
        Ok(Self {
            timestamps: TimestampExtender::new(),
            depacketizer: Depacketizer::new(track)?,
            arrivals: VecDeque::new(),
            sets: ParameterSets::of(track),
            reordering: reordering(track),
            packetizer: UnitPacketizer::new(track),
            video: track.kind() == Kind::Video,
        })
    }

    /// Hands the packet to the depacketizer and returns its extended timestamp.
    fn push(&mut self, packet: &Packet<'_>) -> i64 {
        let ticks = self.timestamps.extend(packet.timestamp);
        let latest = self.arrivals.back();
        if latest.is_none_or(|(timestamp, _)| *timestamp != ticks) {
            if self.arrivals.len() == ARRIVALS_MAX {
                self.arrivals.pop_front();
            }
            self.arrivals.push_back((ticks, packet.received));
        }
        let (sequence, payload) = (packet.sequence, packet.payload);
        self.depacketizer
            .push(sequence, packet.timestamp, packet.marker, payload);
        ticks
    }

    /// Returns the extended timestamp and the arrival of the first packet of `unit`, which was
    /// completed by a packet with timestamp `now`.
    fn arrival(&mut self, unit: &Unit, now: i64, received: Instant) -> (i64, Instant) {
        let ticks = TimestampExtender::near(now, unit.timestamp);
        // Further units of one audio packet are not found, and they are not the first.
        let found = self.arrivals.iter().position(|(it, _)| *it == ticks);
        match found {
            Some(first) => {
                self.arrivals.drain(..first);
                (ticks, self.arrivals[0].1)
            }
            None => (ticks, received),
        }
    }

    fn packetize(&mut self, unit: Unit, timing: UnitTiming, out: &mut Vec<MediaUnit>) {
        let (keyframe, data) = match &mut self.sets {
            Some(sets) => sets.complete(unit.keyframe, unit.data),
            None => (unit.keyframe || !self.video, unit.data),
        };
        self.packetizer.packetize(&data, keyframe, timing, out);
    }
}

/// Creates the detector of B-frames for a track, starting from its description; `None` for a codec
/// without them.
pub(super) fn reordering(track: &Track) -> Option<Reordering> {
    let mut reordering = Reordering::of(track.codec)?;
    let sets = match track.codec {
        Codec::H264 => vec![track.video.sps.clone(), track.video.pps.clone()],
        _ => tracks::sets_of_h265(track),
    };
    for set in sets {
        let unit = [&[0], &annexb::START_CODE[..], &set].concat();
        reordering.push(&unit, false);
    }
    Some(reordering)
}

#[cfg(test)]
mod tests;
