//! A file of H.264 or H.265 without a container, read one access unit at a time by an index.
//!
//! Such a file has no times. Its pictures are presented at a constant rate, which the parameter
//! sets may state, in the order of their picture order counts. Decoding is ahead of the
//! presentation by as much as reordering requires.

mod index;

use std::io::{self, SeekFrom};
use std::sync::Arc;

use bytes::Bytes;
use glassline_media::{Track, TrackIndex};

use crate::elementary::annexb;
use crate::elementary::grammar::Grammar;
use crate::error::{Fault, Reason, Warnings};
use crate::length::Length;
use crate::reader::{Reader, Unit};
use crate::{Data, FrameRate};

use index::{Entry, EntryPosition, Index, Indexer};

/// A reader of the access units of a file.
pub(crate) struct Video {
    data: Box<dyn Data>,
    index: Arc<Index>,
    tracks: [Track; 1],
    is_delimiter: fn(u8) -> bool,
    next: usize,
    /// Field periods before the next unit.
    halves: u64,
    /// Index behind the keyframe that the last seek led to.
    entered: usize,
    /// Whether no other keyframe was read since the seek.
    fresh: bool,
}

impl Video {
    /// Reads the file once and indexes its pictures.
    ///
    /// `given`: frame rate, which is used only if the bitstream states none.
    pub(crate) fn open<G: Grammar>(
        mut data: Box<dyn Data>,
        given: Option<FrameRate>,
        warnings: &mut Warnings,
    ) -> Result<Self, Fault> {
        let index = Indexer::<G>::new(given, warnings).run(&mut data)?;
        Ok(Self {
            data,
            tracks: [index.track.clone()],
            index: Arc::new(index),
            is_delimiter: G::is_delimiter,
            next: 0,
            halves: 0,
            entered: 1,
            fresh: true,
        })
    }

    fn read(&mut self, entry: &Entry) -> Result<Bytes, Fault> {
        let length = entry.length as usize;
        let failed = |error: io::Error| {
            Fault::at(
                entry.offset,
                match error.kind() {
                    io::ErrorKind::UnexpectedEof => Reason::Shrunk,
                    _ => Reason::Read(error),
                },
            )
        };
        self.data
            .seek(SeekFrom::Start(entry.offset))
            .map_err(failed)?;
        let mut unit = vec![0; length];
        self.data.read_exact(&mut unit).map_err(failed)?;
        if let Some(prefix) = usize::from(entry.prefix).checked_sub(1) {
            // An access unit delimiter, if there is one, must stay first (7.4.1.2.3).
            let at = self.delimiter_bytes(&unit);
            unit.splice(at..at, self.index.prefixes[prefix].iter().copied());
        }
        Ok(Bytes::from(unit))
    }

    /// Returns the length in bytes of an access unit delimiter at the start of a unit; 0
    /// without one.
    fn delimiter_bytes(&self, unit: &[u8]) -> usize {
        let code = if unit.starts_with(&[0, 0, 0, 1]) {
            4
        } else {
            3
        };
        let first = annexb::nals(unit).next();
        let delimiter = first.filter(|nal| (self.is_delimiter)(nal[0]));
        delimiter.map_or(0, |nal| code + nal.len())
    }

    /// Returns the next entry that can be decoded, and the field periods before it.
    fn next_entry(&mut self) -> Option<(Entry, u64)> {
        loop {
            let entry = self.index.entries.get(self.next).copied()?;
            let before = self.halves;
            self.next += 1;
            self.halves += entry.halves();
            if !(entry.needs_earlier && self.fresh) {
                return Some((entry, before));
            }
        }
    }
}

impl Reader for Video {
    fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    fn length(&self) -> Length {
        self.index.rate.length(self.index.halves)
    }

    fn frame_rate(&self) -> Option<FrameRate> {
        Some(self.index.rate)
    }

    fn next_unit(&mut self) -> Result<Option<Unit>, Fault> {
        let Some((entry, before)) = self.next_entry() else {
            return Ok(None);
        };
        self.fresh &= !entry.keyframe || self.entered == self.next;
        let data = self.read(&entry)?;
        let shown = before.saturating_add_signed(entry.later.into());
        let end_ns = self.index.nanos(shown + entry.halves());
        Ok(Some(Unit {
            track: TrackIndex(0),
            start_ns: self.index.nanos(shown),
            end_ns,
            busy_ns: end_ns,
            decode_ns: self.index.decode_nanos(before),
            keyframe: entry.keyframe,
            data,
        }))
    }

    fn seek(&mut self, to_ns: i64) -> Result<(), Fault> {
        let found = self.index.last_keyframe(|start_ns| start_ns <= to_ns);
        let start = EntryPosition {
            number: 0,
            halves: 0,
            shown: 0,
        };
        let found = found.filter(|_| to_ns > 0).unwrap_or(start);
        (self.next, self.halves) = (found.number, found.halves);
        self.entered = found.number + 1;
        self.fresh = true;
        Ok(())
    }

    fn keyframe_at_or_before(&self, at_ns: i64) -> Option<i64> {
        let found = self.index.last_keyframe(|start_ns| start_ns <= at_ns)?;
        Some(self.index.nanos(found.shown))
    }

    fn keyframe_after(&self, at_ns: i64) -> Option<i64> {
        let mut starts = self.index.keyframes();
        starts.find_map(|position| {
            let start_ns = self.index.nanos(position.shown);
            (start_ns > at_ns).then_some(start_ns)
        })
    }

    fn fork(&self) -> Box<dyn Reader> {
        Box::new(Self {
            data: self.data.fork(),
            index: Arc::clone(&self.index),
            tracks: self.tracks.clone(),
            is_delimiter: self.is_delimiter,
            next: 0,
            halves: 0,
            entered: 1,
            fresh: true,
        })
    }
}
