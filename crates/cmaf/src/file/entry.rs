//! The index of fragments at the end of a finished file: one box of fixed entries, found by the last
//! bytes of the file, so that a file of hours is opened with two reads.
//!
//! The standard boxes do not serve: `mfra` has neither sizes nor wall-clock times, `sidx` must precede
//! what it lists.

use std::time::Duration;

use bytes::BufMut as _;
use glassline_media::MediaTime;

use crate::boxes::{BoxView, Fields, HEAD_BYTES, put_box};
use crate::fragment::Fragment;

/// Identifier of the box: players skip a `uuid` box that they do not know.
const IDENTIFIER: [u8; 16] = *b"glassline/index\0";

/// Version of the entries.
const VERSION: u32 = 1;

/// Bytes of an entry.
const ENTRY_BYTES: usize = 40;

/// Bytes at the end of the file by which the index is found.
pub(crate) const INDEX_TAIL_BYTES: usize = 8;

/// Name in the last bytes of the file.
const TAIL: [u8; 4] = *b"gidx";

/// Time before the end of one recorder's fragments at which those of another one may begin: each has clocks
/// of its own for the arrival of frames.
const OVERLAP: Duration = Duration::from_millis(100);

/// Flag of a fragment that a decoder can start with.
const SYNC: u32 = 1;

/// One fragment of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentEntry {
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Length in bytes, from the offset on.
    pub bytes: u32,
    /// Decode time of the first sample of the ruling track, since the origin of the run.
    pub decode_time: MediaTime,
    /// Sum of the durations of the samples of the ruling track.
    pub duration: Duration,
    /// Time from 1970-01-01 UTC at which the stream's own clock had the first sample due; zero if the
    /// file does not state it.
    pub wall_clock: Duration,
    /// Whether a decoder can start with this fragment.
    pub starts_with_sync: bool,
}

impl FragmentEntry {
    /// Returns the entry of a fragment that stands at `offset`.
    pub fn new(fragment: &Fragment, offset: u64) -> Self {
        Self {
            offset,
            bytes: u32::try_from(fragment.byte_count()).unwrap_or(u32::MAX),
            decode_time: fragment.decode_time,
            duration: fragment.duration,
            wall_clock: fragment.wall_clock,
            starts_with_sync: fragment.starts_with_sync,
        }
    }

    /// Returns the offset behind the fragment.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes.into())
    }

    /// Returns the position of the entry with which one recorder's `fragments` go on where those of another one
    /// of the same stream ended, at `end`: a decoder can start with it, and of those that begin at most a
    /// tenth of a second before the end it is the one closest to it. `time` says when a fragment begins.
    pub fn taking_over(
        fragments: &[Self],
        end: Duration,
        time: impl Fn(&Self) -> Duration,
    ) -> Option<usize> {
        let behind = fragments.partition_point(|it| time(it) < end);
        let is_sync = |it: &Self| it.starts_with_sync;
        let before = fragments[..behind].iter().rposition(is_sync);
        let before = before.filter(|at| time(&fragments[*at]) + OVERLAP >= end);
        let after = fragments[behind..].iter().position(is_sync);
        let after = after.map(|it| it + behind);
        let distance = |at: &usize| time(&fragments[*at]).abs_diff(end);
        before.into_iter().chain(after).min_by_key(distance)
    }

    /// Returns the wall-clock time at which the fragment ends.
    pub fn wall_clock_end(&self) -> Duration {
        self.wall_clock.saturating_add(self.duration)
    }
}

/// Appends the index of fragments, as the end of a finished file has it.
pub fn put_index(out: &mut Vec<u8>, entries: &[FragmentEntry]) {
    let nanos = |it: Duration| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX);
    put_box(out, b"uuid", |out| {
        out.put_slice(&IDENTIFIER);
        out.put_u32(VERSION);
        out.put_u32(entries.len() as u32);
        for entry in entries {
            out.put_u64(entry.offset);
            out.put_u32(entry.bytes);
            out.put_u32(if entry.starts_with_sync { SYNC } else { 0 });
            out.put_i64(entry.decode_time.nanos());
            out.put_u64(nanos(entry.duration));
            out.put_u64(nanos(entry.wall_clock));
        }
        let bytes =
            HEAD_BYTES + IDENTIFIER.len() + 8 + entries.len() * ENTRY_BYTES + INDEX_TAIL_BYTES;
        out.put_u32(bytes as u32);
        out.put_slice(&TAIL);
    });
}

/// The last bytes of a file that has an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexTail {
    /// Bytes of the index, which ends with the file.
    pub(crate) bytes: u32,
}

impl IndexTail {
    /// Parses the last [`INDEX_TAIL_BYTES`] of a file.
    pub(crate) fn parse(tail: [u8; INDEX_TAIL_BYTES]) -> Option<Self> {
        let [a, b, c, d, name @ ..] = tail;
        let bytes = u32::from_be_bytes([a, b, c, d]);
        (name == TAIL).then_some(Self { bytes })
    }
}

/// Parses the index; `None` if it is damaged. Entries are in order and do not overlap.
pub fn read_index(bytes: &[u8]) -> Option<Vec<FragmentEntry>> {
    let found = BoxView::first(bytes).filter(|it| it.kind == *b"uuid")?;
    let body = found.body.strip_prefix(&IDENTIFIER)?;
    let mut fields = Fields(body);
    if fields.u32()? != VERSION {
        return None;
    }
    let count = fields.u32()? as usize;
    let (entries, _) = fields.0.as_chunks::<ENTRY_BYTES>();
    let mut end = 0;
    let read = entries.get(..count)?.iter().map(|entry| {
        let mut fields = Fields(entry);
        let entry = FragmentEntry {
            offset: fields.u64()?,
            bytes: fields.u32()?,
            starts_with_sync: fields.u32()? & SYNC != 0,
            decode_time: MediaTime::from_nanos(fields.u64()?.cast_signed()),
            duration: Duration::from_nanos(fields.u64()?),
            wall_clock: Duration::from_nanos(fields.u64()?),
        };
        let is_behind = entry.offset >= end;
        end = entry.end();
        is_behind.then_some(entry)
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_recorder_takes_over_with_the_keyframe_closest_to_the_end() {
        let entry = |ms: u64| FragmentEntry {
            offset: ms,
            bytes: 1,
            decode_time: MediaTime::ZERO,
            duration: Duration::from_millis(100),
            wall_clock: Duration::from_millis(ms),
            starts_with_sync: ms.is_multiple_of(400),
        };
        let fragments: Vec<_> = (0..20).map(|it| entry(it * 100)).collect();
        let taken_over = |end_ms| {
            let end = Duration::from_millis(end_ms);
            let time = |it: &FragmentEntry| it.wall_clock;
            let found = FragmentEntry::taking_over(&fragments, end, time);
            found.map(|it| it * 100)
        };
        let cases = [
            (0, Some(0)),
            (410, Some(400)),
            (500, Some(400)),
            (501, Some(800)),
            (790, Some(800)),
            (1_690, Some(1_600)),
            (1_950, None),
        ];
        for (end_ms, expected) in cases {
            assert_eq!(taken_over(end_ms), expected, "{end_ms}");
        }
    }
}
