use std::path::PathBuf;
use std::time::{Duration, Instant};

use glassline_demux as demux;
use glassline_media::{MediaTime, PAYLOAD_BYTES_MAX, Stamps, TrackIndex, UnitBuilder};
use glassline_rtp::payload::Packetizer;

use super::{Error, HEADER_BYTES, TAG_BYTES};

/// Packets of one viewer, repeated without end.
#[derive(Clone, Debug)]
pub struct Traffic {
    units: Vec<Unit>,
    length: Duration,
}

/// Packets that leave at the same time: those of a frame, or one of audio.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Time since the start of the traffic.
    pub at: Duration,
    /// Payloads in order, not sealed.
    pub payloads: Vec<Vec<u8>>,
}

/// Mean rates and sizes of a stream as a viewer receives it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shape {
    /// Video frames per second.
    pub frames_per_second: f64,
    /// Video packets per second.
    pub video_packets_per_second: f64,
    /// Mean bytes of a video datagram, with header and tag.
    pub video_datagram_bytes: f64,
    /// Audio packets per second.
    pub audio_packets_per_second: f64,
    /// Mean bytes of an audio datagram, with header and tag.
    pub audio_datagram_bytes: f64,
}

/// Length of the traffic before it repeats: fractional rates are exact to 0.1 %.
const LIKE_LENGTH: Duration = Duration::from_secs(10);

/// Most packets per second. A higher rate is a miscount, and would take too much memory.
const PACKETS_PER_SECOND_MAX: f64 = 20_000.0;

impl Traffic {
    /// Traffic with the rates and sizes of `shape`, evenly spaced; packets are distributed over
    /// frames as evenly as possible.
    pub fn like(shape: &Shape) -> Result<Self, Error> {
        let frames = shape.frames_per_second.min(shape.video_packets_per_second);
        let mut units = stretch(
            frames,
            shape.video_packets_per_second,
            shape.video_datagram_bytes,
        );
        units.extend(stretch(
            shape.audio_packets_per_second,
            shape.audio_packets_per_second,
            shape.audio_datagram_bytes,
        ));
        Self::new(units, LIKE_LENGTH)
    }

    /// Traffic of a clip's tracks: access units, packetized as the server does.
    pub fn of_files(files: &[PathBuf]) -> Result<Self, Error> {
        let options = demux::Options {
            once: true,
            ..demux::Options::default()
        };
        let mut source = demux::open(files, &options)?;
        let mut packetizers: Vec<_> = source.tracks().iter().map(Packetizer::new).collect();
        let mut units = Vec::new();
        let mut end = Duration::ZERO;
        while let Some(frame) = source.next_frame()? {
            let at = frame.time.saturating_since(MediaTime::ZERO);
            end = end.max(at + frame.duration);
            let mut builder = UnitBuilder::default();
            // Frames that cannot be packetized are left out, as in the server.
            if let Some(packetizer) = packetizers.get_mut(frame.track.get())
                && packetizer.packetize(&frame.data, &mut builder).is_err()
            {
                continue;
            }
            let stamps = Stamps::arrived(Instant::now());
            if let Some(burst) = builder.build(TrackIndex(0), frame.time, frame.keyframe, stamps) {
                let payloads = burst.payloads().map(<[u8]>::to_vec).collect();
                units.push(Unit { at, payloads });
            }
        }
        Self::new(units, end)
    }

    fn new(mut units: Vec<Unit>, length: Duration) -> Result<Self, Error> {
        if units.is_empty() || length.is_zero() {
            return Err(Error::Empty);
        }
        units.sort_by_key(|unit| unit.at);
        Ok(Self { units, length })
    }

    /// Returns the number of packets per second and viewer.
    pub fn packets_per_second(&self) -> f64 {
        self.packets() as f64 / self.length.as_secs_f64()
    }

    /// Mean bytes of a datagram, with header and tag.
    pub fn datagram_bytes(&self) -> f64 {
        let sizes = self.payloads().map(|payload| sealed_bytes(payload.len()));
        sizes.sum::<usize>() as f64 / self.packets().max(1) as f64
    }

    /// Bytes of the largest unit when it is sealed for one viewer.
    pub(super) fn unit_bytes_max(&self) -> usize {
        let sizes = self.units.iter().map(|unit| {
            let payloads = unit.payloads.iter();
            payloads.map(|payload| sealed_bytes(payload.len())).sum()
        });
        sizes.max().unwrap_or(0)
    }

    /// Units with their times, repeated without end.
    pub(super) fn endless(&self) -> impl Iterator<Item = (Duration, &Unit)> {
        let rounds = (0u32..).map(|round| self.length.saturating_mul(round));
        rounds.flat_map(|from| self.units.iter().map(move |unit| (from + unit.at, unit)))
    }

    fn packets(&self) -> usize {
        self.payloads().count()
    }

    fn payloads(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.units.iter().flat_map(|unit| &unit.payloads)
    }
}

impl Unit {
    /// Groups of payloads that one segmented send can carry: equal sizes, the last one may be
    /// shorter.
    pub(super) fn runs(&self) -> impl Iterator<Item = &[Vec<u8>]> {
        self.payloads
            .chunk_by(|one, next| one.len() >= next.len())
            .flat_map(|falling| falling.split_inclusive(|payload| payload.len() < falling[0].len()))
    }
}

const fn sealed_bytes(payload: usize) -> usize {
    HEADER_BYTES + payload + TAG_BYTES
}

/// Units for `LIKE_LENGTH` at `units_per_second`, which together have `packets_per_second`.
fn stretch(units_per_second: f64, packets_per_second: f64, datagram_bytes: f64) -> Vec<Unit> {
    let is_rate = |rate: f64| rate > 0.0 && rate <= PACKETS_PER_SECOND_MAX;
    if !is_rate(units_per_second) || !is_rate(packets_per_second) {
        return Vec::new();
    }
    let length = LIKE_LENGTH.as_secs_f64();
    let units = (units_per_second * length).round().max(1.0) as usize;
    let packets = (packets_per_second * length).round().max(1.0) as usize;
    let payload = (datagram_bytes as usize)
        .saturating_sub(sealed_bytes(0))
        .clamp(1, PAYLOAD_BYTES_MAX.max(1400));
    let unit = |index: usize| {
        let count = packets * (index + 1) / units - packets * index / units;
        // Each packet has memory of its own, because a server's ring is not in the nearest cache
        // either.
        let payloads = (0..count)
            .map(|number| vec![number as u8; payload])
            .collect();
        Unit {
            at: Duration::from_secs_f64(index as f64 * length / units as f64),
            payloads,
        }
    };
    (0..units)
        .map(unit)
        .filter(|unit| !unit.payloads.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_shape_becomes_traffic_of_its_rates_and_sizes() {
        let shape = Shape {
            frames_per_second: 29.97,
            video_packets_per_second: 361.2,
            video_datagram_bytes: 1_060.0,
            audio_packets_per_second: 50.0,
            audio_datagram_bytes: 206.0,
        };
        let traffic = Traffic::like(&shape).expect("there is traffic");
        let rate = traffic.packets_per_second();
        assert!((rate - 411.2).abs() < 0.5, "{rate}");
        let wanted = (361.2 * 1_060.0 + 50.0 * 206.0) / 411.2;
        let size = traffic.datagram_bytes();
        assert!((size - wanted).abs() < 2.0, "{size} {wanted}");
        let sizes = traffic.units.iter().map(|unit| unit.payloads.len());
        let (min, max) = sizes.fold((usize::MAX, 0), |(min, max), n| (min.min(n), max.max(n)));
        assert_eq!((min, max), (1, 13), "frames of 12 or 13, audio of 1");
        assert!(traffic.units.is_sorted_by_key(|unit| unit.at));
        let second_round = traffic.endless().nth(traffic.units.len());
        assert_eq!(second_round.map(|(due, _)| due), Some(LIKE_LENGTH));
    }

    #[test]
    fn audio_alone_is_traffic_and_nothing_is_not() {
        let audio = Shape {
            audio_packets_per_second: 50.0,
            audio_datagram_bytes: 0.0,
            ..Shape::default()
        };
        let traffic = Traffic::like(&audio).expect("there is audio");
        assert_eq!(traffic.packets(), 500);
        for shape in [
            Shape::default(),
            Shape {
                video_packets_per_second: f64::NAN,
                frames_per_second: 1.0,
                ..Shape::default()
            },
            Shape {
                audio_packets_per_second: 1e12,
                ..Shape::default()
            },
        ] {
            assert!(
                matches!(Traffic::like(&shape), Err(Error::Empty)),
                "{shape:?}"
            );
        }
    }

    #[test]
    fn files_are_cut_as_the_server_cuts_them() {
        let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets");
        let files = [assets.join("demo.h264"), assets.join("demo.ogg")];
        let traffic = Traffic::of_files(&files).expect("the demo's clip");
        let rate = traffic.packets_per_second();
        assert!(rate > 100.0 && rate < 400.0, "{rate}");
        assert!(traffic.datagram_bytes() < 1_300.0);
        assert!(traffic.unit_bytes_max() > 2_000, "a keyframe is large");
        let missing = Traffic::of_files(&[PathBuf::from("/nowhere/x.h264")]);
        let error = missing.expect_err("no file").to_string();
        assert!(error.contains("/nowhere/x.h264"), "{error}");
    }

    #[test]
    fn a_run_is_equal_sizes_with_a_shorter_end() {
        let unit = Unit {
            at: Duration::ZERO,
            payloads: [9, 9, 4, 9, 3, 3, 5].map(|len| vec![0; len]).to_vec(),
        };
        let runs: Vec<Vec<usize>> = unit
            .runs()
            .map(|run| run.iter().map(Vec::len).collect())
            .collect();
        assert_eq!(runs, [vec![9, 9, 4], vec![9, 3], vec![3], vec![5]]);
    }
}
