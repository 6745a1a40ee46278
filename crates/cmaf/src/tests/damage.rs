//! Files that were cut, and damaged ones.

use std::time::Duration;

use proptest::prelude::*;

use super::{Run, Stream, demuxed, finish, recording};
use crate::boxes::BoxView;
use crate::{ReadError, RecordedFile, SpanBuilder, SpanCut};

/// Returns the offsets at which boxes of the file begin, those within boxes too.
fn boundaries(file: &[u8]) -> Vec<usize> {
    fn walk(bytes: &[u8], at: usize, out: &mut Vec<usize>) {
        let mut start = at;
        for found in BoxView::all(bytes) {
            out.push(start);
            let holds_boxes = matches!(
                &found.kind,
                b"moov" | b"trak" | b"mdia" | b"minf" | b"stbl" | b"moof" | b"traf"
            );
            if holds_boxes {
                walk(found.body, start + 8, out);
            }
            start += found.whole.len();
        }
        out.push(start);
    }
    let mut out = Vec::new();
    walk(file, 0, &mut out);
    out
}

/// Checks what both readers find in the first `end` bytes of a growing file. Returns the number of
/// whole fragments; the file is finished if there were others before.
fn check_cut(run: &Run, file: &[u8], end: usize, before: usize) -> usize {
    let cut = &file[..end];
    let read = match RecordedFile::open(cut) {
        Ok(read) => read,
        Err(ReadError::NoHeader { bytes }) => {
            assert_eq!(bytes, end as u64);
            assert!(demuxed(cut.to_vec()).is_err());
            return 0;
        }
        Err(error) => panic!("cut at {end}: {error}"),
    };
    let whole = read.fragments().len();
    let complete = read.complete_bytes() as usize;
    assert!(complete <= end);
    let lost = run.fragments.get(whole).map(crate::Fragment::byte_count);
    assert!(
        lost.is_none_or(|lost| complete + lost > end),
        "cut at {end}"
    );
    for (entry, fragment) in read.fragments().iter().zip(&run.fragments) {
        let found = read.fragment(entry).expect("a whole fragment");
        let tracks = found.tracks.iter().map(|it| &it.track);
        assert!(tracks.eq(&fragment.tracks), "cut at {end}");
    }
    if whole == 0 {
        return 0;
    }
    // Our demuxer has at least the samples of the whole fragments, and so has the file once it is
    // finished in the place of its writer.
    let counts = |position: usize| -> usize {
        let whole = run.fragments[..whole].iter();
        whole.map(|it| it.sample_count(position)).sum()
    };
    let (_, frames) = demuxed(cut.to_vec()).unwrap_or_else(|error| panic!("cut at {end}: {error}"));
    for (position, frames) in frames.iter().enumerate() {
        assert!(frames.len() >= counts(position), "cut at {end}");
    }
    if whole == before {
        return whole;
    }
    let writer = read.resume().expect("an unfinished file");
    let mut file = cut[..complete].to_vec();
    assert_eq!(writer.byte_count(), file.len() as u64);
    finish(&mut file, writer);
    let (_, frames) = demuxed(file.clone()).expect("a plain file");
    for (position, frames) in frames.iter().enumerate() {
        assert_eq!(frames.len(), counts(position), "cut at {end}");
    }
    let finished = RecordedFile::open(&file[..]).expect("finished");
    assert_eq!(finished.fragments(), read.fragments());
    whole
}

#[test]
fn a_file_that_is_cut_at_any_byte_has_all_whole_fragments() {
    let run = Run::of(Stream::of_sample("h264-aac.mp4").cut(recording()));
    let (file, _) = run.file();
    let mut ends: Vec<usize> = boundaries(&file);
    ends = ends
        .iter()
        .flat_map(|at| [at.saturating_sub(1), *at, at + 1])
        .collect();
    // A thousand other offsets by a fixed generator.
    let mut state = 1u64;
    ends.extend((0..1000).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % file.len()
    }));
    ends.sort_unstable();
    ends.dedup();
    let ends = ends.into_iter().filter(|end| *end <= file.len());
    let last = ends.fold(0, |before, end| check_cut(&run, &file, end, before));
    assert_eq!(last, run.fragments.len());
}

#[test]
fn a_finished_file_without_its_index_is_read_by_its_fragments() {
    let run = Run::of(Stream::of_sample("h264-aac.mp4").cut(recording()));
    let file = run.finished_file();
    let whole = RecordedFile::open(&file[..]).expect("finished");
    let mut broken = file.clone();
    let at = broken.len() - 1;
    broken[at] ^= 1;
    let scanned = RecordedFile::open(&broken[..]).expect("finished");
    assert_eq!(scanned.fragments(), whole.fragments());
    assert!(scanned.resume().is_err() && whole.resume().is_err());
    // An index that lies is found out when the fragment is read.
    let tail = u32::from_be_bytes(*file[at - 7..].first_chunk().expect("a length")) as usize;
    let mut lying = file.clone();
    let first_entry = file.len() - tail + 32;
    lying[first_entry + 7] ^= 4;
    if let Ok(read) = RecordedFile::open(&lying[..]) {
        let results = read.fragments().iter().map(|it| read.fragment(it));
        assert!(results.filter(Result::is_err).count() <= 2);
    }
}

/// A copy that stopped, or a file system that was checked, leaves such files.
#[test]
fn a_finished_file_whose_end_was_cut_off_is_finished_again() {
    let run = Run::of(Stream::of_sample("h264-aac.mp4").cut(recording()));
    let file = run.finished_file();
    let whole = RecordedFile::open(&file[..]).expect("finished");
    let media = whole.complete_bytes() as usize;
    let index = u32::from_be_bytes(*file[file.len() - 8..].first_chunk().expect("a length"));
    let movie = file.len() - index as usize;
    for end in [media - 1, media, media + 4, media + 100, movie - 1, movie] {
        let cut = &file[..end];
        let read = RecordedFile::open(cut).expect("its head is there");
        let count = whole.fragments().len() - usize::from(end < media);
        assert_eq!(read.fragments(), &whole.fragments()[..count]);
        let has_movie = end == movie;
        assert_eq!(read.is_finished(), has_movie, "cut at {end}");
        let Ok(writer) = read.resume() else {
            assert!(has_movie, "cut at {end}");
            continue;
        };
        let mut again = cut[..read.complete_bytes() as usize].to_vec();
        finish(&mut again, writer);
        assert!(end < media || again == file, "cut at {end}");
        demuxed(again).expect("a plain file");
    }
}

#[test]
fn a_growing_file_shows_what_was_written_since() {
    let run = Run::of(Stream::of_sample("h264-aac.mp4").cut(recording()));
    let (file, writer) = run.file();
    let growing = std::cell::RefCell::new(file[..writer.fragments()[2].offset as usize].to_vec());
    let source = Growing(&growing);
    let mut read = RecordedFile::open(source).expect("two fragments");
    assert_eq!(read.fragments().len(), 2);
    assert_eq!(read.refresh().expect("readable"), 0);
    let next = writer.fragments()[3].offset as usize;
    *growing.borrow_mut() = file[..next + 40].to_vec();
    assert_eq!(read.refresh().expect("readable"), 1);
    assert_eq!(read.fragments(), &writer.fragments()[..3]);
}

/// A file that another task writes.
struct Growing<'a>(&'a std::cell::RefCell<Vec<u8>>);

impl crate::ReadAt for Growing<'_> {
    fn byte_count(&self) -> std::io::Result<u64> {
        Ok(self.0.borrow().len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.borrow().read_at(offset, buffer)
    }
}

#[test]
fn files_of_other_programs_are_refused_with_the_byte() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../demux/samples/");
    for (name, at) in [
        ("h264-aac.mp4", "at byte"),
        ("vp8-vorbis.webm", "at byte 0"),
    ] {
        let file = std::fs::read(format!("{folder}{name}")).expect("a sample");
        let error = RecordedFile::open(&file[..]).err().map(|it| it.to_string());
        assert!(
            error.as_ref().is_some_and(|it| it.contains(at)),
            "{name}: {error:?}"
        );
    }
    let empty = RecordedFile::open(&[][..]).err().map(|it| it.to_string());
    assert_eq!(
        empty.as_deref(),
        Some("the file ends at byte 0, before its header does: it has no fragment")
    );
}

proptest! {
    #[test]
    fn bytes_that_were_changed_are_read_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        is_finished in any::<bool>(),
        near_boxes in any::<bool>(),
    ) {
        let run = Run::of(Stream::of_sample("h264-aac.mp4").cut(recording()));
        let mut file = if is_finished { run.finished_file() } else { run.file().0 };
        let boxes = boundaries(&file);
        for (at, value) in changes {
            let place = match near_boxes {
                true => (at.get(&boxes) + usize::from(value) % 48).min(file.len() - 1),
                false => at.index(file.len()),
            };
            file[place] = value;
        }
        if let Ok(read) = RecordedFile::open(&file[..]) {
            for entry in read.fragments() {
                prop_assert!(entry.end() <= file.len() as u64);
                let _ = read.fragment(entry);
            }
            for cut in [SpanCut::Exact, SpanCut::Keyframe] {
                let mut span = SpanBuilder::new(Duration::ZERO..Duration::MAX, cut);
                if span.add(&read).is_ok() {
                    let _ = span.finish();
                }
            }
            let _ = read.resume().map(crate::FileWriter::finish);
        }
    }
}
