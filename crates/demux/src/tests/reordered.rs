//! Real streams with B-frames. The orders are those of `ffprobe -show_frames`
//! (FFmpeg 5.1): which frames, in the order of sending, are shown one after the
//! other.

use super::*;

/// `ffmpeg -f lavfi -i testsrc2=s=128x96:r=25:d=2 -c:v libx264 -preset slow -g 20
/// -bf 3 -b_strategy 0 -x264-params b-pyramid=normal:scenecut=0 -qp 36`.
const H264: &[u8] = include_bytes!("../../samples/b-frames.h264");
const H264_SHOWN: [usize; 50] = [
    0, 3, 2, 4, 1, 7, 6, 8, 5, 11, 10, 12, 9, 15, 14, 16, 13, 18, 19, 17, 20, 23, 22, 24, 21, 27,
    26, 28, 25, 31, 30, 32, 29, 35, 34, 36, 33, 38, 39, 37, 40, 43, 42, 44, 41, 47, 46, 48, 45, 49,
];

/// `ffmpeg -f lavfi -i testsrc2=s=128x96:r=30000/1001:d=1.6 -c:v libx265 -x265-params
/// keyint=16:min-keyint=16:scenecut=0:bframes=3:b-adapt=0:open-gop=1:crf=36`.
const H265: &[u8] = include_bytes!("../../samples/open-gop.h265");
const H265_SHOWN: [usize; 48] = [
    0, 3, 2, 4, 1, 7, 6, 8, 5, 11, 10, 12, 9, 15, 14, 16, 13, 19, 18, 20, 17, 23, 22, 24, 21, 27,
    26, 28, 25, 31, 30, 32, 29, 35, 34, 36, 33, 39, 38, 40, 37, 43, 42, 44, 41, 47, 46, 45,
];

fn demuxer(bytes: &[u8], format: Format, once: bool) -> Demuxer {
    let name = match format {
        Format::H265 => "v.h265",
        _ => "v.h264",
    };
    let input = Input {
        name: name.into(),
        format,
        data: Box::new(Cursor::new(Bytes::copy_from_slice(bytes))),
    };
    Demuxer::new(vec![input], &Options { fps: None, once }).expect("a good stream")
}

/// Numbers of the frames, in the order of sending, one shown after the other; they
/// follow upon each other at `rate`, and none is shown before it is there.
fn shown(frames: &[Frame], rate: FrameRate) -> Vec<usize> {
    let mut order: Vec<usize> = (0..frames.len()).collect();
    order.sort_by_key(|&number| frames[number].time);
    for (turn, &number) in order.iter().enumerate() {
        assert_eq!(frames[number].time.nanos(), rate.nanos(2 * turn as u64));
    }
    assert!(frames.iter().all(|frame| frame.decode_time <= frame.time));
    let mut pairs = frames.windows(2);
    assert!(pairs.all(|pair| pair[0].decode_time < pair[1].decode_time));
    order
}

fn keyframes(frames: &[Frame]) -> Vec<usize> {
    let numbered = frames.iter().enumerate();
    let keyframes = numbered.filter(|(_, frame)| frame.keyframe);
    keyframes.map(|(number, _)| number).collect()
}

#[test]
fn h264_is_shown_as_ffprobe_shows_it() {
    let frames = all(demuxer(H264, Format::H264, true));
    let rate = FrameRate::new(25, 1).expect("a rate");
    assert_eq!(shown(&frames, rate), H264_SHOWN);
    assert_eq!(keyframes(&frames), [0, 20, 40]);
}

#[test]
fn h265_is_shown_as_ffprobe_shows_it() {
    let demuxer = demuxer(H265, Format::H265, true);
    let rate = FrameRate::new(30_000, 1001).expect("a rate");
    assert_eq!(demuxer.frame_rate(), Some(rate));
    let track = &demuxer.tracks()[0];
    assert_eq!(track.codec, Codec::H265);
    assert_eq!((track.video.width, track.video.height), (128, 96));
    assert!(track.video.reordered);
    for part in [
        "profile-id=1",
        "level-id=30",
        "sprop-vps=Q",
        "sprop-sps=Q",
        "sprop-pps=R",
    ] {
        let found = track.format_parameters.split(';');
        let found = found.filter(|found| found.starts_with(part)).count();
        assert_eq!(found, 1, "{part} in {}", track.format_parameters);
    }
    let frames = all(demuxer);
    assert_eq!(shown(&frames, rate), H265_SHOWN);
    assert_eq!(keyframes(&frames), [0, 13, 29]);
    // Its parameter sets are repeated, as they are not in the file.
    for number in [0, 13, 29] {
        let kinds: Vec<u8> = nals(&frames[number].data)
            .map(|nal| nal[0] >> 1 & 0x3f)
            .collect();
        for set in [32, 33, 34] {
            assert_eq!(kinds.iter().filter(|&&kind| kind == set).count(), 1);
        }
    }
}

#[test]
fn frames_that_lead_a_keyframe_are_left_out_after_a_seek() {
    let mut demuxer = demuxer(H265, Format::H265, false);
    let keyframe = MediaTime::from_nanos(600_000_000);
    let start = demuxer.keyframe_at_or_before(keyframe).expect("frames");
    assert_eq!(start.ticks(30_000), 16 * 1001);
    demuxer.seek(keyframe).expect("within the file");
    let frames = take(&mut demuxer, 40);
    assert_eq!(frames[0].time, start);
    assert!(frames[0].keyframe);
    let times: Vec<i64> = frames
        .iter()
        .map(|frame| frame.time.ticks(30_000) / 1001)
        .collect();
    // Frames 13 to 15 are shown before 16, and need those before.
    assert_eq!(times[..6], [16, 20, 18, 17, 19, 24]);
    assert!(
        times.contains(&31),
        "those that lead the next keyframe are there"
    );
    let last = demuxer.keyframe_after(start).expect("a third keyframe");
    assert_eq!(last.ticks(30_000), 32 * 1001);
    assert_eq!(demuxer.keyframe_after(last), None);
}

#[test]
fn loops_and_forks_of_reordered_frames_do_not_overlap() {
    for (bytes, format, count) in [(H264, Format::H264, 50), (H265, Format::H265, 48)] {
        let mut looped = demuxer(bytes, format, false);
        let frames = take(&mut looped, 3 * count);
        let rate = looped.frame_rate().expect("frames");
        let times: std::collections::BTreeSet<i64> = frames
            .iter()
            .map(|frame| (frame.time.nanos() as f64 * rate.fps() / 1e9).round() as i64)
            .collect();
        assert!(times.into_iter().eq(0..3 * count as i64));
        let mut pairs = frames.windows(2);
        assert!(pairs.all(|pair| pair[0].decode_time < pair[1].decode_time));
        assert_eq!(take(&mut looped.fork(false), 3 * count), frames);
    }
}

#[test]
fn each_coding_is_named_for_what_it_is() {
    for (bytes, format, found) in [
        (H264, Format::H265, "raw H.264 video"),
        (H265, Format::H264, "H.265 video"),
    ] {
        let input = Input {
            name: "v".into(),
            format,
            data: Box::new(Cursor::new(Bytes::from_static(bytes))),
        };
        let error = failure(Demuxer::new(vec![input], &ONCE)).to_string();
        assert!(error.contains(&format!("looks like {found}")), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn damage_ends_in_an_error_or_in_order(
        h265 in any::<bool>(),
        cut in 0usize..19_000,
        holes in prop::collection::vec((0usize..6000, any::<u8>()), 0..20),
    ) {
        let (bytes, format) = if h265 { (H265, Format::H265) } else { (H264, Format::H264) };
        let mut bytes = bytes[..cut.min(bytes.len())].to_vec();
        for (at, value) in holes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        let input = Input { name: "v".into(), format, data: Box::new(Cursor::new(bytes)) };
        if let Ok(mut demuxer) = Demuxer::new(vec![input], &Options::default()) {
            let frames = take(&mut demuxer, 150);
            prop_assert!(frames[0].keyframe);
            let mut pairs = frames.windows(2);
            prop_assert!(pairs.all(|pair| pair[0].decode_time < pair[1].decode_time));
            prop_assert!(frames.iter().all(|frame| frame.decode_time <= frame.time));
        }
    }
}
