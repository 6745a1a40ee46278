//! RTP packets of a source, pulled or pushed, into bursts.
//!
//! ```text
//! Packet ─► Depacketizer ─► Unit ─► ParameterSets ─► UnitPacketizer ─► MediaUnit
//!   └ arrival, timestamp ─► SourceClock (one timeline for the tracks) ─┘
//! ```

mod parameter_sets;
mod source_clock;

use std::collections::VecDeque;
use std::time::Instant;

use glassline_demux::reordering::Reordering;
use glassline_media::{Codec, Kind, MediaUnit, Track, annexb};
use glassline_rtp::TimestampExtender;
use glassline_rtp::payload::{Depacketizer, Unit, Unreceivable};

use super::tracks;
use super::unit_packetizer::{Place, UnitPacketizer};
pub(super) use parameter_sets::ParameterSets;
use source_clock::SourceClock;

/// Access units under way at once: the one being put together and a few whose
/// packets are lost.
const ARRIVALS_MAX: usize = 16;

/// One RTP packet as it came in, in sequence order for its track.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    /// Index into the tracks given to [`Assembler::new`].
    pub(crate) track: usize,
    /// Wide: those of a source that begins anew are above those before.
    pub(crate) sequence: u64,
    /// As on the wire.
    pub(crate) timestamp: u32,
    pub(crate) marker: bool,
    /// Without padding.
    pub(crate) payload: &'a [u8],
    pub(crate) received: Instant,
}

/// Puts a source's packets together to access units and cuts them anew as
/// bursts, on one timeline.
///
/// A frame is done at its marker, or when the next one begins for sources that
/// set none. Keyframes that come without parameter sets get those last seen, or
/// those of the session description. Memory is bounded by one unit a track.
#[derive(Debug)]
pub(crate) struct Assembler {
    tracks: Vec<Track>,
    lanes: Vec<Lane>,
    clock: SourceClock,
    damaged: bool,
    /// What is said of the tracks is other than when it was asked for.
    redescribed: bool,
}

/// The way of one track.
#[derive(Debug)]
struct Lane {
    timestamps: TimestampExtender,
    depacketizer: Depacketizer,
    /// Wide timestamp and arrival of each unit's first packet.
    arrivals: VecDeque<(i64, Instant)>,
    sets: Option<ParameterSets>,
    reordering: Option<Reordering>,
    packetizer: UnitPacketizer,
    video: bool,
}

impl Assembler {
    /// For tracks as their session description has them, best made by
    /// [`track_of`](super::track_of).
    ///
    /// # Errors
    /// [`Unreceivable`] if the packets of one of them cannot be read.
    pub(crate) fn new(tracks: Vec<Track>) -> Result<Self, Unreceivable> {
        let rates: Vec<_> = tracks.iter().map(|track| track.clock_rate).collect();
        let audio = tracks.iter().position(|track| track.kind() == Kind::Audio);
        let lanes = tracks.iter().map(Lane::new).collect::<Result<_, _>>()?;
        Ok(Self {
            lanes,
            clock: SourceClock::new(&rates, audio.unwrap_or(0)),
            tracks: tracks.into_iter().map(tracks::as_sent).collect(),
            damaged: false,
            redescribed: false,
        })
    }

    /// The tracks as they come out, to be published: with the parameter sets seen
    /// so far, and with the format parameters of the packets that are made here.
    pub(crate) fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// A stream can be published from this burst on: a keyframe of the first
    /// video track, or anything if there is only audio.
    pub(crate) fn starts(&self, burst: &MediaUnit) -> bool {
        let mut tracks = self.tracks.iter();
        match tracks.position(|track| track.kind() == Kind::Video) {
            Some(video) => burst.track == video && burst.keyframe,
            None => true,
        }
    }

    /// Takes a packet; what became whole by it is appended to `out`. A track that
    /// is not there is ignored.
    pub(crate) fn push(&mut self, packet: &Packet<'_>, out: &mut Vec<MediaUnit>) {
        let Some(lane) = self.lanes.get_mut(packet.track) else {
            return;
        };
        let ticks = lane.push(packet);
        while let Some(unit) = lane.depacketizer.poll() {
            let (ticks, received) = lane.arrival(&unit, ticks, packet.received);
            self.damaged |= lane.video && unit.after_loss && !unit.keyframe;
            let video = &mut self.tracks[packet.track].video;
            if let Some(reordering) = &mut lane.reordering {
                reordering.push(&unit.data, unit.after_loss);
                let is_reordered = reordering.is_reordered();
                self.redescribed |= video.reordered != is_reordered;
                video.reordered = is_reordered;
            }
            let place = Place {
                track: packet.track,
                time: self.clock.time(packet.track, ticks, received),
                origin: received,
            };
            lane.cut(unit, place, out);
            if let Some(sets) = &mut lane.sets {
                sets.describe(&mut self.tracks[packet.track]);
            }
        }
    }

    /// The tracks, if it turned out since the last call that their frames are
    /// shown in another order than they come in, or no longer.
    pub(crate) fn take_redescribed(&mut self) -> Option<&[Track]> {
        std::mem::take(&mut self.redescribed).then_some(&self.tracks)
    }

    /// Whether frames since the last call build on one that was lost: only a
    /// keyframe mends that.
    pub(crate) fn take_damage(&mut self) -> bool {
        std::mem::take(&mut self.damaged)
    }

    /// The source says that `timestamp` of `track`, as on the wire, was sampled at
    /// `ntp` (RFC 3550 §6.4.1). Nothing is known of it before the first packet.
    pub(crate) fn sender_report(&mut self, track: usize, ntp: u64, timestamp: u32) {
        let lane = self.lanes.get(track);
        if let Some(latest) = lane.and_then(|lane| lane.timestamps.highest()) {
            let ticks = TimestampExtender::near(latest, timestamp);
            self.clock.sender_report(track, ntp, ticks);
        }
    }
}

impl Lane {
    fn new(track: &Track) -> Result<Self, Unreceivable> {
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

    /// Returns the packet's wide timestamp.
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

    /// Wide timestamp and arrival of the first packet of `unit`, which came out
    /// when a packet with timestamp `now` went in.
    fn arrival(&mut self, unit: &Unit, now: i64, received: Instant) -> (i64, Instant) {
        let ticks = TimestampExtender::near(now, unit.timestamp);
        // The further units of a packet of audio are not found, and do not come first.
        let found = self.arrivals.iter().position(|(it, _)| *it == ticks);
        match found {
            Some(place) => {
                self.arrivals.drain(..place);
                (ticks, self.arrivals[0].1)
            }
            None => (ticks, received),
        }
    }

    fn cut(&mut self, unit: Unit, place: Place, out: &mut Vec<MediaUnit>) {
        let (keyframe, data) = match &mut self.sets {
            Some(sets) => sets.complete(unit.keyframe, unit.data),
            None => (unit.keyframe || !self.video, unit.data),
        };
        self.packetizer.cut(&data, keyframe, place, out);
    }
}

/// Follows the frames of a track from what its description says on.
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
