use std::time::Duration;

use glassline_media::{Kind, TrackIndex};
use proptest::prelude::*;

use super::{Run, Stream, Synthetic, demuxed, essence, recording};
use crate::{CutRule, RecordedFile};

/// Samples of the demuxer, and the codecs that players are told.
const SAMPLES: [(&str, &str); 13] = [
    ("h264-aac.mp4", "avc1.640009,mp4a.40.2"),
    ("b-frames.h264", "avc1."),
    ("negative-ctts.mp4", "avc1."),
    ("h265-opus.mp4", "hvc1.1.6.L"),
    ("h265.ts", "hvc1."),
    ("vp8.ivf", "vp08.00."),
    ("vp9.mp4", "vp09.00."),
    ("vp9-opus.webm", "vp09.00."),
    ("av1.mp4", "av01.0."),
    ("av1.ivf", "av01.0."),
    ("sine.aac", "mp4a.40.2"),
    ("stereo.flac", "fLaC"),
    ("flac.mp4", "fLaC"),
];

#[test]
fn samples_of_every_codec_come_back_from_fragments_and_from_finished_files() {
    for (name, codecs) in SAMPLES {
        let stream = Stream::of_sample(name);
        let run = Run::of(stream.cut(recording()));
        assert!(
            run.header.codec_strings().starts_with(codecs),
            "{name}: {}",
            run.header.codec_strings()
        );
        let (file, _) = run.file();
        assert_same(name, &stream, file);
        assert_same(name, &stream, run.finished_file());
    }
}

/// Asserts that a file has the frames of a stream.
fn assert_same(name: &str, stream: &Stream, file: Vec<u8>) {
    let (tracks, frames) = demuxed(file).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(tracks.len(), stream.tracks.len(), "{name}");
    for (index, track) in TrackIndex::enumerate(&stream.tracks) {
        let place = tracks.iter().position(|it| it.codec == track.codec);
        let place = place.unwrap_or_else(|| panic!("{name}: no {}", track.codec));
        let units = stream.units.iter().filter(|unit| unit.track == index);
        let units: Vec<_> = units.collect();
        let read = &frames[place];
        // PCM is read in packets of another size.
        if track.codec == glassline_media::Codec::L16 {
            let bytes = |it: &[glassline_demux::Frame]| -> Vec<u8> {
                it.iter().flat_map(|frame| frame.data.to_vec()).collect()
            };
            let sent: Vec<u8> = units
                .iter()
                .flat_map(|unit| unit.coded_frame().expect("a frame").to_vec())
                .collect();
            assert!(bytes(read) == sent, "{name}: {} bytes", sent.len());
            continue;
        }
        assert_eq!(read.len(), units.len(), "{name}: {}", track.codec);
        let (first, first_decode) = (units[0].time.nanos(), units[0].decode_time().nanos());
        let earliest = units
            .iter()
            .map(|it| it.time.nanos())
            .min()
            .unwrap_or(first);
        let _ = first_decode;
        for (unit, frame) in units.iter().zip(read) {
            let data = unit.coded_frame().expect("a frame").to_vec();
            assert!(
                essence(track.codec, &data) == essence(track.codec, &frame.data),
                "{name}: {} at {:?}",
                track.codec,
                unit.time
            );
            assert_eq!(unit.keyframe, frame.keyframe, "{name} at {:?}", unit.time);
            let base = if tracks.len() == 1 { earliest } else { 0 };
            let off = frame.time.nanos() - (unit.time.nanos() - base);
            // A tick of 90 kHz, a millisecond of audio.
            let most = if track.kind() == Kind::Video {
                12_000
            } else {
                1_030_000
            };
            assert!(
                off.abs() <= most,
                "{name}: {} off by {off} ns at {:?}",
                track.codec,
                unit.time
            );
            let decode = frame.decode_time.nanos() - (unit.decode_time().nanos() - base);
            assert!(
                decode.abs() <= most,
                "{name}: decoded {decode} ns off at {:?}",
                unit.time
            );
        }
    }
}

#[test]
fn times_of_the_reader_are_those_of_the_stream() {
    for (name, _) in SAMPLES {
        let stream = Stream::of_sample(name);
        let run = Run::of(stream.cut(recording()));
        let (file, writer) = run.file();
        let read = RecordedFile::open(&file[..]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!read.is_finished());
        assert_eq!(read.header(), &run.header, "{name}");
        assert_eq!(read.fragments(), writer.fragments(), "{name}");
        let finished = run.finished_file();
        let index = RecordedFile::open(&finished[..]).expect("finished");
        assert!(index.is_finished());
        assert_eq!(index.header(), &run.header, "{name}");
        assert_eq!(index.fragments(), read.fragments(), "{name}");
        let mut next: Vec<Option<u64>> = vec![None; run.header.tracks().len()];
        for (entry, fragment) in read.fragments().iter().zip(&run.fragments) {
            let found = read.fragment(entry).expect("whole");
            assert_eq!(index.fragment(entry).expect("whole"), found);
            assert_eq!(found.tracks.len(), fragment.tracks.len());
            for (found, written) in found.tracks.iter().zip(&fragment.tracks) {
                assert_eq!(&found.track, written, "{name}");
                let next = &mut next[written.position];
                assert!(
                    next.is_none_or(|next| next == written.decode_ticks),
                    "{name}"
                );
                *next = Some(written.decode_ticks + written.duration_ticks());
                let last = found.samples().last().expect("samples");
                let bytes = read.read(last.offset, last.sample.size as usize);
                assert!(bytes.is_ok());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_stream_comes_back_from_a_growing_and_a_finished_file(
        video in prop::collection::vec((1u32..4, 0usize..4, prop::bool::weighted(0.1), 1usize..3000), 2..80),
        audio in prop::collection::vec(1usize..300, 0..150),
        fragment_ms in 100u64..900,
        audio_delay in 0u32..50,
    ) {
        let mut frames = Vec::new();
        let mut at = 0.0;
        for (place, (steps, lead, keyframe, bytes)) in video.iter().enumerate() {
            frames.push(Synthetic {
                // No frame is shown before one of an earlier time than its own decoding.
                lead_ms: 120.0 + 40.0 * *lead as f64,
                bytes: *bytes,
                ..Synthetic::video(at, (*keyframe || place == 0).then_some(64))
            });
            at += 40.0 * f64::from(*steps);
        }
        for (place, bytes) in audio.iter().enumerate() {
            let at = f64::from(audio_delay) + 20.0 * place as f64;
            frames.push(Synthetic { bytes: *bytes, ..Synthetic::audio(1, at) });
        }
        frames.sort_by(|a, b| a.decode_ms.total_cmp(&b.decode_ms));
        let stream = Stream::synthetic(true, !audio.is_empty(), &frames);
        let rule = CutRule::recording(Duration::from_millis(fragment_ms), Duration::MAX);
        let run = Run::of(stream.cut(rule));
        for file in [run.file().0, run.finished_file()] {
            let (_, read) = demuxed(file).expect("a good file");
            let begin = stream.units.iter().find(|it| it.track.get() == 0).expect("video");
            let zero = begin.time.nanos() - read[0][0].time.nanos();
            for (place, read) in read.iter().enumerate() {
                let units = stream.units.iter().filter(|it| it.track.get() == place);
                let units: Vec<_> = units.collect();
                // The demuxer leaves out audio that begins up to 100 ms before the video.
                let left_out = units.len() - read.len();
                prop_assert!(left_out <= 6 * place, "{left_out} of track {place}");
                for (unit, frame) in units[left_out..].iter().zip(read) {
                    let data = unit.coded_frame().expect("a frame").to_vec();
                    prop_assert!(data == frame.data);
                    prop_assert_eq!(unit.keyframe, frame.keyframe);
                    let off = unit.time.nanos() - zero - frame.time.nanos();
                    prop_assert!(off.abs() < 23_000, "{off}");
                }
            }
        }
    }
}
