use std::io::Cursor;

use glassline_media::{MediaTime, TrackIndex};
use proptest::prelude::*;

use super::*;
use crate::error::WarningReason;
use crate::{Demuxer, Format, Input, Options};

/// `ffmpeg -f lavfi -i testsrc2=s=128x96:r=25:d=2.4 -f lavfi -i sine=440:r=44100:d=2.4
/// -c:v mpeg1video -q:v 20 -g 12 -bf 2 -c:a mp2 -b:a 32k -ac 1 -f mpeg`, FFmpeg 5.1.
const MPEG1: &[u8] = include_bytes!("../../../samples/mpeg1-mp2.mpg");
/// Likewise `r=30000/1001:d=1.6`, `-c:v mpeg2video`, `-c:a ac3 -b:a 64k -ac 2 -f vob`.
const MPEG2: &[u8] = include_bytes!("../../../samples/mpeg2-ac3.vob");
/// The pictures of an MPEG-2 stream with open groups, without a container.
const BARE: &[u8] = include_bytes!("../../../samples/open-gop.m2v");

/// Duration of a tick of the 90 kHz clock, in ns.
const TICK_NS: i64 = 1_000_000_000 / 90_000;

fn open_bytes(bytes: &[u8]) -> Result<Program, Fault> {
    let data = Box::new(Cursor::new(bytes.to_vec()));
    let mut warnings = Warnings::default();
    match bytes.starts_with(&[0, 0, 1, 0xb3]) {
        true => Program::open_bare(data, &mut warnings),
        false => Program::open(data, &mut warnings),
    }
}

fn opened(bytes: &[u8]) -> Program {
    open_bytes(bytes).expect("a good file")
}

fn units(reader: &mut dyn Reader) -> Vec<Unit> {
    let next = || reader.next_unit().expect("memory can be read");
    std::iter::from_fn(next).collect()
}

fn of_track(units: &[Unit], track: usize) -> Vec<Unit> {
    let of = units.iter().filter(|unit| unit.track == TrackIndex(track));
    of.cloned().collect()
}

fn keyframe_ns(program: &Program) -> Vec<i64> {
    let mut at = -1;
    let next = || {
        at = program.keyframe_after(at)?;
        Some(at)
    };
    std::iter::from_fn(next).collect()
}

/// Stamps of ffprobe (90 kHz) and what came of them, to a tick.
fn assert_close(found: i64, stamp: i64, what: &str) {
    let wanted = stamp * 1_000_000_000 / 90_000;
    assert!(
        (found - wanted).abs() <= TICK_NS,
        "{what}: {found}, not {wanted}"
    );
}

/// Pictures follow upon each other without a gap when put in order, are sent in
/// order, and none after it is shown.
fn check_pictures(pictures: &[Unit], frame_ns: i64) {
    let mut shown: Vec<i64> = pictures.iter().map(|unit| unit.start_ns).collect();
    shown.sort_unstable();
    for pair in shown.windows(2) {
        assert!((pair[1] - pair[0] - frame_ns).abs() < 20_000, "{shown:?}");
    }
    assert!(pictures.iter().all(|unit| unit.decode_ns <= unit.start_ns));
    let mut sent = pictures.windows(2);
    assert!(sent.all(|pair| pair[0].decode_ns < pair[1].decode_ns));
}

#[test]
fn pictures_and_audio_have_the_times_of_ffprobe() {
    for (bytes, counts, audio_start, zero, frame_ns) in [
        (MPEG1, [60, 92], 47_618, 48_600, 40_000_000),
        (MPEG2, [48, 50], 47_523, 48_003, 33_366_667),
    ] {
        let mut program = opened(bytes);
        let all = units(&mut program);
        let [pictures, audio] = [0, 1].map(|track| of_track(&all, track));
        assert_eq!([pictures.len(), audio.len()], counts);
        check_pictures(&pictures, frame_ns);
        assert_close(
            program.length().nanos_of(1),
            pictures.len() as i64 * frame_ns * 9 / 100_000,
            "length",
        );
        assert_close(audio[0].start_ns, audio_start - zero, "audio");
        for pair in audio.windows(2) {
            assert!((pair[1].start_ns - pair[0].end_ns).abs() < 1_000_000);
        }
    }
}

#[test]
fn decoding_follows_the_stamps_of_the_file() {
    let pictures = of_track(&units(&mut opened(MPEG1)), 0);
    // pts and dts of `ffprobe -show_packets`, those that are in the file.
    let expected = [(48_600, 45_000), (52_200, 52_200), (55_800, 55_800)];
    for (number, (presented, decoded)) in [0, 2, 3].into_iter().zip(expected) {
        let unit = &pictures[number];
        assert_close(unit.start_ns, presented - 48_600, "presented");
        assert_close(unit.decode_ns, decoded - 48_600, "decoded");
    }
    // The second picture has none: shown behind its two B-frames.
    assert_close(pictures[1].start_ns, 3 * 3600, "counted");
    assert_close(pictures[1].decode_ns, 0, "counted");
}

#[test]
fn tracks_say_what_they_are() {
    let program = opened(MPEG1);
    let [pictures, audio] = program.tracks() else {
        panic!("two tracks");
    };
    assert_eq!(
        (pictures.codec, audio.codec),
        (Codec::MpegVideo, Codec::MpegAudio)
    );
    assert_eq!((pictures.video.width, pictures.video.height), (128, 96));
    assert_eq!((audio.clock_rate, audio.channels), (90_000, 1));
    assert_eq!(program.frame_rate(), FrameRate::new(25, 1));
    let program = opened(MPEG2);
    let audio = &program.tracks()[1];
    assert_eq!(
        (audio.codec, audio.clock_rate, audio.channels),
        (Codec::Ac3, 48_000, 2)
    );
    assert_eq!(program.frame_rate(), FrameRate::new(30_000, 1001));
    assert_eq!(opened(BARE).tracks().len(), 1);
}

#[test]
fn bare_video_has_the_pictures_of_its_program_stream() {
    let of = |bytes| -> Vec<(Bytes, bool)> {
        let pictures = of_track(&units(&mut opened(bytes)), 0).into_iter();
        pictures.map(|unit| (unit.data, unit.keyframe)).collect()
    };
    assert!(of(BARE) == of(MPEG2));
    let mut bare = opened(BARE);
    check_pictures(&units(&mut bare), 33_366_667);
}

#[test]
fn keyframes_begin_with_their_headers() {
    for bytes in [MPEG1, MPEG2, BARE] {
        let mut without = bytes.to_vec();
        // A sequence header that is not the first becomes user data.
        let codes: Vec<usize> = (1..bytes.len() - 4)
            .filter(|&at| bytes[at..at + 4] == [0, 0, 1, 0xb3])
            .collect();
        assert!(codes.len() >= 3);
        for at in codes.into_iter().skip(usize::from(bytes[3] != 0xb3)) {
            without[at + 3] = 0xb2;
        }
        let pictures = of_track(&units(&mut opened(&without)), 0);
        let keyframes: Vec<_> = pictures.iter().filter(|unit| unit.keyframe).collect();
        assert!(keyframes.len() >= 4, "{}", keyframes.len());
        for keyframe in keyframes {
            assert!(keyframe.data.starts_with(&[0, 0, 1, 0xb3]));
        }
    }
}

#[test]
fn a_seek_goes_to_the_keyframe_and_on_as_without() {
    for bytes in [MPEG1, MPEG2, BARE] {
        let mut program = opened(bytes);
        let all = of_track(&units(&mut program), 0);
        for keyframe in keyframe_ns(&program) {
            program.seek(keyframe + 1).expect("within the file");
            let after = units(&mut program);
            let pictures = of_track(&after, 0);
            assert_eq!(pictures[0].start_ns, keyframe);
            assert!(pictures[0].keyframe);
            // B-frames that need the group before are left out.
            assert!(pictures.iter().all(|unit| unit.start_ns >= keyframe));
            let found = all.iter().filter(|unit| unit.start_ns >= keyframe);
            let expected: Vec<_> = found.map(|unit| (&unit.data, unit.keyframe)).collect();
            let got: Vec<_> = pictures
                .iter()
                .map(|unit| (&unit.data, unit.keyframe))
                .collect();
            assert!(got == expected, "at {keyframe}");
            for (one, other) in pictures
                .iter()
                .zip(all.iter().filter(|unit| unit.start_ns >= keyframe))
            {
                assert!((one.start_ns - other.start_ns).abs() <= TICK_NS);
            }
            let audio = of_track(&after, 1);
            assert!(audio.iter().all(|unit| unit.end_ns > keyframe));
        }
    }
}

#[test]
fn loops_and_forks_do_not_fall_back() {
    for bytes in [MPEG1, MPEG2, BARE] {
        let format = match bytes == BARE {
            true => Format::MpegVideo,
            false => Format::MpegPs,
        };
        let input = Input {
            name: "clip".into(),
            format,
            data: Box::new(Cursor::new(bytes)),
        };
        let mut demuxer = Demuxer::new(vec![input], &Options::default()).expect("a good file");
        let mut fork = demuxer.fork(false);
        let mut last = [MediaTime::from_nanos(i64::MIN); 2];
        let mut pictures = 0;
        while pictures < 150 {
            let frame = demuxer.next_frame().expect("readable").expect("it loops");
            assert!(frame.decode_time >= last[frame.track]);
            last[frame.track] = frame.decode_time;
            pictures += usize::from(frame.track == TrackIndex(0));
            assert_eq!(fork.next_frame().expect("readable"), Some(frame));
        }
    }
}

#[test]
fn two_recordings_in_one_file_run_on() {
    let joined = [MPEG2, MPEG2].concat();
    let mut warnings = Warnings::default();
    let data = Box::new(Cursor::new(joined));
    let mut program = Program::open(data, &mut warnings).expect("a good file");
    let given: Vec<_> = warnings.of("joined.vob".as_ref()).collect();
    assert_eq!(given.len(), 1, "{given:?}");
    assert_eq!(given[0].reason, WarningReason::ClockJump);
    let all = units(&mut program);
    let pictures = of_track(&all, 0);
    assert_eq!(pictures.len(), 96);
    check_pictures(&pictures, 33_366_667);
    assert!(keyframe_ns(&program).len() == 10);
    assert_eq!(of_track(&all, 1).len(), 100);
}

#[test]
fn what_is_no_program_stream_is_refused_with_a_reason() {
    let reason = |bytes: &[u8]| match Format::MpegPs.open(
        Box::new(Cursor::new(bytes.to_vec())),
        &Options::default(),
        &mut Warnings::default(),
    ) {
        Ok(_) => panic!("it should not open"),
        Err(fault) => fault.reason,
    };
    assert!(matches!(reason(b""), Reason::Empty));
    assert!(matches!(reason(&[0; 4000]), Reason::NothingToPlay(_)));
    assert!(matches!(reason(&[7; 3 << 20]), Reason::NoFrame { .. }));
    assert!(matches!(
        reason(b"OggS\0\x02 and so on"),
        Reason::Mislabeled { .. }
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_damage_ends_in_an_error_or_in_order(
        which in 0usize..3,
        cut in 0usize..41_000,
        holes in prop::collection::vec((0usize..41_000, any::<u8>()), 0..60),
        to_ms in 0i64..3000,
    ) {
        let bytes = [MPEG1, MPEG2, BARE][which];
        let mut bytes = bytes[..cut.min(bytes.len())].to_vec();
        for (at, value) in holes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        if let Ok(mut program) = open_bytes(&bytes) {
            for _ in 0..2 {
                let all = units(&mut program);
                for track in 0..program.tracks().len() {
                    let of = of_track(&all, track);
                    prop_assert!(of.iter().all(|unit| unit.end_ns > unit.start_ns));
                    if program.tracks()[track].codec == Codec::MpegVideo {
                        let mut pairs = of.windows(2);
                        prop_assert!(pairs.all(|pair| pair[0].decode_ns <= pair[1].decode_ns));
                    }
                }
                program.seek(to_ms * 1_000_000).expect("memory can be read");
            }
        }
    }
}
