//! Files that are written fragment by fragment, and that every player seeks in once they are finished.
//!
//! ```text
//! while it is written   ftyp │ free  │ moov │ prft moof mdat │ prft moof mdat │ …
//! finished              ftyp │ mdat                                           │ moov │ uuid
//! ```
//!
//! The file is valid at every moment: a process that dies leaves all fragments that were written. At
//! the end a description of all samples is appended, together with an index of the fragments, and
//! sixteen bytes near the start are overwritten, so that the first description and the boxes of the
//! fragments become part of the media.

mod entry;
mod log;
mod tables;

use bytes::{BufMut as _, Bytes};

use crate::boxes::put_box;
use crate::fragment::{Fragment, FragmentTrack};
use crate::header::Header;
use crate::movie::{put_file_type, put_movie};
pub use entry::{FragmentEntry, put_index, read_index};
pub(crate) use entry::{INDEX_TAIL_BYTES, IndexTail};
use log::TrackLog;
use tables::movie_track;
pub(crate) use tables::{Instant, Tables};

/// Bytes of the box that becomes the head of the media.
pub(crate) const PLACEHOLDER_BYTES: u64 = 16;

/// A file under construction: which bytes stand where, and what its description will be.
///
/// The writer holds about five bytes for each sample, and 64 for each fragment. It writes nothing
/// itself.
#[derive(Debug)]
pub struct FileWriter {
    header: Header,
    head: Bytes,
    /// Offset of the box that becomes the head of the media.
    placeholder: u64,
    end: u64,
    logs: Vec<TrackLog>,
    entries: Vec<FragmentEntry>,
}

/// The last bytes of a file. The tail is appended before the patch is written, so that the file is
/// valid between both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEnd {
    /// Bytes to append to the file.
    pub tail: Bytes,
    /// Bytes to overwrite then.
    pub patch: Patch,
}

/// Bytes that take the place of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Bytes that stand there from then on.
    pub bytes: Bytes,
}

impl FileWriter {
    /// Begins a file whose first fragment is `first`, which is not yet added. The presentation begins
    /// with its first sample.
    pub fn new(header: &Header, first: &Fragment) -> Self {
        let starts = starts(header, first);
        let mut head = Vec::with_capacity(2048);
        put_file_type(&mut head, header.tracks().len());
        let placeholder = head.len() as u64;
        head.put_u32(PLACEHOLDER_BYTES as u32);
        head.put_slice(b"free\0\0\0\0\0\0\0\0");
        header.put_movie(&mut head, Some(&starts), first.wall_clock);
        Self::of_head(header, head.into(), placeholder)
    }

    /// Goes on with a file that begins with `head`, in which the box at `placeholder` becomes the head
    /// of the media.
    pub(crate) fn of_head(header: &Header, head: Bytes, placeholder: u64) -> Self {
        Self {
            header: header.clone(),
            placeholder,
            end: head.len() as u64,
            head,
            logs: vec![TrackLog::default(); header.tracks().len()],
            entries: Vec::new(),
        }
    }

    /// Puts a note of the caller's own into a `free` box in front of the header, where players pass it
    /// over and [`RecordedFile::note`](crate::RecordedFile::note) finds it. Must be called before the
    /// first fragment is added.
    #[must_use]
    pub fn with_note(self, note: &[u8]) -> Self {
        let place = usize::try_from(self.placeholder + PLACEHOLDER_BYTES).unwrap_or(0);
        let (before, behind) = self.head.split_at(place.min(self.head.len()));
        let mut head = Vec::with_capacity(self.head.len() + note.len() + 8);
        head.put_slice(before);
        put_box(&mut head, b"free", |out| out.put_slice(note));
        head.put_slice(behind);
        Self {
            end: head.len() as u64,
            head: head.into(),
            ..self
        }
    }

    /// Adds a fragment that stands in the file already, behind the ones before it. `tracks` are its
    /// tracks with the offset of the media of each.
    pub(crate) fn add_present<'a>(
        &mut self,
        entry: &FragmentEntry,
        tracks: impl Iterator<Item = (&'a FragmentTrack, u64)>,
    ) {
        for (track, offset) in tracks {
            if let Some(log) = self.logs.get_mut(track.position) {
                log.add(track, offset);
            }
        }
        self.entries.push(*entry);
        self.end = entry.end();
    }

    /// Returns the bytes that the file begins with.
    pub fn head(&self) -> Bytes {
        self.head.clone()
    }

    /// Adds a fragment of the header. Returns the offset at which its bytes stand in the file: at its
    /// end so far.
    pub fn add(&mut self, fragment: &Fragment) -> u64 {
        let offset = self.end;
        let mut media = offset + fragment.head_bytes();
        let tracks = fragment.tracks.iter().map(|track| {
            let start = media;
            media += track.media_bytes();
            (track, start)
        });
        self.add_present(&FragmentEntry::new(fragment, offset), tracks);
        offset
    }

    /// Returns the number of bytes of the file so far.
    pub fn byte_count(&self) -> u64 {
        self.end
    }

    /// Returns the fragments of the file so far.
    pub fn fragments(&self) -> &[FragmentEntry] {
        &self.entries
    }

    /// Returns the bytes of memory that the description of the samples takes.
    pub fn memory_bytes(&self) -> usize {
        let logs: usize = self.logs.iter().map(TrackLog::memory_bytes).sum();
        logs + self.entries.capacity() * size_of::<FragmentEntry>()
    }

    /// Ends the file.
    pub fn finish(self) -> FileEnd {
        let mut tail = Vec::new();
        let tracks = self.header.tracks();
        let start = self.logs.iter().zip(tracks).filter_map(|(log, track)| {
            let first = log.first_presentation()?;
            Some(Instant::new(first, track.timescale()))
        });
        let start = start.min();
        let movie: Vec<_> = self
            .logs
            .iter()
            .zip(tracks)
            .map(|(log, track)| (track, movie_track(log, track, start)))
            .collect();
        let created = self.entries.first().map(|entry| entry.wall_clock);
        put_movie(&mut tail, &movie, created.unwrap_or_default());
        put_index(&mut tail, &self.entries);
        let mut patch = Vec::with_capacity(PLACEHOLDER_BYTES as usize);
        patch.put_u32(1);
        patch.put_slice(b"mdat");
        patch.put_u64(self.end - self.placeholder);
        FileEnd {
            tail: tail.into(),
            patch: Patch {
                offset: self.placeholder,
                bytes: patch.into(),
            },
        }
    }
}

/// Returns for each track the tick at which the first sample of `first` is presented.
fn starts(header: &Header, first: &Fragment) -> Vec<u64> {
    let tracks = header.tracks();
    let times = first.tracks.iter().map(|it| {
        let rate = tracks[it.position].timescale();
        Instant::new(it.first_presentation(), rate)
    });
    let start = times.min();
    let ticks = |rate: u32| start.map_or(0, |start| start.ticks(rate));
    tracks
        .iter()
        .map(|track| ticks(track.timescale()))
        .collect()
}
