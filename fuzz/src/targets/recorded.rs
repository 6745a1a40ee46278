//! Recorded files of any bytes: their fragments lie within the file and can be read or are damaged, a
//! span of them has the bytes that it promises, and a file that goes on is read as it was written.

use std::time::Duration;

use glassline_cmaf::{RecordedFile, RecordedFragment, SpanBuilder, SpanCut};

pub(crate) fn run(bytes: &[u8]) {
    let Ok(file) = RecordedFile::open(bytes) else {
        return;
    };
    for track in file.header().tracks() {
        let _ = (track.codec_string(), track.channels(), track.size());
    }
    let mut end = 0;
    for entry in file.fragments() {
        assert!(entry.offset >= end && entry.end() <= bytes.len() as u64);
        end = entry.end();
        if let Ok(fragment) = file.fragment(entry) {
            check(&file, &fragment);
        }
    }
    for cut in [SpanCut::Exact, SpanCut::Keyframe] {
        span(&file, bytes.len() as u64, cut);
    }
    if let Ok(writer) = file.resume() {
        let mut whole = bytes[..writer.byte_count() as usize].to_vec();
        let end = writer.finish();
        whole.extend_from_slice(&end.tail);
        let at = end.patch.offset as usize;
        whole[at..at + end.patch.bytes.len()].copy_from_slice(&end.patch.bytes);
        let again = RecordedFile::open(&whole[..]).expect("a file that was finished");
        assert!(again.is_finished());
        assert_eq!(again.fragments(), file.fragments());
    }
}

fn check(file: &RecordedFile<&[u8]>, fragment: &RecordedFragment) {
    for track in &fragment.tracks {
        let mut decoded = track.track.decode_ticks;
        for sample in track.samples() {
            assert!(sample.decode_ticks >= decoded);
            decoded = sample.decode_ticks;
            let read = file.read(sample.offset, sample.sample.size as usize);
            assert!(read.is_ok(), "a sample lies in its fragment");
        }
    }
}

fn span(file: &RecordedFile<&[u8]>, bytes: u64, cut: SpanCut) {
    let begin = file.fragments().iter().map(|it| it.wall_clock).min();
    let begin = begin.unwrap_or_default() + Duration::from_millis(300);
    let mut builder = SpanBuilder::new(begin..begin + Duration::from_secs(2), cut);
    if builder.add(file).is_err() {
        return;
    }
    if let Ok(span) = builder.finish() {
        let mut slices = span.slices.iter();
        assert!(slices.all(|it| it.offset + it.bytes <= bytes));
    }
}
