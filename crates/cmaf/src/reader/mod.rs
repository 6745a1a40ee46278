//! Files that [`FileWriter`](crate::FileWriter) wrote, read again: finished ones, and those whose
//! writer died at any byte.
//!
//! A finished file has an index at its end, so that it is opened with a few reads. The fragments of
//! another one are found by their heads, one read each; the last one is left out if it is cut.

mod description;
mod error;
mod frames;
mod moof;
mod source;
mod window;

use std::time::Duration;

use glassline_media::{Kind, MediaTime};

use crate::file::{
    FileWriter, FragmentEntry, INDEX_TAIL_BYTES, IndexTail, PLACEHOLDER_BYTES, read_index,
};
use crate::fragment::{FragmentTrack, Sample};
use crate::header::Header;
pub use error::ReadError;
pub use frames::FrameReader;
use moof::PlacedTrack;
pub use source::ReadAt;
use window::{BoxHead, Window, read_exact};

/// Most fragments of a file: twelve days of one a second.
const FRAGMENTS_MAX: usize = 1 << 20;

/// Most boxes before the header of a file, and before each fragment.
const BOXES_MAX: usize = 16;

/// A file of fragments.
#[derive(Debug)]
pub struct RecordedFile<S> {
    source: S,
    header: Header,
    fragments: Vec<FragmentEntry>,
    is_finished: bool,
    complete_bytes: u64,
    note: Option<Vec<u8>>,
    /// Offset behind the header.
    head_bytes: u64,
    /// Offset of the box that becomes the head of the media; `None` in a file that has none.
    placeholder: Option<u64>,
}

/// The samples of one fragment, and where they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedFragment {
    /// Place of the fragment in the file and in time.
    pub entry: FragmentEntry,
    /// The tracks that have samples in the fragment.
    pub tracks: Vec<RecordedTrack>,
}

/// The samples of one track of a fragment: they stand back to back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedTrack {
    /// The samples, and their times.
    pub track: FragmentTrack,
    /// Offset of the first sample in the file.
    pub offset: u64,
}

/// A sample of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedSample {
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Decode time in ticks of the track, since the origin of the run.
    pub decode_ticks: u64,
    /// Size, duration and kind.
    pub sample: Sample,
}

impl<S: ReadAt> RecordedFile<S> {
    /// Opens a file and lists its fragments.
    ///
    /// # Errors
    /// [`ReadError`] if the bytes cannot be read, if the file ends before its header, or if it is of
    /// another kind. A file that is cut or damaged behind its header is opened with the fragments
    /// before the cut.
    pub fn open(source: S) -> Result<Self, ReadError> {
        let (mut file, limit, bytes) = Self::of_head(source)?;
        match file.read_index(file.head_bytes, limit, bytes)? {
            Some(fragments) => file.fragments = fragments,
            None => {
                file.is_finished = file.is_finished && file.has_end(limit, bytes)?;
                file.scan(file.head_bytes, limit)?;
            }
        }
        if let Some(last) = file.fragments.last() {
            file.complete_bytes = last.end();
        }
        Ok(file)
    }

    /// Opens a file whose first fragments are known already: its header alone is read. What was written
    /// since is found by [`Self::refresh`].
    ///
    /// # Errors
    /// [`ReadError`] if the header cannot be read, or if the file is of another kind.
    pub fn open_with(source: S, fragments: Vec<FragmentEntry>) -> Result<Self, ReadError> {
        let (mut file, ..) = Self::of_head(source)?;
        file.complete_bytes = fragments.last().map_or(file.head_bytes, FragmentEntry::end);
        file.fragments = fragments;
        Ok(file)
    }

    /// Returns the header that the fragments follow.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the whole fragments of the file, in order.
    pub fn fragments(&self) -> &[FragmentEntry] {
        &self.fragments
    }

    /// Returns the note that the writer has put into the file; `None` if there is none.
    pub fn note(&self) -> Option<&[u8]> {
        self.note.as_deref()
    }

    /// Returns whether the writer has finished the file. Another one grows, its writer died, or its end was
    /// cut off later.
    pub fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Returns the offset behind the last whole fragment. What follows in an unfinished file is of no
    /// use.
    pub fn complete_bytes(&self) -> u64 {
        self.complete_bytes
    }

    /// Returns the bytes that the file is read from.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Looks for fragments that were written since the file was opened. Returns their number.
    ///
    /// # Errors
    /// [`ReadError::Io`] if the bytes cannot be read.
    pub fn refresh(&mut self) -> Result<usize, ReadError> {
        if self.is_finished {
            return Ok(0);
        }
        let before = self.fragments.len();
        let limit = byte_count(&self.source)?;
        self.scan(self.complete_bytes, limit)?;
        if let Some(last) = self.fragments.last() {
            self.complete_bytes = last.end();
        }
        Ok(self.fragments.len() - before)
    }

    /// Returns a writer that goes on with a file whose writer died: it may add fragments of the
    /// header, and finish the file. The caller cuts the file to the writer's
    /// [`byte_count`](FileWriter::byte_count) first.
    ///
    /// # Errors
    /// [`ReadError`] if a fragment cannot be read, and if the file is finished already.
    pub fn resume(&self) -> Result<FileWriter, ReadError> {
        let placeholder = self.placeholder.filter(|_| !self.is_finished);
        let placeholder = placeholder.ok_or(ReadError::Damaged {
            offset: 0,
            reason: "the file is finished, or its writer did not mean it to be finished",
        })?;
        let head = self.read(0, usize::try_from(self.head_bytes).unwrap_or(0))?;
        let mut writer = FileWriter::of_head(&self.header, head.into(), placeholder);
        for entry in &self.fragments {
            let fragment = self.fragment(entry)?;
            let tracks = fragment.tracks.iter().map(|it| (&it.track, it.offset));
            writer.add_present(&fragment.entry, tracks);
        }
        Ok(writer)
    }

    /// Reads the description of a fragment of the file.
    ///
    /// # Errors
    /// [`ReadError`] if it cannot be read, or is damaged.
    pub fn fragment(&self, entry: &FragmentEntry) -> Result<RecordedFragment, ReadError> {
        let damaged = ReadError::Damaged {
            offset: entry.offset,
            reason: "a fragment is not where the index says",
        };
        match self.read_fragment(entry.offset, entry.end())? {
            Some(found) if found.entry.bytes == entry.bytes => Ok(found),
            _ => Err(damaged),
        }
    }

    /// Reads `bytes` bytes at `offset`.
    ///
    /// # Errors
    /// [`ReadError::Io`] if they cannot be read, or the file ends before.
    pub fn read(&self, offset: u64, bytes: usize) -> Result<Vec<u8>, ReadError> {
        let mut buffer = vec![0; bytes];
        read_exact(&self.source, offset, &mut buffer)?;
        Ok(buffer)
    }

    /// Reads the header of a file. Returns the file without its fragments, with the offset behind them and
    /// the size of the file.
    fn of_head(source: S) -> Result<(Self, u64, u64), ReadError> {
        let bytes = byte_count(&source)?;
        let head = FileHead::read(&source, bytes)?;
        let file = Self {
            source,
            header: head.header,
            fragments: Vec::new(),
            is_finished: head.is_finished,
            complete_bytes: head.end,
            note: head.note,
            head_bytes: head.end,
            placeholder: head.placeholder,
        };
        Ok((file, head.limit.min(bytes), bytes))
    }

    /// Returns the bytes of a finished file's index; `None` if there is none that fits the file.
    fn read_index(
        &self,
        start: u64,
        limit: u64,
        file_bytes: u64,
    ) -> Result<Option<Vec<FragmentEntry>>, ReadError> {
        let mut tail = [0; INDEX_TAIL_BYTES];
        let Some(at) = file_bytes
            .checked_sub(tail.len() as u64)
            .filter(|at| *at >= limit)
        else {
            return Ok(None);
        };
        if !self.is_finished {
            return Ok(None);
        }
        read_exact(&self.source, at, &mut tail)?;
        let bytes = IndexTail::parse(tail).map(|tail| u64::from(tail.bytes));
        let bytes = bytes.filter(|bytes| *bytes <= window::DESCRIPTION_BYTES_MAX);
        let Some((at, bytes)) = bytes.and_then(|it| Some((file_bytes.checked_sub(it)?, it))) else {
            return Ok(None);
        };
        let index = read_index(&self.read(at, usize::try_from(bytes).unwrap_or(0))?);
        let is_within = |it: &FragmentEntry| it.offset >= start && it.end() <= limit;
        Ok(index.filter(|index| index.iter().all(is_within)))
    }

    /// Returns whether the description of all samples stands whole behind the media, which end at `limit`.
    fn has_end(&self, limit: u64, file_bytes: u64) -> Result<bool, ReadError> {
        let movie = Window::new(&self.source, file_bytes).any_head(limit)?;
        Ok(movie.is_some_and(|it| &it.kind == b"moov" && it.end <= file_bytes))
    }

    /// Lists the fragments from `at` on, up to the first one that is not whole.
    fn scan(&mut self, mut at: u64, limit: u64) -> Result<(), ReadError> {
        while self.fragments.len() < FRAGMENTS_MAX
            && let Some(found) = self.read_fragment(at, limit)?
        {
            at = found.entry.end();
            self.fragments.push(found.entry);
        }
        Ok(())
    }

    /// Reads the description of the fragment that begins at `start`; `None` if there is no whole
    /// fragment up to `limit`.
    fn read_fragment(&self, start: u64, limit: u64) -> Result<Option<RecordedFragment>, ReadError> {
        let mut window = Window::new(&self.source, limit);
        let mut at = start;
        let mut wall_clock = Duration::ZERO;
        let mut tracks: Option<(u64, Vec<PlacedTrack>)> = None;
        for _ in 0..BOXES_MAX {
            let Some(head) = window.head(at)? else {
                return Ok(None);
            };
            match &head.kind {
                b"mdat" => {
                    let Some((place, tracks)) = tracks else {
                        return Ok(None);
                    };
                    return Ok(self.recorded(start, place, head, wall_clock, tracks));
                }
                b"moof" if tracks.is_none() => {
                    let Some(body) = window.load(&head)? else {
                        return Ok(None);
                    };
                    let Some(found) = moof::tracks(body, &self.header) else {
                        return Ok(None);
                    };
                    tracks = Some((at, found));
                }
                b"prft" => {
                    let body = window.load(&head)?;
                    wall_clock = body.and_then(moof::wall_clock).unwrap_or_default();
                }
                b"styp" | b"free" | b"skip" | b"sidx" | b"emsg" => {}
                _ => return Ok(None),
            }
            at = head.end;
        }
        Ok(None)
    }

    /// Returns the fragment from `start` to the end of its media, if all samples lie in these.
    fn recorded(
        &self,
        start: u64,
        moof: u64,
        media: BoxHead,
        wall_clock: Duration,
        tracks: Vec<PlacedTrack>,
    ) -> Option<RecordedFragment> {
        let tracks: Vec<RecordedTrack> = tracks
            .into_iter()
            .map(|it| RecordedTrack {
                offset: moof.saturating_add(it.offset),
                track: it.track,
            })
            .collect();
        let is_within = |it: &RecordedTrack| {
            let end = it.offset.saturating_add(it.track.media_bytes());
            it.offset >= media.body && end <= media.end
        };
        if !tracks.iter().all(is_within) {
            return None;
        }
        let described = self.header.tracks();
        let is_video = |it: &&RecordedTrack| described[it.track.position].kind == Kind::Video;
        let ruling = &tracks.iter().find(is_video).or(tracks.first())?.track;
        let rate = described[ruling.position].timescale;
        let time = |ticks: u64| MediaTime::from_ticks(ticks.cast_signed(), rate);
        let entry = FragmentEntry {
            offset: start,
            bytes: u32::try_from(media.end - start).ok()?,
            decode_time: time(ruling.decode_ticks),
            duration: time(ruling.duration_ticks()).saturating_since(MediaTime::ZERO),
            wall_clock,
            starts_with_sync: ruling.samples.first().is_some_and(|it| it.sync),
        };
        Some(RecordedFragment { entry, tracks })
    }
}

impl RecordedTrack {
    /// Returns the samples with their places and times, in decoding order.
    pub fn samples(&self) -> impl Iterator<Item = RecordedSample> {
        let (mut offset, mut decode_ticks) = (self.offset, self.track.decode_ticks);
        self.track.samples.iter().map(move |sample| {
            let placed = RecordedSample {
                offset,
                decode_ticks,
                sample: *sample,
            };
            offset += u64::from(sample.size);
            decode_ticks += u64::from(sample.duration);
            placed
        })
    }
}

impl RecordedSample {
    /// Returns the tick at which the sample is presented.
    pub fn presentation_ticks(&self) -> u64 {
        let composition = self.sample.composition.into();
        self.decode_ticks.saturating_add_signed(composition)
    }
}

fn byte_count(source: &impl ReadAt) -> Result<u64, ReadError> {
    source.byte_count().map_err(|error| ReadError::Io {
        offset: 0,
        bytes: 0,
        error,
    })
}

/// The boxes before the fragments.
struct FileHead {
    header: Header,
    /// Offset behind the header.
    end: u64,
    /// Offset behind the fragments, if the file says so.
    limit: u64,
    is_finished: bool,
    /// Content of the `free` box before the header that is no placeholder.
    note: Option<Vec<u8>>,
    placeholder: Option<u64>,
}

impl FileHead {
    fn read(source: &impl ReadAt, bytes: u64) -> Result<Self, ReadError> {
        let mut window = Window::new(source, bytes);
        let (mut at, mut limit, mut is_finished) = (0, u64::MAX, false);
        let mut note = None;
        let mut placeholder = None;
        for _ in 0..BOXES_MAX {
            let damaged = |reason| ReadError::Damaged { offset: at, reason };
            let cut = ReadError::NoHeader { bytes };
            let Some(head) = window.any_head(at)? else {
                return Err(match bytes < at.saturating_add(BoxHead::BYTES_MAX) {
                    true => cut,
                    false => damaged("no box begins here"),
                });
            };
            match &head.kind {
                // The media of a finished file hold its first header.
                b"mdat" if head.body - at == PLACEHOLDER_BYTES && !is_finished => {
                    (is_finished, limit, placeholder) = (true, head.end, Some(at));
                    at = head.body;
                    continue;
                }
                b"moov" => {
                    let Some(body) = window.load(&head)? else {
                        return Err(cut);
                    };
                    let header = description::header(body).map_err(damaged)?;
                    return Ok(Self {
                        header,
                        end: head.end,
                        limit,
                        is_finished,
                        note,
                        placeholder,
                    });
                }
                b"free" if head.end - at > PLACEHOLDER_BYTES && note.is_none() => {
                    note = window.load(&head)?.map(<[u8]>::to_vec);
                }
                b"free" if head.end - at == PLACEHOLDER_BYTES => placeholder = Some(at),
                b"ftyp" | b"styp" | b"free" | b"skip" => {}
                _ => return Err(damaged("the header of fragments is not where it should be")),
            }
            if head.end > bytes {
                return Err(cut);
            }
            at = head.end;
        }
        Err(ReadError::Damaged {
            offset: at,
            reason: "many boxes stand before the header",
        })
    }
}
