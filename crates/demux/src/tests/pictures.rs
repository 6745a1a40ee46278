use super::*;

fn with(nals: &[Vec<u8>]) -> Vec<Frame> {
    all(video(&stream(nals), &ONCE).expect("a good stream"))
}

fn idr(number: u32) -> Slice {
    Slice {
        kind: 2,
        idr: Some(number),
        ..Slice::default()
    }
}

fn after(frame_number: u32) -> Slice {
    Slice {
        frame_number,
        order: frame_number * 2,
        ..Slice::default()
    }
}

fn sets() -> [Vec<u8>; 2] {
    [sps(Sequence::default()), pps(0)]
}

#[test]
fn slices_of_one_picture_stay_together() {
    let [s, p] = sets();
    let part = |slice_of: Slice, first_macroblock| {
        slice(Slice {
            first_macroblock,
            ..slice_of
        })
    };
    let frames = with(&[
        s,
        p,
        part(idr(0), 0),
        part(idr(0), 5),
        part(idr(0), 9),
        part(after(1), 0),
        part(after(1), 6),
        part(after(2), 0),
    ]);
    let kinds: Vec<_> = frames.iter().map(types).collect();
    assert_eq!(kinds, [vec![7, 8, 5, 5, 5], vec![1, 1], vec![1]]);
}

#[test]
fn delimiters_sets_and_sei_belong_to_the_picture_after() {
    let [s, p] = sets();
    let frames = with(&[
        AUD.to_vec(),
        s.clone(),
        p.clone(),
        SEI.to_vec(),
        slice(idr(0)),
        AUD.to_vec(),
        SEI.to_vec(),
        slice(after(1)),
        vec![0x0c, 0xff, 0x80],
        SEI.to_vec(),
        slice(after(2)),
        p,
        slice(after(3)),
        s,
        pps(0),
        slice(idr(1)),
    ]);
    let kinds: Vec<_> = frames.iter().map(types).collect();
    let expected: [&[u8]; 5] = [
        &[9, 7, 8, 6, 5],
        &[9, 6, 1, 12],
        &[6, 1],
        &[8, 1],
        &[7, 8, 5],
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn each_field_of_a_slice_header_tells_pictures_apart() {
    let base = after(3);
    for (what, next) in [
        (
            "frame_num",
            Slice {
                frame_number: 4,
                ..base
            },
        ),
        ("pic_parameter_set_id", Slice { pps: 1, ..base }),
        (
            "nal_ref_idc",
            Slice {
                disposable: true,
                ..base
            },
        ),
        ("pic_order_cnt_lsb", Slice { order: 9, ..base }),
        ("a second first_mb_in_slice of 0", base),
    ] {
        let [s, p] = sets();
        let frames = with(&[s, p, pps(1), slice(idr(0)), slice(base), slice(next)]);
        assert_eq!(frames.len(), 3, "{what}");
    }
    let [s, p] = sets();
    let frames = with(&[s, p, slice(idr(0)), slice(idr(1)), slice(idr(1))]);
    assert_eq!(frames.len(), 3, "idr_pic_id");
    // The failing twin: a slice further down with the same fields goes on.
    let [s, p] = sets();
    let further = Slice {
        first_macroblock: 7,
        ..base
    };
    let frames = with(&[s, p, slice(idr(0)), slice(base), slice(further)]);
    assert_eq!(frames.len(), 2);
}

#[test]
fn a_keyframe_without_its_parameter_sets_gets_them() {
    let [s, p] = sets();
    let frames = with(&[
        s.clone(),
        p.clone(),
        slice(idr(0)),
        slice(after(1)),
        slice(idr(1)),
        slice(after(1)),
        AUD.to_vec(),
        slice(idr(0)),
    ]);
    let kinds: Vec<_> = frames.iter().map(types).collect();
    let expected: [&[u8]; 5] = [&[7, 8, 5], &[1], &[7, 8, 5], &[1], &[9, 7, 8, 5]];
    assert_eq!(kinds, expected);
    assert_eq!(
        nals(&frames[2].data).collect::<Vec<_>>()[..2],
        [&s[..], &p[..]]
    );
    let keyframes: Vec<bool> = frames.iter().map(|frame| frame.keyframe).collect();
    assert_eq!(keyframes, [true, false, true, false, true]);
}

#[test]
fn fields_last_half_a_picture() {
    let sequence = Sequence {
        interlaced: true,
        timing: Some((1, 50)),
        ..Sequence::default()
    };
    let field = |frame_number, bottom, idr| {
        slice(Slice {
            frame_number,
            interlaced: true,
            field: Some(bottom),
            order: frame_number * 2 + u32::from(bottom),
            idr,
            ..Slice::default()
        })
    };
    let demuxer = video(
        &stream(&[
            sps(sequence),
            pps(0),
            field(0, false, Some(0)),
            field(0, true, None),
            field(1, false, None),
            field(1, true, None),
        ]),
        &ONCE,
    )
    .expect("a good stream");
    assert_eq!(demuxer.tracks()[0].video.height, 96);
    assert_eq!(times_ms(&all(demuxer)), [0.0, 20.0, 40.0, 60.0]);
}

#[test]
fn the_rate_comes_from_the_bitstream_then_the_user_then_is_30() {
    let timed = Sequence {
        timing: Some((1001, 60_000)),
        ..Sequence::default()
    };
    let silly = Sequence {
        timing: Some((0, 60_000)),
        ..Sequence::default()
    };
    let rate = |sequence, fps| {
        let options = Options { fps, once: true };
        let demuxer = video(&progressive(4, 2, sequence), &options).expect("a good stream");
        (
            demuxer.frame_rate().expect("video").to_string(),
            demuxer.warnings().len(),
        )
    };
    assert_eq!(rate(timed, None), ("29.97".into(), 0));
    assert_eq!(rate(timed, Some(29.97)), ("29.97".into(), 0));
    assert_eq!(rate(timed, Some(25.0)), ("29.97".into(), 1));
    assert_eq!(rate(silly, Some(25.0)), ("25".into(), 1));
    assert_eq!(rate(Sequence::default(), Some(25.0)), ("25".into(), 0));
    assert_eq!(rate(Sequence::default(), None), ("30".into(), 0));
    let options = Options {
        fps: Some(0.0),
        once: false,
    };
    let error = failure(video(&progressive(4, 2, timed), &options));
    assert!(matches!(error.reason, Reason::FrameRate(_)), "{error}");
}

/// 0 P, 1 B, 2 I; frame number, count, whether nothing refers to it.
fn shown((kind, frame_number, order, disposable): (u32, u32, u32, bool)) -> Slice {
    Slice {
        kind,
        frame_number,
        order,
        disposable,
        ..Slice::default()
    }
}

#[test]
fn b_frames_are_shown_in_their_turn_and_sent_before() {
    let [s, p] = sets();
    let gop = [
        slice(idr(0)),
        slice(shown((0, 1, 6, false))),
        slice(shown((1, 2, 2, true))),
        slice(shown((1, 2, 4, true))),
    ];
    let next = slice(idr(1));
    let bytes = stream(&[&[s, p], &gop[..], &[next]].concat());
    let demuxer = video(&bytes, &ONCE).expect("a good stream");
    assert_eq!(reasons(&demuxer), [WarningReason::Reordered]);
    assert!(demuxer.tracks()[0].video.reordered);
    let frames = all(demuxer);
    let thirtieths = |ms: Vec<f64>| -> Vec<i64> {
        let number = |ms: f64| (ms * 0.03).round() as i64;
        ms.into_iter().map(number).collect()
    };
    assert_eq!(thirtieths(times_ms(&frames)), [0, 3, 1, 2, 4]);
    let sent = frames
        .iter()
        .map(|frame| frame.decode_time.nanos() as f64 / 1e6);
    assert_eq!(thirtieths(sent.collect()), [-1, 0, 1, 2, 3]);
}

#[test]
fn b_frames_are_ordered_by_frame_numbers_too() {
    let sequence = Sequence {
        order_by_number: true,
        ..Sequence::default()
    };
    let picture = |fields: Slice| {
        slice(Slice {
            order_by_number: true,
            ..fields
        })
    };
    let bytes = stream(&[
        sps(sequence),
        pps(0),
        picture(idr(0)),
        picture(shown((0, 1, 0, false))),
        picture(shown((1, 2, 0, true))),
        picture(shown((0, 2, 0, false))),
        picture(shown((1, 3, 0, true))),
    ]);
    let frames = all(video(&bytes, &ONCE).expect("a good stream"));
    let numbers = times_ms(&frames).into_iter().map(|ms| (ms * 0.03).round());
    assert!(numbers.eq([0.0, 2.0, 1.0, 4.0, 3.0]));
}

#[test]
fn b_slices_that_keep_the_order_change_nothing() {
    let [s, p] = sets();
    let start = [s, p, slice(idr(0)), slice(shown((0, 1, 4, false)))];
    let in_order = slice(shown((1, 2, 6, true)));
    let demuxer = video(&stream(&[&start[..], &[in_order]].concat()), &ONCE);
    let demuxer = demuxer.expect("a good stream");
    assert!(!demuxer.tracks()[0].video.reordered);
    assert!(
        all(demuxer)
            .iter()
            .all(|frame| frame.time == frame.decode_time)
    );
    // Counts that make no sense are passed over where no picture is a B-frame.
    let odd = slice(shown((0, 2, 2, false)));
    let demuxer = video(&stream(&[&start[..], &[odd]].concat()), &ONCE);
    let frames = all(demuxer.expect("a good stream"));
    assert!(frames.iter().all(|frame| frame.time == frame.decode_time));
}

#[test]
fn pictures_before_the_first_keyframe_are_skipped() {
    let [s, p] = sets();
    let nals = [
        s.clone(),
        p.clone(),
        slice(after(4)),
        slice(after(5)),
        s,
        p,
        slice(idr(0)),
    ];
    let demuxer = video(&stream(&nals), &ONCE).expect("a keyframe at last");
    assert_eq!(reasons(&demuxer), [WarningReason::BeforeKeyframe(2)]);
    assert_eq!(all(demuxer).len(), 1);
}

#[test]
fn a_cut_last_unit_is_left_out_with_a_warning() {
    let whole = progressive(3, 3, Sequence::default());
    let next = progressive(1, 1, Sequence::default());
    for cut in [3, 4, 5, 6, 8] {
        let bytes = [&whole, &next[..cut]].concat();
        let demuxer = video(&bytes, &ONCE).expect("what is whole plays");
        let expected: &[_] = if cut > 3 {
            &[WarningReason::TruncatedUnit]
        } else {
            &[]
        };
        assert_eq!(reasons(&demuxer), expected, "cut at {cut}");
        assert_eq!(all(demuxer).len(), 3);
    }
    // A slice cut in its header: only the start code, or the header byte is left.
    let last = whole
        .windows(4)
        .rposition(|code| code == [0, 0, 0, 1] || code[..3] == [0, 0, 1]);
    let last = last.expect("a start code");
    let demuxer = video(&whole[..last + 5], &ONCE).expect("what is whole plays");
    assert_eq!(reasons(&demuxer), [WarningReason::TruncatedUnit]);
    assert_eq!(all(demuxer).len(), 2);
}

#[test]
fn bytes_before_the_first_start_code_are_skipped() {
    let bytes = [b"junk".as_slice(), &progressive(2, 2, Sequence::default())].concat();
    let demuxer = video(&bytes, &ONCE).expect("a good stream after the junk");
    assert_eq!(reasons(&demuxer), [WarningReason::Skipped(4)]);
    assert_eq!(all(demuxer).len(), 2);
}

#[test]
fn a_stream_without_a_start_says_so() {
    for (bytes, expected) in [
        (stream(&[slice(after(1))]), "no IDR picture"),
        (stream(&[slice(idr(0)), slice(idr(1))]), "no IDR picture"),
        (stream(&sets()), "no picture"),
        (b"not a video at all".to_vec(), "no H.264 start code"),
        (vec![0; 5000], "no H.264 start code"),
    ] {
        let error = failure(video(&bytes, &ONCE)).to_string();
        assert!(
            error.contains(expected) && error.starts_with("v.h264"),
            "{error}"
        );
    }
}

#[test]
fn a_damaged_parameter_set_is_named_with_its_place() {
    let mut bytes = progressive(2, 2, Sequence::default());
    bytes.extend(stream(&[vec![0x67, 77, 0, 30, 0, 0, 3, 0]]));
    bytes.extend(progressive(2, 2, Sequence::default()));
    let error = failure(video(&bytes, &ONCE));
    assert!(
        matches!(error.reason, Reason::ParameterSet { .. }),
        "{error}"
    );
    let at = progressive(2, 2, Sequence::default()).len() as u64 + 4;
    assert_eq!(error.offset, Some(at));
    let wide = Sequence {
        width_in_macroblocks: 1 << 20,
        ..Sequence::default()
    };
    let error = failure(video(
        &stream(&[sps(wide), pps(0), slice(idr(0)), pps(0)]),
        &ONCE,
    ));
    assert!(
        matches!(error.reason, Reason::ParameterSet { .. }),
        "{error}"
    );
}

#[test]
fn frames_are_the_bytes_of_the_file() {
    let bytes = progressive(9, 3, Sequence::default());
    let frames = all(video(&bytes, &ONCE).expect("a good stream"));
    let joined: Vec<u8> = frames
        .iter()
        .flat_map(|frame| frame.data.to_vec())
        .collect();
    let units = |bytes: &[u8]| nals(bytes).map(<[u8]>::to_vec).collect::<Vec<_>>();
    assert_eq!(units(&joined), units(&bytes));
}

proptest! {
    #[test]
    fn damage_never_panics(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30),
        cut in any::<prop::sample::Index>(),
    ) {
        let timed = Sequence { timing: Some((1, 60)), ..Sequence::default() };
        let mut bytes = progressive(8, 4, timed);
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        if let Ok(demuxer) = video(&bytes, &ONCE) {
            for frame in all(demuxer) {
                prop_assert!(frame.duration > Duration::ZERO && !frame.data.is_empty());
            }
        }
    }
}
