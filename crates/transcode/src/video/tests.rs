//! Frames of a real encoder with B-frames, in and out.

use glassline_demux as demux;
use glassline_demux::live::Splitter;
use glassline_media::annexb;
use openh264::formats::YUVSource;

use super::encoder::Encoder;
use super::*;

/// A unit of the film as it is.
fn unit_of(frame: &demux::Frame) -> AccessUnit<'_> {
    unit(&frame.data, frame.time, frame.keyframe)
}

fn unit(data: &[u8], time: MediaTime, keyframe: bool) -> AccessUnit<'_> {
    AccessUnit {
        data,
        time,
        keyframe,
    }
}

/// Twelve access units a second or more of x264's High profile, with B-frames; in decoding order.
fn film() -> Vec<demux::Frame> {
    sample("b-frames.h264")
}

fn sample(name: &str) -> Vec<demux::Frame> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../demux/samples");
    let options = demux::Options {
        once: true,
        ..demux::Options::default()
    };
    let path = format!("{folder}/{name}");
    let mut film = demux::open(&[path.into()], &options).expect("a sample");
    std::iter::from_fn(|| film.next_frame().expect("good")).collect()
}

/// Intra refresh without its IDR picture: the first access unit is a recovery point, and the pictures
/// are right from the returned one on.
fn refreshed() -> (Vec<demux::Frame>, usize) {
    let mut film = sample("intra-refresh.h264");
    let begins = |frame: &demux::Frame| annexb::nals(&frame.data).any(|nal| nal[0] & 0x1f == 7);
    let start = film.iter().skip(1).position(begins).expect("a second one");
    film.drain(..=start);
    let Recovery::Frames(right) = recovery(Codec::H264, &film[0].data) else {
        panic!("no recovery point");
    };
    (film, right as usize)
}

fn push_all(transcoder: &mut VideoTranscoder, film: &[demux::Frame]) -> Vec<VideoFrame> {
    let mut out = Vec::new();
    for frame in film {
        let pushed = transcoder.push(unit_of(frame), true, &mut out);
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
        Some(FrameSize::new(
            track.video.width as usize,
            track.video.height as usize
        ))
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
        let _ = transcoder.push(unit_of(frame), true, out);
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

/// w3c/webcodecs#650: cameras send one IDR picture at their start, or none.
#[test]
fn a_stream_without_idr_frames_is_shown_once_its_frames_are_right() {
    let (film, right) = refreshed();
    assert!((1..film.len() - 10).contains(&right), "{right}");
    let mut transcoder = VideoTranscoder::new(Bitrate::default());
    let mut out = Vec::new();
    for (at, frame) in film.iter().enumerate() {
        // The hub calls the first unit a keyframe, and each later recovery point.
        let keyframe = at == 0 || annexb::nals(&frame.data).count() > 1;
        let pushed = transcoder.push(unit(&frame.data, frame.time, keyframe), true, &mut out);
        pushed.expect("decoded");
    }
    let times: Vec<_> = film[right..].iter().map(|frame| frame.time).collect();
    let made: Vec<_> = out.iter().map(|frame| frame.time).collect();
    // The last one waits for a frame that never comes.
    assert!(
        made.len() + 2 >= times.len(),
        "{} of {}",
        made.len(),
        times.len()
    );
    assert_eq!(made[..], times[..made.len()]);
    assert!(out[0].keyframe && transcoder.trouble().is_none());
    assert_eq!(transcoder.counts().undecodable, 0);
    // A gap: the next recovery point is another start.
    let keyframe = |frame: &demux::Frame| annexb::nals(&frame.data).count() > 1;
    let later = film.iter().skip(1).position(keyframe).expect("another") + 1;
    transcoder.leave_out();
    let length = film
        .last()
        .expect("frames")
        .time
        .saturating_since(MediaTime::ZERO);
    let before = out.len();
    for frame in film.iter().skip(1) {
        let unit = unit(&frame.data, frame.time + length, keyframe(frame));
        let pushed = transcoder.push(unit, true, &mut out);
        pushed.expect("decoded");
    }
    let again = out.len() - before;
    assert!((1..=film.len() - later - right).contains(&again), "{again}");
    assert!(again + 2 >= film.len() - later - right, "{again}");
}

/// Some encoders repeat their parameter sets where a refresh begins, and send no recovery point.
#[test]
fn without_recovery_points_frames_are_shown_behind_a_whole_refresh() {
    let (film, _) = refreshed();
    let is_message = |nal: &[u8]| nal[0] & 0x1f == 6;
    let starts = |frame: &demux::Frame| annexb::nals(&frame.data).any(|nal| nal[0] & 0x1f == 7);
    let mut transcoder = VideoTranscoder::new(Bitrate::default());
    let mut out = Vec::new();
    for frame in &film {
        let nals = annexb::nals(&frame.data).filter(|nal| !is_message(nal));
        let data: Vec<u8> = nals.flat_map(|nal| [&[0, 0, 0, 1], nal].concat()).collect();
        let unit = unit(&data, frame.time, starts(frame));
        let pushed = transcoder.push(unit, true, &mut out);
        pushed.expect("decoded");
    }
    let second = film.iter().skip(1).find(|frame| starts(frame));
    let second = second.expect("two refreshes").time;
    let ahead = second.saturating_since(out[0].time);
    // Two pictures wait in the decoder when the second refresh begins.
    assert!(
        ahead < 3 * frame_encoder::FRAME && out[0].time <= second,
        "{ahead:?}"
    );
    assert_eq!(transcoder.counts().undecodable, 0);
}

#[test]
fn frames_behind_a_recovery_point_are_those_of_the_whole_film() {
    let (cut, right) = refreshed();
    let film = sample("intra-refresh.h264");
    let whole = decoded(&film, false);
    let recovered = decoded(&cut, true);
    assert!(recovered.len() + 2 >= cut.len(), "{}", recovered.len());
    let behind = &whole[film.len() - cut.len()..];
    let differences: Vec<f64> = behind
        .iter()
        .zip(&recovered)
        .map(|(one, other)| {
            let differences = one
                .iter()
                .zip(other)
                .map(|(a, b)| f64::from(a.abs_diff(*b)));
            differences.sum::<f64>() / one.len() as f64
        })
        .collect();
    println!("mean differences: {differences:.1?}");
    assert!(differences[0] > 5.0, "grey: {differences:.1?}");
    assert!(
        differences[right..].iter().all(|it| *it < 1.0),
        "{differences:.1?}"
    );
}

/// Decodes the film, and returns the luminance of its pictures.
fn decoded(film: &[demux::Frame], conceals: bool) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::new().expect("a decoder");
    decoder.conceal(conceals);
    let mut frames = Vec::new();
    for (number, frame) in (0..).zip(film) {
        let decoded = decoder.decode(&frame.data, number);
        let decoded = decoded.unwrap_or_else(|state| panic!("frame {number}: {state:#x}"));
        let Some(decoded) = decoded else { continue };
        let FrameSize { width, height } = decoded.frame.size;
        let rows = decoded.frame.y().chunks(decoded.frame.strides().0);
        let rows = rows.take(height).flat_map(|row| &row[..width]);
        frames.push(rows.copied().collect());
    }
    frames
}

#[test]
fn a_keyframe_is_made_when_it_is_requested_and_none_is_encoded_without_time() {
    let film = film();
    let mut transcoder = VideoTranscoder::new(Bitrate::default());
    let mut out = Vec::new();
    for (number, frame) in film.iter().enumerate() {
        if number == 20 {
            transcoder.request_keyframe(0);
        }
        let encodes = number < 30;
        let pushed = transcoder.push(unit_of(frame), encodes, &mut out);
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
        let _ = transcoder.push(unit(&data, time, number.keyframe), true, &mut out);
    }
    let counts = transcoder.counts();
    assert!(counts.undecodable > 0, "{counts:?}");
    assert!(out.windows(2).all(|pair| pair[0].time < pair[1].time));
}

/// Frames of one grey picture each, without B-frames, of a size.
fn still_frames(size: FrameSize, count: usize) -> Vec<(Vec<u8>, bool)> {
    struct Grey(FrameSize, Vec<u8>);
    impl YUVSource for Grey {
        fn dimensions(&self) -> (usize, usize) {
            (self.0.width, self.0.height)
        }
        fn strides(&self) -> (usize, usize, usize) {
            (self.0.width, self.0.width / 2, self.0.width / 2)
        }
        fn y(&self) -> &[u8] {
            &self.1
        }
        fn u(&self) -> &[u8] {
            &self.1[..self.1.len() / 4]
        }
        fn v(&self) -> &[u8] {
            self.u()
        }
    }
    let image = Grey(size, vec![120; size.pixels()]);
    let mut encoder = Encoder::of_still(size, 100).expect("an encoder");
    let frames = (0..count as i64).map(|number| {
        let time = MediaTime::from_nanos(number * 1_000_000_000);
        encoder.encode(&image, time).expect("encoded")
    });
    frames.map(|frame| frame.expect("a frame")).collect()
}

fn at_ms(ms: i64) -> MediaTime {
    MediaTime::from_nanos(ms * 1_000_000)
}

#[test]
fn the_bitrate_is_half_as_much_again_within_limits() {
    for (source, bitrate) in [
        (0, 2_500_000),
        (1, 300_000),
        (200_000, 300_000),
        (1_000_000, 1_500_000),
        (7_999_998, 11_999_997),
        (9_000_000, 12_000_000),
        (u64::MAX, 12_000_000),
    ] {
        let transcoder = VideoTranscoder::new(Bitrate::from_bps(source));
        assert_eq!(
            transcoder.encoder.bitrate(),
            Bitrate::from_bps(bitrate),
            "{source}"
        );
    }
}

#[test]
fn frames_whose_time_has_passed_are_left_out() {
    let mut transcoder = VideoTranscoder::new(Bitrate::default());
    let mut out = Vec::new();
    let times = [0, 100, 50, 100, 101, 300];
    for ((data, keyframe), ms) in still_frames(FrameSize::new(64, 32), 6)
        .into_iter()
        .zip(times)
    {
        let pushed = transcoder.push(unit(&data, at_ms(ms), keyframe), true, &mut out);
        pushed.expect("decoded");
    }
    let made: Vec<_> = out.iter().map(|frame| frame.time).collect();
    assert_eq!(made, [0, 100, 101, 300].map(at_ms));
    let counts = transcoder.counts();
    let expected = Counts {
        frames_in: 6,
        frames_out: 4,
        steps: 2,
        changes: 1,
        ..Counts::default()
    };
    assert_eq!(counts, expected);
    assert_eq!(transcoder.size(), Some(FrameSize::new(64, 32)));
}

#[test]
fn another_size_has_an_encoder_of_its_own() {
    let mut transcoder = VideoTranscoder::new(Bitrate::default());
    assert_eq!(transcoder.size(), None);
    let mut out = Vec::new();
    let mut ms = 0;
    for (width, height) in [(64, 32), (32, 64), (64, 64)] {
        let size = FrameSize::new(width, height);
        for (data, keyframe) in still_frames(size, 3) {
            ms += 40;
            let pushed = transcoder.push(unit(&data, at_ms(ms), keyframe), true, &mut out);
            pushed.expect("decoded");
        }
        assert_eq!(transcoder.size(), Some(size));
    }
    let keyframes: Vec<_> = out.iter().map(|frame| frame.keyframe).collect();
    assert_eq!(keyframes, [[true, false, false]; 3].concat());
    assert_eq!(transcoder.counts().changes, 3);
}

#[test]
fn a_request_makes_the_next_frame_a_keyframe_and_no_later_one() {
    let mut transcoder = VideoTranscoder::new(Bitrate::default());
    let mut out = Vec::new();
    for (number, (data, keyframe)) in (0..).zip(still_frames(FrameSize::new(64, 32), 8)) {
        if number == 3 {
            transcoder.request_keyframe(0);
        }
        // The fourth is decoded only, so that the fifth becomes the keyframe.
        let unit = unit(&data, at_ms(40 * number), keyframe);
        let pushed = transcoder.push(unit, number != 3, &mut out);
        pushed.expect("decoded");
    }
    let keyframes: Vec<_> = out
        .iter()
        .map(|frame| (frame.time, frame.keyframe))
        .collect();
    let expected = [0, 1, 2, 4, 5, 6, 7].map(|it| (at_ms(40 * it), it == 0 || it == 4));
    assert_eq!(keyframes, expected);
}

#[test]
fn failures_are_trouble_from_ten_in_a_row_on() {
    let mut transcoder = VideoTranscoder::new(Bitrate::default());
    let mut out = Vec::new();
    let mut ms = 0;
    let mut push = |transcoder: &mut VideoTranscoder, data: &[u8], keyframe| {
        ms += 40;
        transcoder
            .push(unit(data, at_ms(ms), keyframe), true, &mut out)
            .is_ok()
    };
    let frames = still_frames(FrameSize::new(64, 32), 40);
    let damaged = b"\0\0\0\x01\x65 no slice at all";
    assert!(!push(&mut transcoder, damaged, true));
    for number in 1..50 {
        assert_eq!(transcoder.trouble().is_some(), number >= 10, "{number}");
        assert!(!push(&mut transcoder, damaged, true));
        // Frames that wait for a keyframe are neither.
        assert!(push(&mut transcoder, damaged, false));
    }
    assert_eq!(transcoder.failures.count(), trouble::FAILURES_MAX);
    assert_eq!(transcoder.counts().undecodable, 99);
    for (number, (data, keyframe)) in (0..).zip(&frames) {
        assert_eq!(transcoder.trouble().is_some(), number <= 20, "{number}");
        assert!(push(&mut transcoder, data, *keyframe));
    }
    assert_eq!(transcoder.failures.count(), 0);
    assert_eq!(transcoder.counts().frames_in, 139);
}

#[test]
fn units_that_show_nothing_are_bounded() {
    let mut transcoder = VideoTranscoder::new(Bitrate::default());
    let mut out = Vec::new();
    // An access unit delimiter alone.
    let delimiter = [0, 0, 0, 1, 9, 0xf0];
    for number in 0..40 {
        let _ = transcoder.push(unit(&delimiter, at_ms(number), number == 0), true, &mut out);
        let expected = (number + 1).min(PENDING_MAX as i64);
        assert_eq!(transcoder.pending.len() as i64, expected);
    }
    assert_eq!(transcoder.pending.front(), Some(&(8, at_ms(8))));
}

#[test]
fn frames_of_more_pixels_than_the_limit_are_named() {
    for (width, height, is_made) in [(1920, 1088, true), (1936, 1088, false)] {
        let mut transcoder = VideoTranscoder::new(Bitrate::default());
        let mut out = Vec::new();
        let frames = still_frames(FrameSize::new(width, height), 1);
        let pushed = transcoder.push(unit(&frames[0].0, at_ms(0), true), true, &mut out);
        let expected = is_made
            .then_some(())
            .ok_or(VideoError::Size { width, height });
        assert_eq!(pushed, expected);
        assert_eq!(out.len(), usize::from(is_made));
    }
}

#[test]
fn the_rate_is_measured_once_two_frames_have_come_out() {
    let mut film = film();
    let mut times: Vec<_> = film.iter().map(|frame| frame.time).collect();
    times.sort_unstable();
    for frame in &mut film {
        let place = times.binary_search(&frame.time).expect("its own");
        frame.time = at_ms(100 * place as i64);
    }
    let mut transcoder = VideoTranscoder::new(Bitrate::from_bps(1_000_000));
    let out = push_all(&mut transcoder, &film);
    let keyframes: Vec<_> = (0..out.len()).filter(|at| out[*at].keyframe).collect();
    // Two seconds are 20 frames. The decoder holds a frame four places ahead when the first comes
    // out, which says nothing about the rate.
    let expected: Vec<_> = [0].into_iter().chain((1..out.len()).step_by(20)).collect();
    assert!(expected.len() > 2, "{} frames are too few", out.len());
    assert_eq!(keyframes, expected);
    assert_eq!(transcoder.counts().changes, 1);
}
