use glassline_media::Codec;

use super::*;
use crate::live::Splitter;
use crate::synthetic::{Sequence, Slice, pps, slice, sps, stream};

/// The access units of a file, in the order of sending.
fn units(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut splitter = Splitter::new();
    splitter.push(bytes).expect("a good stream");
    splitter.finish().expect("a good stream");
    let units = std::iter::from_fn(|| splitter.next_unit());
    units.map(|unit| unit.data.to_vec()).collect()
}

/// The verdict behind each unit.
fn verdicts(codec: Codec, units: &[Vec<u8>]) -> Vec<bool> {
    let mut reordering = Reordering::of(codec).expect("followed");
    let mut verdicts = Vec::new();
    for unit in units {
        reordering.push(unit, false);
        verdicts.push(reordering.is_reordered());
    }
    verdicts
}

fn sets(reorder: Option<u32>) -> [Vec<u8>; 2] {
    let sequence = Sequence {
        reorder,
        ..Sequence::default()
    };
    [sps(sequence), pps(0)]
}

fn idr() -> Slice {
    Slice {
        kind: 2,
        idr: Some(0),
        ..Slice::default()
    }
}

/// `I P B P B …`, each B shown between the two before it, or `I P P …`; 1 + 2 × `pairs`
/// frames.
fn group(reorder: Option<u32>, has_b_frames: bool, pairs: u32) -> Vec<Vec<u8>> {
    let [sps, pps] = sets(reorder);
    let mut units = vec![stream(&[sps, pps, slice(idr())])];
    for pair in 0..pairs {
        let [ahead, between] = match has_b_frames {
            true => [(0, 4, false), (1, 2, true)],
            false => [(0, 2, false), (0, 4, false)],
        }
        .map(|(kind, order, disposable)| Slice {
            kind,
            frame_number: pair * 2 + 1 + u32::from(disposable),
            order: pair * 4 + order,
            disposable,
            ..Slice::default()
        });
        units.extend([ahead, between].map(|frame| stream(&[slice(frame)])));
    }
    units
}

#[test]
fn encoders_that_say_so_are_believed_from_the_first_frame_on() {
    let h264 = include_bytes!("../../../samples/b-frames.h264");
    assert!(verdicts(Codec::H264, &units(h264)).iter().all(|it| *it));
    let h265 = include_bytes!("../../../samples/open-gop.h265");
    assert!(verdicts(Codec::H265, &units(h265)).iter().all(|it| *it));
    let clip = include_bytes!("../../../../../assets/demo.h264");
    assert!(!verdicts(Codec::H264, &units(clip)).iter().any(|it| *it));
}

#[test]
fn who_says_nothing_is_found_out_by_the_first_b_frame() {
    let found = verdicts(Codec::H264, &group(None, true, 2));
    assert_eq!(found, [false, false, true, true, true]);
    let none = verdicts(Codec::H264, &group(None, false, 200));
    assert!(!none.contains(&true));
}

#[test]
fn who_says_some_and_makes_none_is_found_out_in_ten_seconds() {
    let found = verdicts(Codec::H264, &group(Some(1), false, 150));
    let first = found.iter().position(|it| !it);
    assert_eq!(first, Some(249), "the 250th frame settles it");
    assert!(found[249..].iter().all(|it| !it));
    let real = verdicts(Codec::H264, &group(Some(1), true, 150));
    assert!(real.iter().all(|it| *it));
}

/// mediamtx#5808, mediamtx#3091: one odd frame ended browsers for good.
#[test]
fn an_episode_of_b_frames_is_over_after_ten_seconds_without() {
    for reorder in [None, Some(1)] {
        let mut units = group(reorder, false, 200);
        let before = units.len();
        units.extend(group(reorder, true, 5));
        let last = units.len() - 1;
        units.extend(group(reorder, false, 200));
        units.extend(group(reorder, true, 5));
        let found = verdicts(Codec::H264, &units);
        assert!(!found[before - 1], "none so far");
        assert!(
            found[before + 2..last + 250].iter().all(|it| *it),
            "{reorder:?}"
        );
        assert!(
            !found[last + 250..last + 401].contains(&true),
            "{reorder:?}"
        );
        assert_eq!(found.last(), Some(&true), "the next episode counts at once");
    }
}

#[test]
fn an_encoder_that_is_set_anew_is_judged_anew() {
    let mut units = group(Some(2), true, 3);
    let before = units.len();
    units.extend(group(Some(0), false, 3));
    units.extend(group(None, false, 3));
    let verdicts = verdicts(Codec::H264, &units);
    assert!(verdicts[..before].iter().all(|it| *it));
    assert!(!verdicts[before..].contains(&true));
}

#[test]
fn a_lost_keyframe_makes_no_b_frame() {
    // Counts begin at zero with a keyframe: without it, what follows seems to be shown
    // long before.
    let mut units = group(None, false, 5);
    let mut next = group(None, false, 5);
    next.remove(0);
    // A B slice in order.
    next[0] = stream(&[slice(Slice {
        kind: 1,
        frame_number: 1,
        order: 2,
        ..Slice::default()
    })]);
    let lost = units.len();
    units.extend(next);
    let judge = |after_loss: bool| {
        let mut reordering = Reordering::of(Codec::H264).expect("followed");
        for (number, unit) in units.iter().enumerate() {
            reordering.push(unit, after_loss && number == lost);
        }
        reordering.is_reordered()
    };
    assert!(!judge(true));
    assert!(judge(false), "nothing told that one is missing");
}

#[test]
fn parameter_sets_may_come_beside_the_stream() {
    let mut reordering = Reordering::of(Codec::H264).expect("followed");
    reordering.push(&stream(&sets(Some(2))), false);
    assert!(!reordering.is_reordered(), "no frame yet");
    reordering.push(&stream(&[slice(idr())]), false);
    assert!(reordering.is_reordered());
}

#[test]
fn nonsense_tells_nothing() {
    for codec in [Codec::H264, Codec::H265] {
        let mut reordering = Reordering::of(codec).expect("followed");
        for length in 0..200u32 {
            let noise = |place: u32| place.wrapping_mul(0x9e37_79b9).to_be_bytes()[1];
            let unit: Vec<u8> = (length..length * 3).map(noise).collect();
            reordering.push(&stream(&[&unit]), length % 7 == 0);
            assert!(!reordering.is_reordered());
        }
    }
    assert!(Reordering::of(Codec::Vp8).is_none());
}
