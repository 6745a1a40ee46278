//! Spans of several files.

use std::time::Duration;

use glassline_media::{Codec, MediaTime};

use super::{Stream, Synthetic, ZERO_UNIX, demuxed, finish};
use crate::boxes::BoxView;
use crate::{CutRule, FileWriter, Header, Output, RecordedFile, Span, SpanBuilder, SpanCut};

/// Writes the files of a stream, some of which are not finished.
fn files(stream: &Stream, file_s: u64) -> Vec<Vec<u8>> {
    let rule = CutRule::recording(Duration::from_secs(1), Duration::from_secs(file_s));
    let mut header: Option<Header> = None;
    let mut files: Vec<(Vec<u8>, FileWriter)> = Vec::new();
    for output in stream.cut(rule) {
        match output {
            Output::Header(new) => header = Some(new.header),
            Output::Discontinuity(_) => {}
            Output::Fragment(fragment) => {
                if fragment.begins_segment {
                    let header = header.as_ref().expect("before its fragments");
                    let writer = FileWriter::new(header, &fragment);
                    files.push((writer.head().to_vec(), writer));
                }
                let (file, writer) = files.last_mut().expect("a segment begins first");
                writer.add(&fragment);
                file.extend(fragment.to_vec());
            }
        }
    }
    let numbered = files.into_iter().enumerate();
    let done = numbered.map(|(number, (mut file, writer))| {
        if number % 2 == 0 {
            finish(&mut file, writer);
        }
        file
    });
    done.collect()
}

fn at(seconds: f64) -> Duration {
    ZERO_UNIX + Duration::from_secs_f64(seconds)
}

fn span(files: &[Vec<u8>], from: f64, to: f64, cut: SpanCut) -> (Span, Vec<u8>) {
    let mut builder = SpanBuilder::new(at(from)..at(to), cut);
    for file in files {
        let file = RecordedFile::open(&file[..]).expect("a recording");
        builder.add(&file).expect("readable");
    }
    let span = builder.finish().expect("media");
    let mut whole = span.head.to_vec();
    for slice in &span.slices {
        let start = slice.offset as usize;
        whole.extend_from_slice(&files[slice.file][start..start + slice.bytes as usize]);
    }
    assert_eq!(whole.len() as u64, span.byte_count());
    (span, whole)
}

/// Twenty seconds of video with a keyframe each two seconds, and audio.
fn footage() -> Vec<Synthetic> {
    let mut frames: Vec<_> = (0..500)
        .map(|it| Synthetic {
            bytes: 200 + it % 50,
            ..Synthetic::video(40.0 * it as f64, (it % 50 == 0).then_some(64))
        })
        .collect();
    frames.extend((0..1000).map(|it| Synthetic {
        bytes: 20 + it % 7,
        ..Synthetic::audio(1, 20.0 * it as f64)
    }));
    frames.sort_by(|a, b| a.decode_ms.total_cmp(&b.decode_ms));
    frames
}

fn seconds(time: MediaTime) -> f64 {
    time.nanos() as f64 / 1e9
}

#[test]
fn a_span_begins_at_the_keyframe_before_and_has_the_frames_of_all_files() {
    let stream = Stream::synthetic(true, true, &footage());
    let files = files(&stream, 5);
    assert_eq!(files.len(), 4);
    let (span, whole) = span(&files, 3.5, 14.1, SpanCut::Keyframe);
    assert_eq!((span.wall_clock, span.gaps.len()), (at(2.0), 0));
    assert!(
        (span.duration.as_secs_f64() - 12.1).abs() < 0.05,
        "{span:?}"
    );
    let (tracks, frames) = demuxed(whole).expect("a plain file");
    assert_eq!(
        tracks.iter().map(|it| it.codec).collect::<Vec<_>>(),
        [Codec::Vp8, Codec::Opus]
    );
    // From 2 s up to 14.1 s.
    assert_eq!(frames[0].len(), 303);
    assert!(
        (604..=607).contains(&frames[1].len()),
        "{}",
        frames[1].len()
    );
    let video = stream
        .units
        .iter()
        .filter(|it| it.track.get() == 0)
        .skip(50);
    for (unit, frame) in video.zip(&frames[0]) {
        assert!(unit.coded_frame().expect("a frame").to_vec() == frame.data);
        assert_eq!(unit.keyframe, frame.keyframe);
        assert!((seconds(unit.time) - 2.0 - seconds(frame.time)).abs() < 0.000_02);
    }
    let audio = stream.units.iter().filter(|it| it.track.get() == 1);
    let audio = audio.skip_while(|it| seconds(it.time) < 1.999);
    for (unit, frame) in audio.zip(&frames[1]) {
        assert!(unit.coded_frame().expect("a frame").to_vec() == frame.data);
        assert!((seconds(unit.time) - 2.0 - seconds(frame.time)).abs() < 0.000_02);
    }
}

#[test]
fn an_exact_span_begins_and_ends_when_it_was_asked_for() {
    let stream = Stream::synthetic(true, true, &footage());
    let files = files(&stream, 5);
    let (span, whole) = span(&files, 3.5, 14.1, SpanCut::Exact);
    assert_eq!(span.wall_clock, at(3.5));
    assert!(
        (span.duration.as_secs_f64() - 10.6).abs() < 0.001,
        "{:?}",
        span.duration
    );
    let (_, frames) = demuxed(whole).expect("a plain file");
    // The demuxer follows the edit list: what is before the start is gone.
    assert!(
        (529..=532).contains(&frames[1].len()),
        "{}",
        frames[1].len()
    );
    assert_eq!(frames[0].len(), 265);
}

#[test]
fn a_span_of_nothing_is_refused_and_a_short_one_is_not() {
    let stream = Stream::synthetic(true, true, &footage());
    let files = files(&stream, 5);
    for (from, to) in [(21.0, 30.0), (-5.0, -1.0)] {
        let mut builder = SpanBuilder::new(
            Duration::from_secs_f64(1.8e9 + from)..Duration::from_secs_f64(1.8e9 + to),
            SpanCut::Exact,
        );
        for file in &files {
            builder
                .add(&RecordedFile::open(&file[..]).expect("good"))
                .expect("readable");
        }
        let error = builder.finish().expect_err("nothing is there");
        assert!(
            error.to_string().starts_with("nothing was recorded from"),
            "{error}"
        );
    }
    for cut in [SpanCut::Exact, SpanCut::Keyframe] {
        let (_, whole) = span(&files, 7.0, 7.01, cut);
        let (_, frames) = demuxed(whole).expect("plain");
        assert!(!frames[0].is_empty());
    }
    let (all, whole) = span(&files, 0.0, 100.0, SpanCut::Exact);
    assert!((all.duration.as_secs_f64() - 20.0).abs() < 0.001);
    let (_, frames) = demuxed(whole).expect("plain");
    assert_eq!((frames[0].len(), frames[1].len()), (500, 1000));
}

#[test]
fn long_gaps_are_left_out_and_told_and_another_size_is_another_entry() {
    let mut frames = footage();
    frames.retain(|it| !(6_000.0..18_000.0).contains(&it.decode_ms));
    for frame in frames
        .iter_mut()
        .filter(|it| it.track == 0 && it.decode_ms >= 18_000.0)
    {
        if frame.keyframe.is_some() {
            frame.keyframe = Some(96);
        }
    }
    let stream = Stream::synthetic(true, true, &frames);
    let files = files(&stream, 5);
    let (span, whole) = span(&files, 0.0, 20.0, SpanCut::Keyframe);
    let [gap] = &span.gaps[..] else {
        panic!("{:?}", span.gaps);
    };
    assert!((gap.end - gap.start).as_secs_f64() > 11.9, "{gap:?}");
    assert!(
        (span.duration.as_secs_f64() - 8.0).abs() < 0.1,
        "{:?}",
        span.duration
    );
    let (_, frames) = demuxed(whole).expect("plain");
    assert_eq!(frames[0].len(), 200);
    let last = frames[0].last().expect("frames");
    assert!((seconds(last.time) - 7.96).abs() < 0.1, "{:?}", last.time);
}

#[test]
fn files_of_two_runs_follow_each_other() {
    let one = files(&Stream::synthetic(true, true, &footage()), 100);
    // The second run begins a minute later, with times from zero on.
    let mut other = Stream::synthetic(true, true, &footage());
    let later = glassline_media::WallClock::new(other.zero, at(60.0));
    other.clock = later;
    let two = files(&other, 100);
    let both = [one, two].concat();
    let (span, whole) = span(&both, 10.0, 70.0, SpanCut::Keyframe);
    assert_eq!(span.gaps.len(), 1);
    assert!(
        (span.duration.as_secs_f64() - 20.0).abs() < 0.1,
        "{:?}",
        span.duration
    );
    let (_, frames) = demuxed(whole).expect("plain");
    assert_eq!(frames[0].len(), 500);
}

#[test]
fn another_codec_is_a_track_of_its_own() {
    let one = files(&Stream::synthetic(true, true, &footage()), 100);
    // The camera is set to another codec for some seconds, and back.
    let mut other = Stream::of_sample("h264-aac.mp4");
    other.clock = glassline_media::WallClock::new(other.zero, at(30.0));
    let mut again = Stream::synthetic(true, true, &footage());
    again.clock = glassline_media::WallClock::new(again.zero, at(60.0));
    let all = [one, files(&other, 100), files(&again, 100)].concat();
    let (_, whole) = span(&all, 0.0, 80.0, SpanCut::Keyframe);
    let movie = BoxView::find(&whole, b"moov").expect("a head").body;
    let entries = BoxView::all(movie).filter(|it| it.kind == *b"trak");
    let entries = entries.map(|it| {
        let list = BoxView::at_path(it.body, &[b"mdia", b"minf", b"stbl", b"stsd"]);
        let kinds = BoxView::all(&list.expect("a track").body[8..]);
        kinds.map(|it| it.kind).collect::<Vec<_>>()
    });
    let entries: Vec<_> = entries.collect();
    let named = |kind: &[u8; 4]| vec![*kind];
    let tracks = [b"vp08", b"Opus", b"avc1", b"mp4a"].map(named);
    assert_eq!(entries, tracks);
    let (_, frames) = demuxed(whole).expect("plain");
    assert_eq!((frames[0].len(), frames[1].len()), (1000, 2000));
}
