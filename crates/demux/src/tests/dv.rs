//! Raw DV. The starts of frames are those that ffmpeg 5.1 writes.

use super::*;

const NTSC: &[u8] = include_bytes!("../../samples/ntsc.dif");
const PAL: &[u8] = include_bytes!("../../samples/pal.dif");

/// Frames that begin with `head` and end with their number.
fn file(head: &[u8], bytes: usize, frames: u8) -> Vec<u8> {
    let frame = |number| {
        let mut frame = head.to_vec();
        frame.resize(bytes, number);
        frame
    };
    (0..frames).flat_map(frame).collect()
}

#[test]
fn frames_are_whole_and_on_time() {
    let consumer = [&NTSC[..4], &[0xf8], &NTSC[5..]].concat();
    for (head, bytes, name, height, ticks) in [
        (PAL, 144_000, "SD-VCR/625-50", 576, 3600),
        (NTSC, 120_000, "314M-25/525-60", 480, 3003),
        (&consumer, 120_000, "SD-VCR/525-60", 480, 3003),
    ] {
        let demuxer = opened(Format::Dv, &file(head, bytes, 3), &ONCE).expect("a good file");
        let track = &demuxer.tracks()[0];
        assert_eq!((track.codec, track.clock_rate), (Codec::Dv, 90_000));
        assert_eq!(
            track.format_parameters,
            format!("encode={name};audio=bundled")
        );
        assert_eq!((track.video.width, track.video.height), (720, height));
        for (place, frame) in all(demuxer).iter().enumerate() {
            assert_eq!(frame.data.len(), bytes);
            assert_eq!(frame.data[bytes - 1], place as u8);
            assert_eq!(frame.time.ticks(90_000), place as i64 * ticks);
            assert!(frame.keyframe);
        }
    }
}

#[test]
fn loops_seeks_and_forks_keep_to_the_frames() {
    let bytes = file(NTSC, 120_000, 3);
    let mut demuxer = opened(Format::Dv, &bytes, &Options::default()).expect("a good file");
    for (place, frame) in take(&mut demuxer, 10).iter().enumerate() {
        assert_eq!(frame.time.ticks(90_000), place as i64 * 3003);
        assert_eq!(frame.data[119_999], place as u8 % 3);
    }
    let mut fork = demuxer.fork(true);
    let start = |place: i64| MediaTime::from_ticks(place * 3003, 90_000);
    for (place, frame) in all(demuxer.fork(true)).iter().enumerate() {
        let place = place as i64;
        for inside in [0, 33_000_000] {
            let time = start(place) + Duration::from_nanos(inside);
            fork.seek(time).expect("memory can be read");
            assert_eq!(take(&mut fork, 1)[0], *frame);
            assert_eq!(fork.keyframe_at_or_before(time), Some(start(place)));
            let after = Some(start(place + 1)).filter(|_| place < 2);
            assert_eq!(fork.keyframe_after(time), after);
        }
    }
}

#[test]
fn a_cut_last_frame_is_left_out_with_a_warning() {
    let bytes = file(PAL, 144_000, 3);
    let demuxer = opened(Format::Dv, &bytes[..431_999], &ONCE).expect("a good start");
    assert_eq!(reasons(&demuxer), [WarningReason::TruncatedFrame]);
    assert_eq!(demuxer.warnings()[0].offset, Some(288_000));
    assert_eq!(all(demuxer).len(), 2);
}

#[test]
fn what_is_no_dv_of_25_mbit_is_said() {
    let fails = |bytes: &[u8], text: &str| {
        let error = failure(opened(Format::Dv, bytes, &ONCE)).to_string();
        assert!(error.contains(text), "{error}");
    };
    let mut professional = file(PAL, 288_000, 1);
    professional[451] |= 4;
    fails(&professional, "50 Mbit/s");
    professional[451] |= 0x14;
    fails(&professional, "100 Mbit/s");
    let mut holed = file(PAL, 144_000, 3);
    holed[144_000] ^= 0xff;
    fails(&holed, "byte 144000: no DV frame begins here");
    let mixed = [file(PAL, 144_000, 1), file(NTSC, 144_000, 1)].concat();
    fails(&mixed, "byte 144000: SD-VCR/625-50 becomes 314M-25/525-60");
    fails(&PAL[..500], "no DV frame begins here");
    fails(PAL, "ends inside its first frame");
    fails(DEMO_AUDIO, "looks like an Ogg file");
    let error = failure(opened(Format::H264, &file(PAL, 144_000, 1), &ONCE));
    assert!(error.to_string().contains("looks like DV video"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damage_never_panics(
        pal in any::<bool>(),
        cut in 0usize..300_000,
        damage in prop::collection::vec((0usize..640, any::<u8>()), 0..8),
    ) {
        let (head, bytes) = if pal { (PAL, 144_000) } else { (NTSC, 120_000) };
        play_damaged(Format::Dv, &file(head, bytes, 2), cut, &damage)?;
    }
}
