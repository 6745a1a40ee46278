//! Bodies that are put together of parts of files, without a copy in memory.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use glassline_cmaf::ReadAt;
use glassline_recording::{HeldFile, OpenRecording};

use super::distant_file::{DistantFile, OpenDistantFile};
use super::pools::Origin;

/// A recorded file. It is open only while it is read, so that a body of a thousand files takes one descriptor.
#[derive(Clone, Debug)]
pub(crate) struct Footage(Arc<Location>);

/// The place of a file.
#[derive(Debug)]
enum Location {
    /// A file of this server, which is not deleted while somebody reads it.
    Here(HeldFile),
    /// A file of another server.
    There(Arc<DistantFile>),
}

impl Footage {
    pub(super) fn here(held: HeldFile) -> Self {
        Self(Arc::new(Location::Here(held)))
    }

    pub(super) fn there(distant: DistantFile) -> Self {
        Self(Arc::new(Location::There(Arc::new(distant))))
    }

    /// Opens the file.
    pub(super) fn open(&self) -> io::Result<OpenFootage> {
        let source = match &*self.0 {
            Location::Here(held) => {
                let open = held.open();
                OpenSource::Here(open.map_err(|error| self.named(&error))?)
            }
            Location::There(distant) => {
                OpenSource::There(OpenDistantFile::new(Arc::clone(distant)))
            }
        };
        Ok(OpenFootage {
            footage: self.clone(),
            source,
        })
    }

    /// Notes that a file of another server has grown to so many bytes.
    pub(super) fn note_size(&self, bytes: u64) {
        if let Location::There(distant) = &*self.0 {
            distant.note_size(bytes);
        }
    }

    /// Returns where the bytes come from.
    pub(super) fn origin(&self) -> Origin<'_> {
        match &*self.0 {
            Location::Here(held) if held.is_copy() => Origin::Storage,
            Location::Here(held) => Origin::Disk(held.path()),
            Location::There(distant) => Origin::Server(&distant.server.name),
        }
    }

    fn path(&self) -> &Path {
        match &*self.0 {
            Location::Here(held) => held.path(),
            Location::There(distant) => &distant.path,
        }
    }

    fn named(&self, error: &io::Error) -> io::Error {
        let path = self.path().display();
        io::Error::new(error.kind(), format!("{path}: {error}"))
    }
}

/// A recorded file that is open.
#[derive(Debug)]
pub(crate) struct OpenFootage {
    footage: Footage,
    source: OpenSource,
}

/// The source of a file's bytes.
#[derive(Debug)]
enum OpenSource {
    Here(OpenRecording),
    There(OpenDistantFile),
}

impl OpenFootage {
    /// Returns the file that is open.
    pub(super) const fn footage(&self) -> &Footage {
        &self.footage
    }

    /// Fills `buffer` with what stands at `offset`.
    fn read(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let count = match self.read_at(offset, buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(|error| self.footage.named(&error))?,
            };
            if count == 0 {
                return Err(self.footage.named(&io::ErrorKind::UnexpectedEof.into()));
            }
            offset += count as u64;
            buffer = &mut buffer[count..];
        }
        Ok(())
    }
}

impl ReadAt for OpenFootage {
    fn byte_count(&self) -> io::Result<u64> {
        match &self.source {
            OpenSource::Here(recording) => recording.byte_count(),
            OpenSource::There(distant) => distant.byte_count(),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.source {
            OpenSource::Here(recording) => recording.read_at(offset, buffer),
            OpenSource::There(distant) => distant.read_at(offset, buffer),
        }
    }
}

/// The file that was read last, which the next piece is of most often.
#[derive(Default)]
struct LastOpened(Option<OpenFootage>);

impl LastOpened {
    fn of(&mut self, footage: &Footage) -> io::Result<&OpenFootage> {
        let is_other = |it: &OpenFootage| !Arc::ptr_eq(&it.footage.0, &footage.0);
        if self.0.as_ref().is_none_or(is_other) {
            self.0 = Some(footage.open()?);
        }
        Ok(self.0.as_ref().expect("it was just opened"))
    }
}

/// A part of a body.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A part of a file, as it is.
    Slice {
        /// The file that has the bytes.
        of: Footage,
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes, from the offset on.
        bytes: u64,
    },
    /// A fragment whose times are changed.
    Fragment {
        /// The file that has the bytes.
        of: Footage,
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes, from the offset on.
        bytes: u32,
        /// Change of the times.
        shift: Shift,
    },
}

/// How far a fragment moves in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    /// Ticks of a second of each track, by its number from 1.
    pub(super) timescales: Arc<[u32]>,
    /// Nanoseconds that are added to decode times; negative ones move back.
    pub(super) nanos: i128,
}

/// A body of a known length, of which any part can be read.
#[derive(Clone, Debug, Default)]
pub struct Assembly {
    /// Pieces, each with the offset of its end.
    pieces: Vec<(u64, Piece)>,
}

impl Piece {
    const fn file(&self) -> Option<&Footage> {
        match self {
            Self::Bytes(_) => None,
            Self::Slice { of, .. } | Self::Fragment { of, .. } => Some(of),
        }
    }

    const fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Slice { bytes, .. } => *bytes,
            Self::Fragment { bytes, .. } => *bytes as u64,
        }
    }

    /// Appends the bytes of `range` within the piece.
    fn read(&self, range: Range<u64>, open: &mut LastOpened, out: &mut Vec<u8>) -> io::Result<()> {
        let length = (range.end - range.start) as usize;
        match self {
            Self::Bytes(bytes) => {
                out.extend_from_slice(&bytes[range.start as usize..range.end as usize]);
            }
            Self::Slice { of, offset, .. } => {
                let start = out.len();
                out.resize(start + length, 0);
                open.of(of)?.read(offset + range.start, &mut out[start..])?;
            }
            Self::Fragment {
                of,
                offset,
                bytes,
                shift,
            } => {
                let of = open.of(of)?;
                let mut head = vec![0; head_bytes(of, *offset, *bytes)?];
                of.read(*offset, &mut head)?;
                shift.apply(&mut head);
                let of_head =
                    (range.start as usize).min(head.len())..(range.end as usize).min(head.len());
                out.extend_from_slice(&head[of_head.clone()]);
                let start = out.len();
                out.resize(start + length - of_head.len(), 0);
                let media = offset + range.start + of_head.len() as u64;
                of.read(media, &mut out[start..])?;
            }
        }
        Ok(())
    }
}

/// Returns the number of bytes of a fragment before its media.
fn head_bytes(of: &OpenFootage, offset: u64, bytes: u32) -> io::Result<usize> {
    let (mut at, mut head) = (0, [0; 8]);
    while at + 8 <= bytes {
        of.read(offset + u64::from(at), &mut head)?;
        let size = be32(&head, 0).unwrap_or(0);
        if &head[4..] == b"mdat" || size < 8 {
            break;
        }
        at = at.saturating_add(size);
    }
    Ok(at.min(bytes) as usize)
}

impl Assembly {
    /// Returns the bytes of memory that the assembly takes.
    pub(super) fn memory(&self) -> usize {
        let bytes = self.pieces.iter().map(|(_, piece)| match piece {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Slice { .. } | Piece::Fragment { .. } => 0,
        });
        bytes.sum::<usize>() + self.pieces.len() * size_of::<(u64, Piece)>()
    }

    /// Appends a piece.
    pub(super) fn push(&mut self, piece: Piece) {
        let end = self.length() + piece.length();
        self.pieces.push((end, piece));
    }

    /// Returns where the bytes at `offset` come from.
    pub(super) fn origin_at(&self, offset: u64) -> Origin<'_> {
        let first = self.pieces.partition_point(|(end, _)| *end <= offset);
        let mut files = self.pieces[first..].iter().filter_map(|(_, it)| it.file());
        files
            .next()
            .map_or(Origin::Disk(Path::new("")), Footage::origin)
    }

    /// Returns the number of bytes.
    pub fn length(&self) -> u64 {
        self.pieces.last().map_or(0, |(end, _)| *end)
    }

    /// Returns the bytes from `range.start` on, `most` at most and none beyond `range.end`. Blocks.
    ///
    /// # Errors
    /// Returns the system's error, with the file in its text.
    pub(crate) fn read(&self, range: &Range<u64>, most: u64) -> io::Result<Vec<u8>> {
        let end = range.end.min(range.start.saturating_add(most));
        let mut out = Vec::with_capacity(end.saturating_sub(range.start) as usize);
        let first = self.pieces.partition_point(|(it, _)| *it <= range.start);
        let mut open = LastOpened::default();
        for (piece_end, piece) in &self.pieces[first..] {
            let at = range.start + out.len() as u64;
            if at >= end {
                break;
            }
            let start = piece_end - piece.length();
            piece.read(
                at - start..(*piece_end).min(end) - start,
                &mut open,
                &mut out,
            )?;
        }
        Ok(out)
    }

    /// Returns a text that differs for bodies that differ.
    pub fn identity(&self) -> String {
        let mut hash = Fnv::default();
        for (end, piece) in &self.pieces {
            hash.add(&end.to_be_bytes());
            match piece {
                Piece::Bytes(bytes) => hash.add(bytes),
                Piece::Slice { of, offset, .. } => {
                    hash.add(of.path().as_os_str().as_encoded_bytes());
                    hash.add(&offset.to_be_bytes());
                }
                Piece::Fragment {
                    of, offset, shift, ..
                } => {
                    hash.add(of.path().as_os_str().as_encoded_bytes());
                    hash.add(&offset.to_be_bytes());
                    hash.add(&shift.nanos.to_be_bytes());
                }
            }
        }
        format!("\"{:016x}\"", hash.0)
    }
}

/// FNV-1a of 64 bits, as of thumbnails: nobody gains by a collision but a stale part of a stream of his own.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    }
}

impl Shift {
    /// Moves the decode times in the boxes of a fragment (ISO/IEC 14496-12 §8.8.12, §8.16.5).
    fn apply(&self, head: &mut [u8]) {
        let mut number = 0;
        for_each_box(head, 0, &mut |kind, body| match kind {
            b"moof" | b"traf" => Inside::Yes,
            b"tfhd" => {
                number = be32(body, 4).unwrap_or(0);
                Inside::No
            }
            b"tfdt" => {
                self.move_time(number, body, 4);
                Inside::No
            }
            b"prft" => {
                // The number of the track is followed by the time of the calendar.
                let number = be32(body, 4).unwrap_or(0);
                self.move_time(number, body, 16);
                Inside::No
            }
            _ => Inside::No,
        });
    }

    /// Moves the time at `at` of a full box: 64 bits in version 1, 32 bits in version 0.
    fn move_time(&self, number: u32, body: &mut [u8], at: usize) {
        let place = number.checked_sub(1).map(|it| it as usize);
        let timescale = place.and_then(|it| self.timescales.get(it)).copied();
        let ticks = self.nanos * i128::from(timescale.unwrap_or(0)) / 1_000_000_000;
        let moved = |time: u64| u64::try_from(i128::from(time) + ticks).unwrap_or(0);
        if body.first() == Some(&0) {
            if let Some(field) = body.get_mut(at..at + 4) {
                let time = u32::from_be_bytes(field.try_into().expect("four bytes"));
                field.copy_from_slice(&(moved(time.into()) as u32).to_be_bytes());
            }
        } else if let Some(field) = body.get_mut(at..at + 8) {
            let time = u64::from_be_bytes(field.try_into().expect("eight bytes"));
            field.copy_from_slice(&moved(time).to_be_bytes());
        }
    }
}

/// Whether the boxes within a box are visited, too.
enum Inside {
    Yes,
    No,
}

/// Calls `visit` with the type and the body of each box. A box that is damaged or goes beyond the end, as
/// the media do, ends the walk.
fn for_each_box(
    bytes: &mut [u8],
    depth: u8,
    visit: &mut impl FnMut(&[u8; 4], &mut [u8]) -> Inside,
) {
    const DEPTH_MAX: u8 = 8;
    let mut rest = bytes;
    while rest.len() >= 8 && depth < DEPTH_MAX {
        let size = be32(rest, 0).unwrap_or(0) as usize;
        let kind: [u8; 4] = rest[4..8].try_into().expect("four bytes");
        if size < 8 || size > rest.len() {
            return;
        }
        let (this, behind) = rest.split_at_mut(size);
        let body = &mut this[8..];
        if matches!(visit(&kind, body), Inside::Yes) {
            for_each_box(body, depth + 1, visit);
        }
        rest = behind;
    }
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(field.try_into().expect("four bytes")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let size = (body.len() + 8) as u32;
        [&size.to_be_bytes()[..], kind, body].concat()
    }

    fn traf(number: u32, time: u64) -> Vec<u8> {
        let tfhd = boxed(b"tfhd", &[&[0; 4][..], &number.to_be_bytes()].concat());
        let tfdt = boxed(b"tfdt", &[&[1, 0, 0, 0][..], &time.to_be_bytes()].concat());
        boxed(b"traf", &[tfhd, tfdt].concat())
    }

    fn moof(video: u64, audio: u64) -> Vec<u8> {
        boxed(b"moof", &[traf(1, video), traf(2, audio)].concat())
    }

    #[test]
    fn each_track_moves_by_its_own_ticks() {
        let shift = Shift {
            timescales: [90_000, 48_000].into(),
            nanos: -2_500_000_000,
        };
        let mut head = moof(900_000, 480_000);
        shift.apply(&mut head);
        assert_eq!(head, moof(900_000 - 225_000, 480_000 - 120_000));
        let mut early = moof(900_000, 0);
        shift.apply(&mut early);
        assert_eq!(early, moof(900_000 - 225_000, 0), "no time is negative");
    }

    #[test]
    fn any_part_of_a_body_is_that_of_the_whole() {
        let mut assembly = Assembly::default();
        for text in ["abc", "", "d", "efghij"] {
            assembly.push(Piece::Bytes(Bytes::from_static(text.as_bytes())));
        }
        assert_eq!(assembly.length(), 10);
        let whole = assembly.read(&(0..10), 100).expect("in memory");
        assert_eq!(whole, b"abcdefghij");
        for start in 0..=10_u64 {
            for end in start..=10 {
                for most in [1, 3, 100] {
                    let read = assembly.read(&(start..end), most).expect("in memory");
                    let expected = end.min(start + most);
                    assert_eq!(read, whole[start as usize..expected as usize]);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn damaged_boxes_do_no_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..80), nanos in any::<i64>()) {
            let shift = Shift { timescales: [90_000].into(), nanos: nanos.into() };
            let length = bytes.len();
            shift.apply(&mut bytes);
            let mut head = boxed(b"moof", &boxed(b"traf", &bytes));
            shift.apply(&mut head);
            prop_assert_eq!(bytes.len(), length);
        }
    }
}
