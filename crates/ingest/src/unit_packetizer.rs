//! Packetizes access units into media units.

use std::time::{Duration, Instant};

use glassline_media::{
    Codec, DecodeLead, MediaTime, MediaUnit, PAYLOAD_BYTES_MAX, Stamps, Track, TrackIndex,
    UnitBuilder,
};
use glassline_rtp::payload::{PacketizeError, Packetizer};

/// The track and the times of an access unit.
#[derive(Clone, Copy, Debug)]
pub struct UnitTiming {
    /// Index of the track in the source.
    pub track: TrackIndex,
    /// Time on the source's own clock.
    pub time: MediaTime,
    /// Time on the same clock at which a decoder needs the unit.
    pub decode_time: MediaTime,
    /// Time at which the unit's accounted delay begins.
    pub origin: Instant,
}

/// Makes media units of one track's access units.
#[derive(Debug)]
pub struct UnitPacketizer {
    codec: Codec,
    packetizer: Packetizer,
    /// Buffer kept for its capacity.
    builder: UnitBuilder,
    samples: Option<Samples>,
    /// Whether the log has said that units of this track cannot be sent.
    warned: bool,
}

impl UnitPacketizer {
    /// Creates a packetizer for the units of `track`.
    pub fn new(track: &Track) -> Self {
        Self {
            codec: track.codec,
            packetizer: Packetizer::new(track),
            builder: UnitBuilder::default(),
            samples: Samples::of(track),
            warned: false,
        }
    }

    /// Appends the media units of one access unit to `out`: usually one, none if there is nothing
    /// to send or it cannot be sent. The first failure is logged.
    pub fn packetize(
        &mut self,
        unit: &[u8],
        keyframe: bool,
        timing: UnitTiming,
        out: &mut Vec<MediaUnit>,
    ) {
        if let Some(samples) = self.samples.filter(|it| unit.len() > it.piece_bytes()) {
            for (piece, number) in unit.chunks(samples.piece_bytes()).zip(0..) {
                let time = timing.time + samples.piece_time(number);
                let timing = UnitTiming {
                    time,
                    decode_time: time,
                    ..timing
                };
                self.packetize(piece, keyframe, timing, out);
            }
            return;
        }
        self.builder.clear();
        // The packets' prefixes come in addition.
        self.builder.reserve(unit.len() + unit.len() / 256 + 128);
        match self.packetizer.packetize(unit, &mut self.builder) {
            Ok(()) => {
                let stamps = Stamps::arrived(timing.origin);
                let builder = &mut self.builder;
                let unit = builder.build(timing.track, timing.time, keyframe, stamps);
                out.extend(unit.map(|mut unit| {
                    unit.decode_lead = DecodeLead::between(timing.decode_time, timing.time);
                    unit
                }));
            }
            Err(unsendable) => self.warn(&unsendable),
        }
    }

    fn warn(&mut self, unsendable: &PacketizeError) {
        if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(codec = %self.codec, %unsendable, "dropping access units of this track: they cannot be sent as RTP");
        }
    }
}

/// The layout of uncoded audio in bytes. A long packet can be divided between any two samples, and
/// each part has a time of its own.
#[derive(Clone, Copy, Debug)]
struct Samples {
    /// Bytes of one sample of all channels.
    bytes: usize,
    rate: u32,
}

impl Samples {
    fn of(track: &Track) -> Option<Self> {
        let width = match track.codec {
            Codec::Pcmu | Codec::Pcma => 1,
            Codec::L16 => 2,
            _ => return None,
        };
        Some(Self {
            bytes: width * usize::from(track.channels.max(1)),
            rate: track.clock_rate,
        })
    }

    /// Returns the most bytes of whole samples that fit into a packet: 255 channels of two bytes
    /// do.
    const fn piece_bytes(self) -> usize {
        PAYLOAD_BYTES_MAX / self.bytes * self.bytes
    }

    /// Returns the time from the first part to the part of this number.
    fn piece_time(self, number: u64) -> Duration {
        let samples = (self.piece_bytes() / self.bytes) as u64 * number;
        let nanos = u128::from(samples) * 1_000_000_000 / u128::from(self.rate.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing() -> UnitTiming {
        UnitTiming {
            track: TrackIndex(1),
            time: MediaTime::ZERO,
            decode_time: MediaTime::ZERO,
            origin: Instant::now(),
        }
    }

    fn packetize(track: &Track, unit: &[u8]) -> Vec<MediaUnit> {
        let mut out = Vec::new();
        UnitPacketizer::new(track).packetize(unit, true, timing(), &mut out);
        out
    }

    #[test]
    fn long_g711_packets_are_cut_and_timed() {
        let media_units = packetize(&Track::audio(Codec::Pcmu, 1), &[0x7f; 2000]);
        let sizes: Vec<_> = media_units.iter().map(MediaUnit::payload_bytes).collect();
        assert_eq!(sizes, [1150, 850]);
        assert_eq!(media_units[1].time, MediaTime::from_ticks(1150, 8000));
    }

    #[test]
    fn linear_samples_are_cut_between_samples_of_all_channels() {
        let track = Track::audio(Codec::L16, 3).with_clock_rate(48_000);
        let media_units = packetize(&track, &[1; 2400]);
        let sizes: Vec<_> = media_units.iter().map(MediaUnit::payload_bytes).collect();
        assert_eq!(sizes, [1146, 1146, 108]);
        assert_eq!(media_units[2].time, MediaTime::from_ticks(2 * 191, 48_000));
    }

    #[test]
    fn opus_is_never_cut() {
        let track = Track::audio(Codec::Opus, 2);
        assert_eq!(packetize(&track, &[1; 1150]).len(), 1);
        assert_eq!(packetize(&track, &[1; 1151]).len(), 0);
        assert_eq!(packetize(&track, &[]).len(), 0);
    }

    #[test]
    fn frames_become_packets_with_a_marker_on_the_last() {
        let track = Track::new(Codec::H264);
        let mut frame = vec![0, 0, 1];
        frame.resize(3003, 0x65);
        let media_units = packetize(&track, &frame);
        let media_unit = &media_units[0];
        assert_eq!(media_unit.packet_count(), 3);
        assert!(media_unit.keyframe && media_unit.marker(2) && !media_unit.marker(0));
        assert!(packetize(&track, &[]).is_empty());
    }
}
