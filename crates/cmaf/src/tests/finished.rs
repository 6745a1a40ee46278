use std::time::Duration;

use glassline_media::{MediaTime, TrackIndex};

use super::{Run, Stream, demuxed, finish, recording};
use crate::boxes::BoxView;
use crate::{Fragmenter, RecordedFile, SpanBuilder, SpanCut};

#[test]
fn a_finished_file_is_plain_and_its_first_bytes_do_not_move() {
    let run = Run::of(Stream::of_sample("h264-aac.mp4").cut(recording()));
    let (growing, writer) = run.file();
    assert!(
        writer.memory_bytes() < 64 * 1024,
        "{}",
        writer.memory_bytes()
    );
    let mut file = growing.clone();
    finish(&mut file, writer);
    let differing = growing.iter().zip(&file).filter(|(a, b)| a != b).count();
    assert!(differing <= 16, "{differing} bytes changed");
    let head = BoxView::first(&file).expect("ftyp");
    let rest = &file[head.whole.len()..];
    assert_eq!(rest[..8], *b"\0\0\0\x01mdat");
    let size = u64::from_be_bytes(*rest[8..].first_chunk().expect("a size"));
    let behind = &rest[size as usize..];
    let kinds: Vec<_> = BoxView::all(behind).map(|it| it.kind).collect();
    assert_eq!(kinds, [*b"moov", *b"uuid"]);
    let movie = BoxView::first(behind).expect("moov");
    assert!(
        BoxView::find(movie.body, b"mvex").is_none(),
        "no fragments follow"
    );
}

#[test]
fn a_file_is_valid_between_its_end_and_the_patch() {
    let run = Run::of(Stream::of_sample("h264-aac.mp4").cut(recording()));
    let (mut file, writer) = run.file();
    let (_, before) = demuxed(file.clone()).expect("growing");
    file.extend_from_slice(&writer.finish().tail);
    let (_, after) = demuxed(file.clone()).expect("with both descriptions");
    assert_eq!(before, after);
    let read = RecordedFile::open(&file[..]).expect("readable");
    assert_eq!(read.fragments().len(), run.fragments.len());
}

#[test]
fn a_file_of_a_run_of_weeks_begins_at_zero_and_its_fragments_do_not() {
    let stream = Stream::of_sample("b-frames.h264");
    let weeks = Duration::from_secs(30 * 86_400);
    let tracks = TrackIndex::enumerate(stream.tracks.clone());
    let origin = stream.units[0].decode_time() - weeks;
    let made = Fragmenter::new(tracks, recording(), Some(origin));
    let mut fragmenter = made.expect("H.264");
    for unit in &stream.units {
        fragmenter.push(unit, &stream.clock).expect("good units");
    }
    fragmenter.flush();
    let run = Run::of(std::iter::from_fn(|| fragmenter.poll()).collect());
    let first = &run.fragments[0];
    assert_eq!(first.tracks[0].decode_ticks, 30 * 86_400 * 90_000);
    assert_eq!(first.decode_time.nanos(), weeks.as_nanos() as i64);
    for file in [run.file().0, run.finished_file()] {
        let (_, frames) = demuxed(file).expect("good");
        assert_eq!(frames[0].len(), stream.units.len());
        let earliest = frames[0].iter().map(|it| it.time).min();
        assert_eq!(earliest, Some(MediaTime::ZERO));
    }
    let mut span = SpanBuilder::new(Duration::ZERO..Duration::MAX, SpanCut::Keyframe);
    let file = run.file().0;
    span.add(&RecordedFile::open(&file[..]).expect("good"))
        .expect("readable");
    let span = span.finish().expect("media");
    assert!(
        (span.duration.as_secs_f64() - 2.0).abs() < 0.05,
        "{:?}",
        span.duration
    );
}
