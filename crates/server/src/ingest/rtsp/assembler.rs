use std::collections::VecDeque;
use std::time::Instant;

use glassline_media::{Burst, Codec, Kind, Track};
use glassline_rtp::h264::{self, AccessUnit, Depacketiser};
use glassline_rtp::{SequenceExtender, TimestampExtender};

use super::source_clock::SourceClock;
use crate::ingest::burst::{Cutter, Place};

/// Access units under way at once: the one being put together and a few whose
/// packets are lost.
const ARRIVALS_MAX: usize = 16;

/// One RTP packet as it came in, in sequence order for its track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    /// Index into the tracks given to [`Assembler::new`].
    pub(super) track: usize,
    pub(super) sequence: u16,
    /// Widened, so that it does not wrap.
    pub(super) timestamp: i64,
    pub(super) marker: bool,
    pub(super) payload: &'a [u8],
    pub(super) received: Instant,
}

/// Puts a camera's packets together to access units and cuts them anew as
/// bursts, on one timeline.
///
/// A picture is done at its marker, or when the next one begins for cameras
/// that set none. Keyframes that come without parameter sets get those last
/// seen, or those of the session description.
#[derive(Debug)]
pub(super) struct Assembler {
    tracks: Vec<Track>,
    lanes: Vec<Lane>,
    clock: SourceClock,
}

#[derive(Debug)]
enum Lane {
    Video(Box<Video>),
    Audio(Cutter),
}

#[derive(Debug)]
struct Video {
    sequences: SequenceExtender,
    depacketiser: Depacketiser,
    /// Wide timestamp and arrival of each picture's first packet.
    arrivals: VecDeque<(i64, Instant)>,
    sps: Vec<u8>,
    pps: Vec<u8>,
    cutter: Cutter,
}

impl Assembler {
    pub(super) fn new(tracks: Vec<Track>) -> Self {
        let rates: Vec<_> = tracks
            .iter()
            .map(|track| track.codec.clock_rate())
            .collect();
        let sound = tracks.iter().position(|track| track.kind() == Kind::Audio);
        Self {
            lanes: tracks.iter().map(Lane::new).collect(),
            clock: SourceClock::new(&rates, sound.unwrap_or(0)),
            tracks,
        }
    }

    /// The tracks, with the parameter sets seen so far.
    pub(super) fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// Takes a packet; what became whole by it is appended to `out`.
    pub(super) fn push(&mut self, packet: &Packet<'_>, out: &mut Vec<Burst>) {
        match self.lanes.get_mut(packet.track) {
            None => {}
            Some(Lane::Audio(cutter)) => {
                let time = self
                    .clock
                    .time(packet.track, packet.timestamp, packet.received);
                let place = Place {
                    track: packet.track,
                    time,
                    origin: packet.received,
                };
                cutter.cut(packet.payload, true, place, out);
            }
            Some(Lane::Video(video)) => {
                video.push(packet);
                while let Some(unit) = video.depacketiser.poll() {
                    let (ticks, received) = video.arrival(&unit, packet);
                    let place = Place {
                        track: packet.track,
                        time: self.clock.time(packet.track, ticks, received),
                        origin: received,
                    };
                    let parameters = &mut self.tracks[packet.track].video;
                    video.cut(&unit, place, out);
                    if parameters.sps.is_empty() && !video.sps.is_empty() {
                        parameters.sps.clone_from(&video.sps);
                        parameters.pps.clone_from(&video.pps);
                    }
                }
            }
        }
    }

    /// The camera says that wide `timestamp` of `track` was sampled at `ntp`.
    pub(super) fn sender_report(&mut self, track: usize, ntp: u64, timestamp: i64) {
        self.clock.sender_report(track, ntp, timestamp);
    }
}

impl Lane {
    fn new(track: &Track) -> Self {
        match track.codec {
            Codec::H264 => Self::Video(Box::new(Video {
                sequences: SequenceExtender::new(),
                depacketiser: Depacketiser::default(),
                arrivals: VecDeque::new(),
                sps: track.video.sps.clone(),
                pps: track.video.pps.clone(),
                cutter: Cutter::new(track),
            })),
            _ => Self::Audio(Cutter::new(track)),
        }
    }
}

impl Video {
    fn push(&mut self, packet: &Packet<'_>) {
        if self
            .arrivals
            .back()
            .is_none_or(|(timestamp, _)| *timestamp != packet.timestamp)
        {
            if self.arrivals.len() == ARRIVALS_MAX {
                self.arrivals.pop_front();
            }
            self.arrivals.push_back((packet.timestamp, packet.received));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the low bits are those of the wire"
        )]
        let on_wire = packet.timestamp as u32;
        self.depacketiser.push(
            self.sequences.extend(packet.sequence),
            on_wire,
            packet.marker,
            packet.payload,
        );
    }

    /// Wide timestamp and arrival of the first packet of `unit`, which came out
    /// when `packet` went in.
    fn arrival(&mut self, unit: &AccessUnit, packet: &Packet<'_>) -> (i64, Instant) {
        let ticks = TimestampExtender::near(packet.timestamp, unit.timestamp);
        while let Some((timestamp, received)) = self.arrivals.front().copied() {
            if timestamp == ticks {
                return (ticks, received);
            }
            self.arrivals.pop_front();
        }
        (ticks, packet.received)
    }

    fn cut(&mut self, unit: &AccessUnit, place: Place, out: &mut Vec<Burst>) {
        if let Some(sps) = unit.find(h264::nal::SPS) {
            self.sps = sps.to_vec();
        }
        if let Some(pps) = unit.find(h264::nal::PPS) {
            self.pps = pps.to_vec();
        }
        let known = !self.sps.is_empty() && !self.pps.is_empty();
        let complete = unit.has_parameter_sets();
        let keyframe = unit.keyframe && (complete || known);
        if !keyframe || complete {
            return self.cutter.cut(&unit.data, keyframe, place, out);
        }
        // Those it has itself come again behind ours, which are the same.
        let mut whole = Vec::with_capacity(unit.data.len() + self.sps.len() + self.pps.len() + 8);
        for set in [&self.sps, &self.pps] {
            whole.extend_from_slice(&[0, 0, 0, 1]);
            whole.extend_from_slice(set);
        }
        whole.extend_from_slice(&unit.data);
        self.cutter.cut(&whole, true, place, out);
    }
}

#[cfg(test)]
mod tests;
