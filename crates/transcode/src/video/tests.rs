//! Frames of a real encoder with B-frames, in and out.

use glassline_demux as demux;
use glassline_demux::live::Splitter;

use super::*;

/// Twelve access units a second or more of x264's High profile, with B-frames; in decoding order.
fn film() -> Vec<demux::Frame> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../demux/samples/b-frames.h264"
    );
    let options = demux::Options {
        once: true,
        ..demux::Options::default()
    };
    let mut film = demux::open(&[path.into()], &options).expect("a sample");
    std::iter::from_fn(|| film.next_frame().expect("good")).collect()
}

fn push_all(transcoder: &mut VideoTranscoder, film: &[demux::Frame]) -> Vec<VideoFrame> {
    let mut out = Vec::new();
    for frame in film {
        let how = (frame.keyframe, true);
        let pushed = transcoder.push(&frame.data, frame.time, how, &mut out);
        pushed.expect("decoded");
    }
    out
}

#[test]
fn frames_come_out_in_order_with_their_own_times() {
    let film = film();
    assert!(
        film.windows(2).any(|pair| pair[1].time < pair[0].time),
        "B-frames"
    );
    let mut transcoder = VideoTranscoder::new(Bitrate::from_bps(1_000_000));
    let out = push_all(&mut transcoder, &film);
    let mut times: Vec<_> = film.iter().map(|frame| frame.time).collect();
    times.sort_unstable();
    let made: Vec<_> = out.iter().map(|frame| frame.time).collect();
    // The last ones wait for frames that never come.
    assert!(
        made.len() + 4 >= times.len(),
        "{} of {}",
        made.len(),
        times.len()
    );
    assert_eq!(made[..], times[..made.len()], "each picture, in order");
    assert!(out[0].keyframe);
    let mut splitter = Splitter::new();
    for frame in &out {
        splitter.push(&frame.data).expect("Annex B");
    }
    splitter.finish().expect("a keyframe");
    let track = splitter.track().expect("a track");
    assert_eq!(track.video.profile_level_id().map(|it| it[0]), Some(66));
    assert_eq!(
        transcoder.size(),
        Some((track.video.width as usize, track.video.height as usize))
    );
    let notes = splitter.notes();
    assert_eq!((notes.reordered, notes.damaged_slices), (0, 0));
    let counts = transcoder.counts();
    assert_eq!((counts.undecodable, counts.steps), (0, 0));
    assert_eq!(transcoder.trouble(), None);
}

#[test]
fn frames_behind_a_gap_wait_for_a_keyframe() {
    let film = film();
    let mut transcoder = VideoTranscoder::new(Bitrate::default());
    let mut out = Vec::new();
    let push = |transcoder: &mut VideoTranscoder, frame: &demux::Frame, out: &mut _| {
        let _ = transcoder.push(&frame.data, frame.time, (frame.keyframe, true), out);
    };
    push(&mut transcoder, &film[1], &mut out);
    assert!(out.is_empty(), "no keyframe yet");
    for frame in &film[..8] {
        push(&mut transcoder, frame, &mut out);
    }
    let before = out.len();
    assert!(before > 0);
    transcoder.leave_out();
    for frame in &film[9..12] {
        push(&mut transcoder, frame, &mut out);
    }
    assert_eq!(out.len(), before, "their references are missing");
    // The film again, later.
    let length = film.iter().map(|frame| frame.time).max().expect("frames");
    for frame in &film {
        let later = demux::Frame {
            time: frame.time + length.saturating_since(MediaTime::ZERO) * 2,
            ..frame.clone()
        };
        push(&mut transcoder, &later, &mut out);
    }
    assert!(out.len() > before + 8, "{}", out.len());
    assert!(out.windows(2).all(|pair| pair[0].time < pair[1].time));
}

#[test]
fn a_keyframe_is_made_when_it_is_requested_and_none_is_encoded_without_time() {
    let film = film();
    let mut transcoder = VideoTranscoder::new(Bitrate::default());
    let mut out = Vec::new();
    for (number, frame) in film.iter().enumerate() {
        if number == 20 {
            transcoder.request_keyframe();
        }
        let encodes = number < 30;
        let how = (frame.keyframe, encodes);
        let pushed = transcoder.push(&frame.data, frame.time, how, &mut out);
        pushed.expect("decoded");
    }
    let keyframes = out.iter().filter(|frame| frame.keyframe).count();
    assert!(keyframes >= 2, "{keyframes}");
    assert!((20..=30).contains(&out.len()), "{}", out.len());
}

#[test]
fn damaged_frames_never_panic_and_are_trouble() {
    let film = film();
    let mut transcoder = VideoTranscoder::new(Bitrate::default());
    let mut out = Vec::new();
    let mut state = 7u64;
    for (number, frame) in (0..40).flat_map(|_| &film).zip(0i64..600) {
        let mut data = number.data.to_vec();
        for _ in 0..20 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let at = (state >> 33) as usize % data.len();
            data[at] ^= (state >> 20) as u8;
        }
        let time = MediaTime::from_nanos(frame * 40_000_000);
        let _ = transcoder.push(&data, time, (number.keyframe, true), &mut out);
    }
    let counts = transcoder.counts();
    assert!(counts.undecodable > 0, "{counts:?}");
    assert!(out.windows(2).all(|pair| pair[0].time < pair[1].time));
}
