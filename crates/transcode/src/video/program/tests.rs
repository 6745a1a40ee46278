//! A decoder in place of FFmpeg: pictures of one colour, some dropped, doubled or invented.

use std::collections::BTreeSet;

use glassline_media::{Codec, Track};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Bytes of a picture of 16 by 16, which is the size that a [`Writer`] states.
const RAW_BYTES: usize = 16 * 16 * 3 / 2;

fn source() -> VideoSource {
    VideoSource::of(&Track::new(Codec::H265)).expect("FFmpeg decodes it")
}

fn unit(time: MediaTime, keyframe: bool) -> AccessUnit<'static> {
    AccessUnit {
        data: b"coded",
        time,
        keyframe,
    }
}

fn ms(ms: i64) -> MediaTime {
    MediaTime::from_nanos(ms * 1_000_000)
}

/// The decoder: reads frames in the order of decoding and writes pictures in that of display.
struct Decoder {
    reader: Reader,
    writer: Writer,
    /// Ticks of the frames whose pictures are not out yet.
    held: BTreeSet<u64>,
    /// Frames that are held back to be sorted.
    depth: usize,
}

/// The outcome of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Shown,
    Dropped,
    Doubled,
    /// Another picture is made up half a frame later.
    Followed,
}

impl Decoder {
    fn new(depth: usize) -> Self {
        Self {
            reader: Reader::new(1 << 16),
            writer: Writer::new(nut::Codec(*b"raw ")),
            held: BTreeSet::new(),
            depth,
        }
    }

    /// Takes `input`, and returns what it writes; `end`: nothing follows.
    fn decode(
        &mut self,
        input: &[u8],
        end: bool,
        outcome: &mut impl FnMut() -> Outcome,
    ) -> Vec<u8> {
        self.reader.push(input);
        while let Some(frame) = self.reader.next().expect("written by the transcoder") {
            self.held.insert(frame.ticks);
        }
        let mut out = Vec::new();
        while self.held.len() > if end { 0 } else { self.depth } {
            let ticks = self.held.pop_first().expect("one is held");
            let mut write = |ticks| self.writer.frame(ticks, true, &[90; RAW_BYTES], &mut out);
            match outcome() {
                Outcome::Shown => write(ticks),
                Outcome::Dropped => {}
                Outcome::Doubled => [ticks; 2].into_iter().for_each(&mut write),
                Outcome::Followed => [ticks, ticks + 200].into_iter().for_each(&mut write),
            }
        }
        out
    }
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        6 => Just(Outcome::Shown),
        1 => Just(Outcome::Dropped),
        1 => Just(Outcome::Doubled),
        1 => Just(Outcome::Followed),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each picture has the time of its own frame, although others were lost or doubled before.
    #[test]
    fn lost_and_doubled_frames_shift_no_other(
        outcomes in vec(outcome(), 30),
        group in 1_usize..4,
        frame_ms in prop_oneof![Just(40), Just(33), Just(17)],
        offset_ms in 0_i64..1_000_000_000,
        piece in 1_usize..900,
    ) {
        let mut transcoder = ProgramTranscoder::new(source(), Bitrate::default());
        // Reordered: the last frame of each group comes first.
        let order = (0..30_i64).collect::<Vec<_>>();
        let order = order.chunks(group).flat_map(|group| {
            let (last, others) = group.split_last().expect("not empty");
            [*last].into_iter().chain(others.iter().copied())
        });
        let time = |number: i64| ms(offset_ms + number * frame_ms);
        let (mut decoder, mut left) = (Decoder::new(group), outcomes.iter().copied());
        let mut next_outcome = || left.next().expect("a fate each");
        let mut frames = Vec::new();
        for (place, number) in order.enumerate() {
            let mut input = Vec::new();
            transcoder.push(unit(time(number), place == 0), true, &mut input);
            let output = decoder.decode(&input, place == 29, &mut next_outcome);
            for piece in output.chunks(piece) {
                transcoder.take(piece, true, &mut frames).expect("pictures");
            }
        }
        let times: Vec<_> = frames.iter().map(|frame| frame.time).collect();
        let shown = (0_i64..).zip(&outcomes).filter(|(_, outcome)| **outcome != Outcome::Dropped);
        let expected: Vec<_> = shown.map(|(number, _)| time(number)).collect();
        prop_assert_eq!(times, expected);
        let extra = |outcome: &&Outcome| matches!(outcome, Outcome::Doubled | Outcome::Followed);
        prop_assert_eq!(transcoder.counts().steps, outcomes.iter().filter(extra).count() as u64);
        prop_assert_eq!(transcoder.counts().undecodable, 0);
    }
}

#[test]
fn a_program_that_begins_anew_begins_at_a_keyframe() {
    let mut transcoder = ProgramTranscoder::new(source(), Bitrate::default());
    let (mut input, mut frames) = (Vec::new(), Vec::new());
    transcoder.push(unit(ms(0), false), true, &mut input);
    assert!(input.is_empty(), "no keyframe yet");
    transcoder.push(unit(ms(40), true), true, &mut input);
    let mut decoder = Decoder::new(0);
    let output = decoder.decode(&input, true, &mut || Outcome::Shown);
    transcoder
        .take(&output, true, &mut frames)
        .expect("a picture");
    assert_eq!(frames.len(), 1);
    // The next program reads headers first, and nothing of the frame that the last one had.
    transcoder.push(unit(ms(80), false), true, &mut input);
    transcoder.restart();
    input.clear();
    transcoder.push(unit(ms(120), false), true, &mut input);
    assert!(input.is_empty(), "its references are missing");
    transcoder.push(unit(ms(160), true), true, &mut input);
    let output = Decoder::new(0).decode(&input, true, &mut || Outcome::Shown);
    transcoder
        .take(&output, true, &mut frames)
        .expect("a picture");
    let times: Vec<_> = frames.iter().map(|frame| frame.time).collect();
    assert_eq!(times, [ms(40), ms(160)]);
    assert_eq!(transcoder.size(), Some(FrameSize::new(16, 16)));
    assert_eq!(transcoder.frames_seen(), 2);
}

#[test]
fn frames_without_time_are_decoded_and_not_encoded() {
    let mut transcoder = ProgramTranscoder::new(source(), Bitrate::default());
    let (mut decoder, mut frames) = (Decoder::new(0), Vec::new());
    for (number, at_push, at_take) in [
        (0, true, true),
        (1, false, true),
        (2, true, false),
        (3, true, true),
    ] {
        let mut input = Vec::new();
        transcoder.push(unit(ms(40 * number), number == 0), at_push, &mut input);
        let output = decoder.decode(&input, true, &mut || Outcome::Shown);
        transcoder
            .take(&output, at_take, &mut frames)
            .expect("pictures");
    }
    let times: Vec<_> = frames.iter().map(|frame| frame.time).collect();
    assert_eq!(times, [ms(0), ms(120)]);
}

#[test]
fn a_program_that_writes_something_else_is_named() {
    let mut transcoder = ProgramTranscoder::new(source(), Bitrate::default());
    let refused = transcoder.take(b"usage: ffmpeg", true, &mut Vec::new());
    let reason = refused.expect_err("no NUT").to_string();
    assert!(reason.contains("does not begin as NUT"), "{reason}");
    transcoder.restart();
    let mut wrong = Vec::new();
    Writer::new(nut::Codec(*b"raw ")).frame(5, true, &[0; RAW_BYTES - 1], &mut wrong);
    let refused = transcoder.take(&wrong, true, &mut Vec::new());
    let reason = refused.expect_err("too short").to_string();
    assert!(reason.contains("another length than its size"), "{reason}");
}

#[test]
fn frames_that_never_show_are_bounded() {
    let mut transcoder = ProgramTranscoder::new(source(), Bitrate::default());
    for number in 0..PENDING_MAX as i64 + 9 {
        transcoder.push(unit(ms(20 * number), number == 0), true, &mut Vec::new());
    }
    assert_eq!(transcoder.pending.len(), PENDING_MAX);
    // Two frames of one time, and one long before the first.
    transcoder.push(unit(ms(20), false), true, &mut Vec::new());
    let before = transcoder.counts().undecodable;
    transcoder.push(unit(ms(-11_000), false), true, &mut Vec::new());
    assert_eq!(transcoder.counts().undecodable, before + 1);
}

/// AVI states no times of display: the pictures come in another order than their times.
#[test]
fn frames_of_other_times_are_trouble_with_the_way_out() {
    let mut transcoder = ProgramTranscoder::new(source(), Bitrate::default());
    let mut writer = Writer::new(nut::Codec(*b"raw "));
    for number in 0..20 {
        transcoder.push(unit(ms(40 * number), number == 0), true, &mut Vec::new());
        let (mut output, mut frames) = (Vec::new(), Vec::new());
        writer.frame(7 + number as u64, true, &[90; RAW_BYTES], &mut output);
        transcoder
            .take(&output, true, &mut frames)
            .expect("pictures");
        assert!(frames.is_empty());
    }
    assert_eq!(transcoder.frames_seen(), 20);
    let trouble = transcoder.trouble().map(ToString::to_string);
    assert!(
        trouble.as_ref().is_some_and(|it| it.contains("AVI")),
        "{trouble:?}"
    );
}

#[test]
fn ffmpeg_is_told_what_it_reads() {
    let arguments = ProgramTranscoder::arguments(source());
    let pairs: Vec<_> = arguments.windows(2).collect();
    assert!(pairs.contains(&&["-c:v", "hevc"][..]), "{arguments:?}");
    assert_eq!(arguments.last(), Some(&"pipe:1"));
}

/// A program that falls behind adds at most a second: what it shows later is not encoded.
#[test]
fn frames_that_come_late_are_left_out_and_those_in_time_are_not() {
    let mut transcoder = ProgramTranscoder::new(source(), Bitrate::default());
    let mut decoder = Decoder::new(0);
    let (mut input, mut frames) = (Vec::new(), Vec::new());
    for number in 0..60_i64 {
        transcoder.push(unit(ms(number * 50), number == 0), true, &mut input);
    }
    let output = decoder.decode(&input, true, &mut || Outcome::Shown);
    let taken = transcoder.take(&output, true, &mut frames);
    taken.expect("pictures");
    let times: Vec<_> = frames.iter().map(|frame| frame.time).collect();
    let in_time: Vec<_> = (39..60_i64).map(|number| ms(number * 50)).collect();
    assert_eq!(times, in_time, "the newest frame is at 2950 ms");
    assert!(frames.first().is_some_and(|frame| frame.keyframe));
}
