use super::{Run, Stream, demuxed, finish, recording};
use crate::boxes::BoxView;

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
    let read = crate::RecordedFile::open(&file[..]).expect("readable");
    assert_eq!(read.fragments().len(), run.fragments.len());
}
