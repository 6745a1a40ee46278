//! AVI files (Microsoft "AVI RIFF File Reference"; OpenDML AVI 1.02 for those above 1 GB), as older
//! cameras and editors write them.
//!
//! ```text
//!  RIFF AVI ─┬─ LIST hdrl ── LIST strl, one for each track: strh (clock), strf (coding)
//!            ├─ LIST movi ── 00dc, 01wb …: chunks, numbered by track
//!            └─ idx1: which chunks are keyframes
//!  RIFF AVIX ── LIST movi …
//! ```
//!
//! Chunks have no times. A chunk of video is a frame, and lasts a tick of its track's clock; one
//! without bytes repeats the frame before. Audio is counted by its samples. Compressed audio may be
//! cut anywhere by the chunks, so it is read as if it were one piece ([`joined`]).

mod audio;
mod headers;
mod joined;
mod video;

use crate::Data;
use crate::container::indexed_track::Entry;
use crate::container::{Container, Fetch, Primed};
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::window::{Window, read_unit};
use headers::{Stream, StreamKind};
use joined::Joined;

/// Most bytes of the description of the tracks; real ones have a few thousand.
const HEADERS_BYTES_MAX: u64 = 1 << 20;

/// Most chunks of a file: 3 days of video and audio. Their list takes 400 MB.
const CHUNKS_MAX: usize = 1 << 24;

/// Names of chunks and lists that belong to no track.
const OTHER_CHUNKS: &[&[u8; 4]] = &[b"LIST", b"RIFF", b"JUNK", b"idx1", b"indx"];

/// Flag of a keyframe in the index (`AVIIF_KEYFRAME`).
const KEYFRAME: u32 = 0x10;

/// A chunk of a track in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunk {
    offset: u64,
    length: u32,
    /// Whether the index says that a decoder can start here; `None` without a word about the chunk.
    keyframe: Option<bool>,
}

/// Reads and indexes a file.
pub(crate) fn open(data: Box<dyn Data>, warnings: &mut Warnings) -> Result<Container, Fault> {
    let mut window = Window::new(data)?;
    let mut file = AviFile::default();
    file.read(&mut window, warnings)?;
    if file.streams.is_empty() {
        return Err(Fault::whole(Reason::Damaged(
            "there is no description of its tracks",
        )));
    }
    let (mut primed, mut others, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for (number, (stream, chunks)) in file.streams.iter().zip(file.chunks).enumerate() {
        let same = |kind| {
            let kinds = primed.iter().map(|it: &Primed| it.indexed.track.kind());
            kinds.into_iter().any(|it| it == kind)
        };
        let name = format!("track {number} ({})", stream.coding());
        let indexed = match stream.kind {
            StreamKind::Video if !same(glassline_media::Kind::Video) => {
                video::index(stream, &chunks, &mut window, warnings)?
            }
            StreamKind::Audio if !same(glassline_media::Kind::Audio) => {
                audio::index(stream, &chunks, &mut window, &mut parts, warnings)?
            }
            StreamKind::Other => continue,
            StreamKind::Video | StreamKind::Audio => {
                others.push(format!("{name} is the second of its kind"));
                continue;
            }
        };
        match indexed {
            Some(indexed) => primed.push(Primed {
                indexed,
                priming_ns: 0,
            }),
            None => others.push(format!("{name} has no frames, or its coding is unknown")),
        }
    }
    if primed.is_empty() {
        return Err(Fault::whole(Reason::NothingToPlay(others.join("; "))));
    }
    if !others.is_empty() {
        warnings.add(None, WarningReason::OtherTrack(others.join("; ")));
    }
    let data = window.into_data();
    let joined = Joined::new(data.fork(), parts);
    Container::new(Box::new(Chunks { data, joined }), primed)
}

/// Reads units: those of joined audio by their offset in it, all others by that in the file.
struct Chunks {
    data: Box<dyn Data>,
    joined: Joined,
}

impl Fetch for Chunks {
    fn fetch(&mut self, entry: &Entry) -> Result<Vec<u8>, Fault> {
        match entry.offset.checked_sub(joined::BEGIN) {
            Some(offset) => read_unit(&mut self.joined, offset, entry.length()),
            None => read_unit(self.data.as_mut(), entry.offset, entry.length()),
        }
    }

    fn fork(&self) -> Box<dyn Fetch> {
        Box::new(Self {
            data: self.data.fork(),
            joined: self.joined.again(),
        })
    }
}

/// The tracks of a file, and the chunks of each.
#[derive(Default)]
struct AviFile {
    streams: Vec<Stream>,
    chunks: Vec<Vec<Chunk>>,
    count: usize,
    /// Number of bytes in which no chunk was found, and where the first ones are.
    skipped: Option<(u64, u64)>,
}

impl AviFile {
    fn read(&mut self, window: &mut Window, warnings: &mut Warnings) -> Result<(), Fault> {
        let end = window.file_bytes();
        let mut at = 0;
        while at < end {
            let head = window.peek(at, 12)?;
            let Some((name, length)) = chunk_head(head) else {
                break;
            };
            let list = head.get(8..12).and_then(<[u8]>::first_chunk).copied();
            let body = at + 8;
            let next = body + u64::from(length) + u64::from(length & 1);
            at = match (&name, list.as_ref()) {
                // Lists are entered without their sizes, which a recording that was cut off lacks.
                (b"RIFF", Some(b"AVI " | b"AVIX")) | (b"LIST", Some(b"movi" | b"rec ")) => body + 4,
                (b"LIST", Some(b"hdrl")) if self.streams.is_empty() => {
                    let length = u64::from(length);
                    if length > HEADERS_BYTES_MAX {
                        let what = "the description of the tracks";
                        let limit = HEADERS_BYTES_MAX;
                        return Err(Fault::too_large(body, "an AVI file", what, limit, "bytes"));
                    }
                    let bytes = window.load(body + 4, usize::try_from(length).unwrap_or(0))?;
                    self.streams = headers::streams(&bytes);
                    self.chunks = vec![Vec::new(); self.streams.len()];
                    next
                }
                (b"idx1", _) => {
                    self.mark_keyframes(window, body, next.min(end))?;
                    next
                }
                // The list of the media under a damaged name.
                (b"LIST", Some(_)) if self.begins_with_media(window, body + 4)? => body + 4,
                // One that passes the end of the file may hide the media behind it.
                (b"LIST" | b"JUNK" | b"RIFF", _) if next <= end + 1 => next,
                (name, _) if self.is_chunk(name) && self.ends_right(window, next)? => {
                    if let Some(track) = self.track_of(name) {
                        self.add(track, body, length)?;
                    }
                    next
                }
                (name, _) => match self.resume(window, at)? {
                    Some(next) => next,
                    None => {
                        if self.is_chunk(name) {
                            warnings.add(Some(at), WarningReason::Truncated);
                        }
                        break;
                    }
                },
            };
        }
        if let Some((at, bytes)) = self.skipped {
            warnings.add(Some(at), WarningReason::Skipped(bytes));
        }
        Ok(())
    }

    /// Returns whether a chunk of a track stands at `at`, and another chunk behind it.
    fn begins_with_media(&self, window: &mut Window, at: u64) -> Result<bool, Fault> {
        let Some((name, length)) = chunk_head(window.peek(at, 8)?) else {
            return Ok(false);
        };
        let end = at + 8 + u64::from(length) + u64::from(length & 1);
        Ok(self.track_of(&name).is_some() && self.ends_right(window, end)?)
    }

    /// Returns the track of a chunk: `00dc` and `00db` are video of track 0, `01wb` is audio.
    fn track_of(&self, name: &[u8; 4]) -> Option<usize> {
        let digit = |byte: u8| byte.is_ascii_digit().then(|| usize::from(byte - b'0'));
        let number = 10 * digit(name[0])? + digit(name[1])?;
        let wanted = match &name[2..] {
            b"dc" | b"db" => StreamKind::Video,
            b"wb" => StreamKind::Audio,
            _ => return None,
        };
        let stream = self.streams.get(number)?;
        (stream.kind == wanted).then_some(number)
    }

    /// Returns whether chunks of `name` stand between those of the tracks: chunks of other tracks,
    /// lists, indexes, and padding.
    fn is_chunk(&self, name: &[u8; 4]) -> bool {
        let is_numbered = name[..2].iter().all(u8::is_ascii_digit)
            && name[2..].iter().all(u8::is_ascii_alphanumeric);
        is_numbered || name.starts_with(b"ix") || OTHER_CHUNKS.contains(&name)
    }

    /// Returns whether a chunk that ends at `end` ends with the file or before another chunk. If not,
    /// its length is damaged.
    fn ends_right(&self, window: &mut Window, end: u64) -> Result<bool, Fault> {
        let file_bytes = window.file_bytes();
        // The last chunk may lack its padding.
        if end >= file_bytes {
            return Ok(end <= file_bytes + 1);
        }
        let head = chunk_head(window.peek(end, 8)?);
        Ok(head.is_none_or(|(name, _)| self.is_chunk(&name)))
    }

    fn add(&mut self, track: usize, offset: u64, length: u32) -> Result<(), Fault> {
        if self.count == CHUNKS_MAX {
            let limit = CHUNKS_MAX as u64;
            return Err(Fault::too_large(
                offset,
                "an AVI file",
                "it",
                limit,
                "chunks",
            ));
        }
        self.count += 1;
        self.chunks[track].push(Chunk {
            offset,
            length,
            keyframe: None,
        });
        Ok(())
    }

    /// Returns the offset of the next chunk of a known track behind damage at `at`.
    fn resume(&mut self, window: &mut Window, at: u64) -> Result<Option<u64>, Fault> {
        const SEARCH_BYTES: usize = 16 * 1024;
        let mut place = at + 1;
        loop {
            let bytes = window.peek(place, SEARCH_BYTES)?;
            if bytes.len() < 8 {
                return Ok(None);
            }
            let read = bytes.len() as u64;
            let heads = bytes.windows(8).zip(place..);
            let found: Vec<(u64, u32)> = heads
                .filter_map(|(head, place)| {
                    let (name, length) = chunk_head(head)?;
                    self.track_of(&name).map(|_| (place, length))
                })
                .collect();
            for (begin, length) in found {
                // Another chunk, or the end of the file, confirms the length.
                let next = begin + 8 + u64::from(length) + u64::from(length & 1);
                let behind = chunk_head(window.peek(next, 8)?);
                let confirmed = match behind {
                    Some((name, _)) => self.track_of(&name).is_some() || &name == b"idx1",
                    None => next == window.file_bytes(),
                };
                if confirmed {
                    let (_, skipped) = self.skipped.get_or_insert((at, 0));
                    *skipped += begin - at;
                    return Ok(Some(begin));
                }
            }
            place += read - 7;
        }
    }

    /// Reads the index: for each chunk its name, flags, offset and length. The entries of a track
    /// are in the order of its chunks.
    fn mark_keyframes(&mut self, window: &mut Window, from: u64, to: u64) -> Result<(), Fault> {
        const ENTRY_BYTES: u64 = 16;
        let mut next = vec![0; self.streams.len()];
        let mut at = from;
        while at + ENTRY_BYTES <= to {
            let entry = window.peek(at, ENTRY_BYTES as usize)?;
            let (Some((name, flags)), Some(length)) = (
                chunk_head(entry),
                entry.get(12..16).and_then(<[u8]>::first_chunk),
            ) else {
                break;
            };
            let length = u32::from_le_bytes(*length);
            if let Some(track) = self.track_of(&name) {
                let chunk = self.chunks[track].get_mut(next[track]);
                if let Some(chunk) = chunk.filter(|chunk| chunk.length == length) {
                    chunk.keyframe = Some(flags & KEYFRAME != 0);
                    next[track] += 1;
                }
            }
            at += ENTRY_BYTES;
        }
        Ok(())
    }
}

/// Returns the name and the length of a chunk.
fn chunk_head(bytes: &[u8]) -> Option<([u8; 4], u32)> {
    let (name, rest) = bytes.split_first_chunk::<4>()?;
    Some((*name, u32::from_le_bytes(*rest.first_chunk()?)))
}
