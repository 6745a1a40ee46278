//! One decoder, several encoders in smaller sizes.

use glassline_demux::live::Splitter;
use openh264::formats::YUVSource;

use super::encoder::Encoder;
use super::*;

/// A picture in which a striped square moves over a slope, so that an encoder has something to do.
struct Moving {
    size: FrameSize,
    y: Vec<u8>,
    chrominance: Vec<u8>,
}

impl Moving {
    fn new(size: FrameSize, number: usize) -> Self {
        let sample = |at: usize| {
            let (x, y) = (at % size.width, at / size.width);
            let left = number * 7 % size.width;
            let is_inside = (left..left + size.height / 2).contains(&x) && y < size.height / 2;
            let level = match is_inside {
                true => (x * 13 + y * 7 + number * 5) % 200,
                false => (x + y * 2 + number * 3) * 255 / (size.width + size.height * 2) % 256,
            };
            u8::try_from(level).unwrap_or(u8::MAX)
        };
        Self {
            size,
            y: (0..size.pixels()).map(sample).collect(),
            chrominance: vec![128; size.half().pixels()],
        }
    }
}

impl YUVSource for Moving {
    fn dimensions(&self) -> (usize, usize) {
        (self.size.width, self.size.height)
    }
    fn strides(&self) -> (usize, usize, usize) {
        (self.size.width, self.size.width / 2, self.size.width / 2)
    }
    fn y(&self) -> &[u8] {
        &self.y
    }
    fn u(&self) -> &[u8] {
        &self.chrominance
    }
    fn v(&self) -> &[u8] {
        &self.chrominance
    }
}

const SOURCE: FrameSize = FrameSize::new(640, 360);
const FPS: i64 = 30;

/// Frames of a source of 30 a second, with their times.
fn film(frames: i64) -> Vec<(Vec<u8>, MediaTime, bool)> {
    let mut encoder =
        Encoder::new(SOURCE, FPS as f64, Bitrate::from_bps(2_500_000)).expect("an encoder");
    let frames = (0..frames).filter_map(|number| {
        let time = MediaTime::from_nanos(number * 1_000_000_000 / FPS);
        let frame = Moving::new(SOURCE, usize::try_from(number).expect("small"));
        let (data, keyframe) = encoder.encode(&frame, time).expect("encoded")?;
        Some((data, time, keyframe))
    });
    frames.collect()
}

fn target(width: usize, height: usize, bps: u64) -> RungTarget {
    RungTarget {
        size: FrameSize::new(width, height),
        bitrate: Bitrate::from_bps(bps),
    }
}

fn push(
    transcoder: &mut VideoTranscoder,
    (data, time, keyframe): &(Vec<u8>, MediaTime, bool),
) -> Vec<VideoFrame> {
    let mut out = Vec::new();
    let unit = AccessUnit {
        data,
        time: *time,
        keyframe: *keyframe,
    };
    transcoder.push(unit, true, &mut out).expect("decoded");
    out
}

/// Frames of a rung, with what they say of themselves.
fn described(frames: &[VideoFrame]) -> (u32, u32, bool) {
    let mut splitter = Splitter::new();
    for frame in frames {
        splitter.push(&frame.data).expect("Annex B");
    }
    splitter.finish().expect("a keyframe");
    let track = splitter.track().expect("a track");
    assert_eq!(track.video.profile_level_id().map(|it| it[0]), Some(66));
    let is_plain = splitter.notes().reordered == 0;
    (track.video.width, track.video.height, is_plain)
}

#[test]
fn each_rung_has_its_size_its_rate_and_the_times_of_the_source() {
    let film = film(6 * FPS);
    let rungs = [target(426, 240, 500_000), target(320, 180, 200_000)];
    let mut transcoder = VideoTranscoder::of_ladder(&rungs);
    transcoder.set_active(0, true);
    transcoder.set_active(1, true);
    let mut made = [Vec::new(), Vec::new()];
    for frame in &film {
        for out in push(&mut transcoder, frame) {
            made[out.output].push(out);
        }
    }
    for (frames, rung) in made.iter().zip(rungs) {
        assert!(frames[0].keyframe);
        let (width, height, is_plain) = described(frames);
        assert_eq!(
            (width as usize, height as usize),
            (rung.size.width, rung.size.height)
        );
        assert!(is_plain, "no B-frames");
        let times = film.iter().map(|(_, time, _)| *time);
        assert!(
            frames
                .iter()
                .all(|it| times.clone().any(|time| time == it.time))
        );
        assert!(frames.windows(2).all(|pair| pair[0].time < pair[1].time));
        assert!(
            frames.len() * 10 >= film.len() * 9,
            "{} frames",
            frames.len()
        );
        // The encoder has found its quantizer after two seconds.
        let late = frames.iter().filter(|it| it.time.nanos() >= 2_000_000_000);
        let bps = late.map(|it| it.data.len() as u64 * 8).sum::<u64>() / 4;
        let wanted = rung.bitrate.bps();
        assert!(
            (wanted / 2..=wanted * 115 / 100).contains(&bps),
            "{bps} of {wanted} bit/s"
        );
    }
    assert_eq!(transcoder.size(), Some(SOURCE));
}

#[test]
fn only_active_rungs_are_encoded_and_each_begins_with_a_keyframe() {
    let film = film(24);
    let rungs = [target(320, 180, 300_000), target(160, 90, 100_000)];
    let mut transcoder = VideoTranscoder::of_ladder(&rungs);
    let mut outputs = |frames: &[(Vec<u8>, MediaTime, bool)], active: [bool; 2]| {
        for (place, is_active) in active.into_iter().enumerate() {
            transcoder.set_active(place, is_active);
        }
        let frames = frames.iter().flat_map(|frame| push(&mut transcoder, frame));
        frames
            .map(|it| (it.output, it.keyframe))
            .collect::<Vec<_>>()
    };
    let began = |made: &[(usize, bool)], place| {
        let mut of_rung = made.iter().filter(|it| it.0 == place);
        of_rung.next().map(|it| it.1)
    };
    assert!(
        outputs(&film[..6], [false; 2]).is_empty(),
        "nobody needs them"
    );
    let lower = outputs(&film[6..12], [false, true]);
    assert_eq!((began(&lower, 0), began(&lower, 1)), (None, Some(true)));
    let both = outputs(&film[12..18], [true, true]);
    assert_eq!(
        (began(&both, 0), began(&both, 1)),
        (Some(true), Some(false))
    );
    assert!(outputs(&film[18..20], [false; 2]).is_empty());
    let again = outputs(&film[20..], [false, true]);
    assert_eq!((began(&again, 0), began(&again, 1)), (None, Some(true)));
}

#[test]
fn requests_make_two_keyframes_a_second_at_most() {
    let film = film(45);
    let mut transcoder = VideoTranscoder::of_ladder(&[target(160, 90, 400_000)]);
    transcoder.set_active(0, true);
    let mut keyframes = Vec::new();
    for frame in &film {
        transcoder.request_keyframe(0);
        let made = push(&mut transcoder, frame);
        keyframes.extend(
            made.iter()
                .filter(|it| it.keyframe)
                .map(|it| it.time.nanos()),
        );
    }
    assert!(keyframes.len() >= 3, "{keyframes:?}");
    for pair in keyframes.windows(2) {
        assert!(pair[1] - pair[0] >= 500_000_000, "{keyframes:?}");
    }
}

#[test]
fn a_rung_that_is_larger_than_the_source_is_left_out() {
    let film = film(3);
    let rungs = [target(1280, 720, 900_000), target(320, 180, 300_000)];
    let mut transcoder = VideoTranscoder::of_ladder(&rungs);
    transcoder.set_active(0, true);
    transcoder.set_active(1, true);
    let made = film.iter().flat_map(|frame| push(&mut transcoder, frame));
    let outputs: Vec<_> = made.map(|it| it.output).collect();
    assert!(
        !outputs.is_empty() && outputs.iter().all(|it| *it == 1),
        "{outputs:?}"
    );
}
