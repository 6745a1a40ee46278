//! The file that a recording writes at the moment.

use std::time::Duration;

use bytes::Bytes;
use glassline_cmaf::{FileWriter, Fragment, NewHeader};
use glassline_media::MediaTime;

use crate::file_header::FileHeader;
use crate::writer::Patch;

/// The file that a recording writes.
#[derive(Debug)]
pub(super) struct OpenFile {
    writer: FileWriter,
    /// Decode time of the file's first fragment, since the origin of the run.
    first: MediaTime,
    /// Wall-clock time of the file's beginning, since 1970.
    start: Duration,
    /// Time from the file's beginning to the end of its newest fragment.
    end: Duration,
}

/// The end of a file: bytes that are appended, and bytes that replace its beginning.
#[derive(Debug)]
pub(super) struct FileTail {
    pub(super) pieces: Vec<Bytes>,
    pub(super) patch: Option<Patch>,
}

impl OpenFile {
    /// Begins a file whose first fragment is `first`, which is not yet added. `says` is what the file
    /// says of itself.
    pub(super) fn begin(header: &NewHeader, says: &FileHeader, first: &Fragment) -> Self {
        Self {
            writer: FileWriter::new(&header.header, first).with_note(&says.to_note()),
            first: first.decode_time,
            start: first.wall_clock,
            end: Duration::ZERO,
        }
    }

    /// Returns the bytes that the file begins with.
    pub(super) fn head(&self) -> Bytes {
        self.writer.head()
    }

    /// Returns the time from the file's beginning to the end of `fragment`, and of all before it.
    pub(super) fn end_with(&self, fragment: &Fragment) -> Duration {
        let begins = fragment.decode_time.saturating_since(self.first);
        self.end.max(begins + fragment.duration)
    }

    /// Adds a fragment, which is written at the end of the file.
    pub(super) fn add(&mut self, fragment: &Fragment) {
        self.end = self.end_with(fragment);
        self.writer.add(fragment);
    }

    /// Ends the file.
    pub(super) fn finish(self) -> FileTail {
        let end = self.writer.finish();
        FileTail {
            pieces: vec![end.tail],
            patch: Some(Patch {
                offset: end.patch.offset,
                bytes: end.patch.bytes,
            }),
        }
    }

    /// Returns the wall-clock time of a place in the file, since 1970.
    pub(super) fn wall(&self, place: Duration) -> Duration {
        self.start + place
    }
}
