//! Turns the RTP packets of a source's tracks into access units on one timeline.
//!
//! ```text
//! UnitReceiver: packets in order ─► UnitAssembler ─► TimedUnit
//!
//! packets in order ─► Depacketizer ─► access unit ─┬► TimedUnit
//! timestamps, arrivals, sender reports ─► SourceClock ─┘
//! ```

mod descriptors;
mod entry_points;
mod receiver;
mod source_clock;

use std::collections::VecDeque;
use std::time::Instant;

use glassline_media::{Kind, MediaTime, Temporal, Track, TrackIndex};

use crate::TimestampExtender;
use crate::dependency_descriptor::DescriptorError;
use crate::payload::{Depacketizer, Unit, UnsupportedFormat};
use crate::reorder::ReceivedPacket;
use descriptors::Descriptors;
use entry_points::EntryPoints;
use source_clock::SourceClock;

pub use receiver::UnitReceiver;

/// Most access units of a track whose arrival is remembered: the one being assembled and a few
/// whose packets are lost.
const ARRIVALS_MAX: usize = 16;

/// One access unit of a source, as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedUnit {
    /// Index into the source's tracks.
    pub track: TrackIndex,
    /// Time on the source's timeline, which all tracks share.
    pub time: MediaTime,
    /// Decode time on the same timeline; `None` if the source does not state it. RTP carries none.
    pub decode_time: Option<MediaTime>,
    /// Whether a decoder can start here, if its parameter sets are known. Of a source without IDR
    /// pictures, that is a recovery point.
    pub keyframe: bool,
    /// Whether data before this unit was lost.
    pub after_loss: bool,
    /// Place among the temporal layers, as far as the source states it.
    pub temporal: Temporal,
    /// Coded data in the form that [`Packetizer::packetize`](crate::payload::Packetizer::packetize)
    /// takes: Annex B for H.264 and H.265.
    pub data: Vec<u8>,
    /// Arrival of the unit's first packet.
    pub received: Instant,
}

/// Assembles a source's packets to access units, and gives these their times.
///
/// A frame is complete at its marker, or when the next frame begins for sources whose markers are
/// missing or wrong.
/// Memory is bounded by one access unit a track.
#[derive(Debug)]
pub struct UnitAssembler {
    states: Vec<TrackState>,
    clock: SourceClock,
    /// Number of oversized units that [`Self::take_oversized`] has returned.
    oversized_taken: u64,
}

/// The state of one track between its packets and its access units.
#[derive(Debug)]
struct TrackState {
    timestamps: TimestampExtender,
    depacketizer: Depacketizer,
    entry_points: EntryPoints,
    /// Extended RTP timestamp and arrival of the first packet of each access unit.
    arrivals: VecDeque<(i64, Instant)>,
    /// Dependency descriptors, of a source that sends them.
    descriptors: Option<Box<Descriptors>>,
    /// NTP time and timestamp of the latest sender report, until the track's first packet.
    early_report: Option<(u64, u32)>,
}

impl UnitAssembler {
    /// Creates an assembler of tracks as their session description has them.
    ///
    /// # Errors
    /// Returns [`UnsupportedFormat`] if the payload format of a track is not supported.
    pub fn new(tracks: &[Track]) -> Result<Self, UnsupportedFormat> {
        let rates: Vec<_> = tracks.iter().map(|track| track.clock_rate).collect();
        let audio = tracks.iter().position(|track| track.kind() == Kind::Audio);
        Ok(Self {
            states: tracks
                .iter()
                .map(TrackState::new)
                .collect::<Result<_, _>>()?,
            clock: SourceClock::new(&rates, TrackIndex(audio.unwrap_or(0))),
            oversized_taken: 0,
        })
    }

    /// Takes a packet of `track`, in sequence order, and hands `sink` the access units that are
    /// complete with it. Ignores a packet of an unknown track.
    ///
    /// The packet's extended sequence number continues above all earlier ones when the source
    /// begins anew.
    pub fn push(
        &mut self,
        track: TrackIndex,
        packet: ReceivedPacket<'_>,
        mut sink: impl FnMut(TimedUnit),
    ) {
        let Some(state) = self.states.get_mut(track.get()) else {
            return;
        };
        let ticks = state.push(packet);
        if state.timestamps.highest().is_some()
            && let Some((ntp, timestamp)) = state.early_report.take()
        {
            let reported = TimestampExtender::near(ticks, timestamp);
            self.clock.sender_report(track, ntp, reported);
        }
        while let Some(unit) = state.depacketizer.poll() {
            let (ticks, received) = state.arrival(&unit, ticks, packet.received);
            sink(TimedUnit {
                track,
                time: self.clock.time(track, ticks, received),
                decode_time: None,
                keyframe: state.entry_points.admit(unit.entry, received),
                after_loss: unit.after_loss,
                temporal: state.temporal(&unit),
                data: unit.data,
                received,
            });
        }
    }

    /// Returns how many access units of all tracks were dropped since the last call because they have
    /// more than [`UNIT_BYTES_MAX`](crate::payload::UNIT_BYTES_MAX) bytes.
    pub fn take_oversized(&mut self) -> u64 {
        let counters = self.states.iter().map(|it| it.depacketizer.counters());
        let all: u64 = counters.map(|it| it.oversized).sum();
        all - std::mem::replace(&mut self.oversized_taken, all)
    }

    /// Takes the dependency descriptor of a packet of `track` with `timestamp`, as on the wire, in any order
    /// and before the packet.
    pub fn describe(&mut self, track: TrackIndex, timestamp: u32, descriptor: &[u8]) {
        if let Some(state) = self.states.get_mut(track.get()) {
            let descriptors = state.descriptors.get_or_insert_default();
            descriptors.push(timestamp, descriptor);
        }
    }

    /// Returns why a dependency descriptor of any track was not read since the last call.
    pub fn take_descriptor_fault(&mut self) -> Option<DescriptorError> {
        let descriptors = self
            .states
            .iter_mut()
            .filter_map(|it| it.descriptors.as_mut());
        descriptors.filter_map(|it| it.take_fault()).last()
    }

    /// Returns how far the sender's wall clock is ahead of the time of `track`, in ns since 1900; `None`
    /// without a sender report. Units of another connection to the same sender are placed by it.
    pub fn wall_clock(&self, track: TrackIndex) -> Option<i128> {
        self.clock.wall_clock(track)
    }

    /// Notes that the source sampled `timestamp` of `track`, as on the wire, at the NTP time `ntp`
    /// (RFC 3550 §6.4.1). A report ahead of the track's first packet counts from that on.
    pub fn sender_report(&mut self, track: TrackIndex, ntp: u64, timestamp: u32) {
        let Some(state) = self.states.get_mut(track.get()) else {
            return;
        };
        let Some(latest) = state.timestamps.highest() else {
            state.early_report = Some((ntp, timestamp));
            return;
        };
        let ticks = TimestampExtender::near(latest, timestamp);
        self.clock.sender_report(track, ntp, ticks);
    }
}

impl TrackState {
    fn new(track: &Track) -> Result<Self, UnsupportedFormat> {
        Ok(Self {
            timestamps: TimestampExtender::new(),
            depacketizer: Depacketizer::new(track)?,
            entry_points: EntryPoints::default(),
            arrivals: VecDeque::new(),
            descriptors: None,
            early_report: None,
        })
    }

    /// Hands the packet to the depacketizer and returns its extended timestamp. That of an empty one
    /// means nothing.
    fn push(&mut self, packet: ReceivedPacket<'_>) -> i64 {
        if packet.payload.is_empty() {
            packet.push_to(&mut self.depacketizer);
            return self.timestamps.highest().unwrap_or_default();
        }
        let ticks = self.timestamps.extend(packet.timestamp);
        let latest = self.arrivals.back();
        if latest.is_none_or(|(timestamp, _)| *timestamp != ticks) {
            if self.arrivals.len() == ARRIVALS_MAX {
                self.arrivals.pop_front();
            }
            self.arrivals.push_back((ticks, packet.received));
        }
        debug_assert!(self.arrivals.len() <= ARRIVALS_MAX);
        packet.push_to(&mut self.depacketizer);
        ticks
    }

    /// Returns the place of `unit` among the temporal layers: as its descriptor says, otherwise its payloads.
    fn temporal(&mut self, unit: &Unit) -> Temporal {
        let descriptors = self.descriptors.as_mut();
        let described = descriptors.and_then(|it| it.take(unit.timestamp));
        described.unwrap_or(unit.temporal)
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
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use glassline_media::Codec;

    use super::*;

    #[test]
    fn a_report_ahead_of_the_first_packet_counts_from_that_packet_on() {
        let start = Instant::now();
        let tracks = [Track::new(Codec::Pcmu), Track::new(Codec::Pcma)];
        let mut assembler = UnitAssembler::new(&tracks).expect("supported");
        let mut times = Vec::new();
        for (track, after_ms) in [(0, 0), (1, 600)] {
            let track = TrackIndex(track);
            // Both tracks were sampled at the same time, in ticks of their own.
            let timestamp = 80_000 * (1 + track.get() as u32);
            assembler.sender_report(track, 3_900_000_000 << 32, timestamp);
            let packet = ReceivedPacket {
                sequence: 1,
                timestamp,
                marker: true,
                payload: &[0x55; 160],
                received: start + Duration::from_millis(after_ms),
            };
            assembler.push(track, packet, |unit| times.push(unit.time));
        }
        assert_eq!(times, [MediaTime::ZERO; 2]);
    }
}
