//! Raw MPEG-4 visual. Times and sizes are those that ffprobe 5.1 reports of the
//! same pictures in MP4 (`-show_entries packet=pts,dts,size,flags`).

use super::*;

const SIMPLE: &[u8] = include_bytes!("../../samples/simple.m4e");
const BETWEEN: &[u8] = include_bytes!("../../samples/between.m4e");

/// Bytes of the headers that MP4 keeps apart, from sequence to group.
const SIMPLE_CONFIG: usize = 47;
const BETWEEN_CONFIG: usize = 48;

/// Presentation and decoding time in pictures, of two groups and a bit.
const ORDER: [(i64, i64); 26] = [
    (0, -1),
    (3, 0),
    (1, 1),
    (2, 2),
    (6, 3),
    (4, 4),
    (5, 5),
    (9, 6),
    (7, 7),
    (8, 8),
    (12, 9),
    (10, 10),
    (11, 11),
    (15, 12),
    (13, 13),
    (14, 14),
    (18, 15),
    (16, 16),
    (17, 17),
    (21, 18),
    (19, 19),
    (20, 20),
    (24, 21),
    (22, 22),
    (23, 23),
    (27, 24),
];

fn simple(options: &Options) -> Demuxer {
    opened(Format::Mpeg4Visual, SIMPLE, options).expect("a good file")
}

fn between(options: &Options) -> Demuxer {
    opened(Format::Mpeg4Visual, BETWEEN, options).expect("a good file")
}

fn ticks(time: MediaTime) -> i64 {
    time.ticks(30_000)
}

#[test]
fn pictures_come_with_the_headers_before_them() {
    let demuxer = simple(&ONCE);
    let track = &demuxer.tracks()[0];
    assert_eq!(
        (track.codec, track.clock_rate),
        (Codec::Mpeg4Visual, 90_000)
    );
    assert_eq!((track.video.width, track.video.height), (64, 48));
    assert!(!track.video.reordered);
    let parameters = &track.format_parameters;
    assert!(parameters.starts_with("profile-level-id=1;config=000001B001000001B5"));
    assert!(
        parameters.ends_with("000001B24C61766335392E33372E313030"),
        "{parameters}"
    );
    assert_eq!(demuxer.frame_rate(), FrameRate::new(25, 1));
    assert_eq!(demuxer.duration(), Duration::from_millis(1200));
    assert_eq!(reasons(&demuxer), []);
    let frames = all(demuxer);
    let sizes: Vec<_> = frames.iter().map(|frame| frame.data.len()).collect();
    let first = [456 + SIMPLE_CONFIG, 24, 23, 20, 27, 23, 31, 30, 25, 28];
    assert_eq!(sizes[..10], first);
    assert_eq!(sizes[10..12], [459 + SIMPLE_CONFIG, 22]);
    for (place, frame) in frames.iter().enumerate() {
        assert_eq!(frame.time, MediaTime::from_nanos(place as i64 * 40_000_000));
        assert_eq!(frame.decode_time, frame.time);
        assert_eq!(frame.duration, Duration::from_millis(40));
        assert_eq!(frame.keyframe, place % 10 == 0);
    }
    let whole: Vec<u8> = frames
        .iter()
        .flat_map(|frame| frame.data.to_vec())
        .collect();
    assert_eq!(whole, SIMPLE);
}

#[test]
fn pictures_between_two_are_decoded_after_both() {
    let demuxer = between(&ONCE);
    assert!(demuxer.tracks()[0].video.reordered);
    assert_eq!(demuxer.frame_rate(), FrameRate::new(30_000, 1001));
    let frames = all(demuxer);
    assert_eq!(frames.len(), 45);
    for (frame, (time, decode)) in frames.iter().zip(ORDER) {
        assert_eq!(
            (ticks(frame.time), ticks(frame.decode_time)),
            (time * 1001, decode * 1001)
        );
        assert_eq!((frame.duration.as_nanos() + 500) / 1000, 33_367);
        assert_eq!(frame.keyframe, time % 12 == 0);
    }
    let mut shown: Vec<_> = frames.iter().map(|frame| ticks(frame.time)).collect();
    shown.sort_unstable();
    assert_eq!(shown, (0..45).map(|it| it * 1001).collect::<Vec<_>>());
    assert_eq!(frames[0].data.len(), 458 + BETWEEN_CONFIG);
}

#[test]
fn keyframes_without_headers_get_those_of_the_file() {
    let second = SIMPLE[SIMPLE_CONFIG..]
        .windows(4)
        .position(|it| it == SIMPLE[..4].as_ref());
    let at = SIMPLE_CONFIG + second.expect("headers before each keyframe");
    let bare = [&SIMPLE[..at], &SIMPLE[at + SIMPLE_CONFIG..]].concat();
    let frames = all(opened(Format::Mpeg4Visual, &bare, &ONCE).expect("a good file"));
    assert_eq!(frames, all(simple(&ONCE)));
}

#[test]
fn loops_neither_jump_nor_go_back() {
    let mut demuxer = between(&Options::default());
    let frames = take(&mut demuxer, 45 * 40);
    let mut decoded = MediaTime::from_nanos(i64::MIN);
    let mut shown = Vec::new();
    for frame in &frames {
        assert!(frame.decode_time >= decoded && frame.decode_time <= frame.time);
        decoded = frame.decode_time;
        shown.push(ticks(frame.time));
    }
    shown.sort_unstable();
    assert_eq!(shown, (0..45 * 40).map(|it| it * 1001).collect::<Vec<_>>());
}

#[test]
fn a_seek_goes_to_the_keyframe_and_leaves_out_what_lies_before() {
    let mut demuxer = between(&ONCE);
    let every = all(demuxer.fork(true));
    let at = |picture: i64| MediaTime::from_ticks(picture * 1001, 30_000);
    for (wanted, keyframe, after) in [
        (0, 0, Some(12)),
        (11, 0, Some(12)),
        (12, 12, Some(24)),
        (23, 12, Some(24)),
        (30, 24, Some(36)),
        (44, 36, None),
    ] {
        demuxer.seek(at(wanted)).expect("memory can be read");
        let found = all(demuxer.fork(true)).len();
        assert_eq!(found, 45, "a fork begins at the start");
        assert_eq!(
            demuxer.keyframe_at_or_before(at(wanted)),
            Some(at(keyframe))
        );
        assert_eq!(demuxer.keyframe_after(at(wanted)), after.map(at));
        let frames = take(&mut demuxer, usize::MAX);
        assert!(frames[0].keyframe);
        assert_eq!(frames[0].time, at(keyframe));
        assert!(frames.iter().all(|frame| frame.time >= at(keyframe)));
        let expected = every.iter().filter(|frame| frame.time >= at(keyframe));
        assert!(frames.iter().eq(expected));
    }
}

#[test]
fn headers_may_begin_with_the_video_object() {
    let demuxer = opened(Format::Mpeg4Visual, &SIMPLE[11..], &ONCE).expect("a good file");
    let parameters = &demuxer.tracks()[0].format_parameters;
    assert!(parameters.starts_with("profile-level-id=1;config=0000010000000120"));
    assert_eq!(all(demuxer)[0].data[..], SIMPLE[11..503]);
}

#[test]
fn pictures_before_the_first_keyframe_are_skipped() {
    let second = all(simple(&ONCE))[0].data.len();
    let demuxer = opened(Format::Mpeg4Visual, &SIMPLE[second..], &ONCE).expect("it begins later");
    assert_eq!(reasons(&demuxer), [WarningReason::BeforeKeyframe(9)]);
    let frames = all(demuxer);
    assert_eq!((frames.len(), frames[0].time), (20, MediaTime::ZERO));
}

#[test]
fn what_cannot_be_decoded_is_said() {
    let fails = |bytes: &[u8], text: &str| {
        let error = failure(opened(Format::Mpeg4Visual, bytes, &ONCE)).to_string();
        assert!(error.contains(text), "{error}");
    };
    fails(&SIMPLE[..SIMPLE_CONFIG], "it holds no picture");
    fails(&SIMPLE[54..503], "no video object layer header");
    fails(&SIMPLE[47..503], "no video object layer header");
    fails(&[7; 4000], "no MPEG-4 visual start code");
    fails(DEMO_VIDEO, "looks like raw H.264 video");
    let error = failure(opened(Format::H264, SIMPLE, &ONCE));
    assert!(
        error.to_string().contains("looks like MPEG-4 visual"),
        "{error}"
    );
    let mut other = BETWEEN.to_vec();
    other.extend_from_slice(SIMPLE);
    fails(
        &other,
        "byte 2982: video of 64 × 48 and 30000 ticks a second becomes",
    );
}

#[test]
fn a_file_cut_inside_a_pictures_header_ends_with_the_one_before() {
    let frames = all(simple(&ONCE));
    let at: usize = frames[..5].iter().map(|frame| frame.data.len()).sum();
    let demuxer = opened(Format::Mpeg4Visual, &SIMPLE[..at + 5], &ONCE).expect("a good start");
    assert_eq!(reasons(&demuxer), [WarningReason::TruncatedUnit]);
    assert_eq!(all(demuxer).len(), 5);
}

proptest! {
    #[test]
    fn damage_never_panics(
        which in any::<bool>(),
        cut in 0usize..3000,
        damage in prop::collection::vec((0usize..3000, any::<u8>()), 0..8),
    ) {
        let bytes = if which { SIMPLE } else { BETWEEN };
        play_damaged(Format::Mpeg4Visual, bytes, cut, &damage)?;
    }

    #[test]
    fn any_order_of_pictures_fails_or_plays(
        order in prop::collection::vec(0usize..45, 1..60),
        which in any::<bool>(),
    ) {
        let pictures = all(if which { simple(&ONCE) } else { between(&ONCE) });
        let picture = |&place: &usize| pictures[place % pictures.len()].data.to_vec();
        let bytes: Vec<u8> = order.iter().flat_map(picture).collect();
        play_damaged(Format::Mpeg4Visual, &bytes, bytes.len(), &[])?;
    }
}
