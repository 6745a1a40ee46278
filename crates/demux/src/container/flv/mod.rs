//! FLV files ("Adobe Flash Video File Format Specification" 10.1, annex E; "Enhanced RTMP" v2),
//! which broadcast software records.
//!
//! ```text
//!  header │ 0 │ tag │ its length │ tag │ its length │ …        tag: type, length, time, payload
//! ```
//!
//! The first configuration of a track describes it for the whole file. Behind a damaged place
//! reading goes on at the next tag whose length is repeated behind it.

mod tag;

use glassline_media::Kind;

use crate::Data;
use crate::container::growing::Growing;
use crate::container::indexed_track::{IndexedTrackBuilder, Sample};
use crate::container::{Container, InOnePiece, Primed};
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::window::Window;
use tag::{Content, Payload, Tag};

/// Nanoseconds of a tick.
const TICK_NS: i64 = 1_000_000;

/// Bytes of the length that is repeated behind each tag.
const TAIL_BYTES: u64 = 4;

/// Longest configuration of a decoder, in bytes; real ones have fewer than a thousand.
const CONFIGURATION_BYTES_MAX: u64 = 1 << 16;

/// Bytes of a frame that describe the track, where there is no configuration.
const FRAME_HEAD_BYTES: u64 = 16;

/// Bytes that are searched for a tag at once.
const SEARCH_BYTES: usize = 16 * 1024;

/// Reads and indexes a file.
pub(crate) fn open(data: Box<dyn Data>, warnings: &mut Warnings) -> Result<Container, Fault> {
    let mut reading = Reading::new(Window::new(data)?);
    while reading.advance()? {}
    reading.finish(warnings)
}

/// The state of reading a file or a pipe.
pub(crate) struct Reading {
    window: Window,
    warnings: Warnings,
    /// Offset of the next tag; 0 before the header of the file.
    at: u64,
    /// Whether the header of the file announces audio, and video.
    announces: (bool, bool),
    /// The tracks whose configuration was read: at most one of video and one of audio.
    tracks: Vec<IndexedTrackBuilder>,
    /// Names of codings that are not played.
    others: Vec<String>,
    /// Offset of the first damage, and the number of bytes that were skipped.
    skipped: Option<(u64, u64)>,
}

impl Growing for Reading {
    fn advance(&mut self) -> Result<bool, Fault> {
        if self.at == 0 {
            return self.read_header().map(|()| true);
        }
        let at = self.at;
        let found = self.tag(at)?;
        let end = self.window.file_bytes();
        if at >= end || found.is_none() && self.begins_anew(at)? {
            return Ok(false);
        }
        match found {
            Some(tag) if tag.end + TAIL_BYTES <= end && self.ends_right(&tag, at)? => {
                self.take(&tag)?;
                self.at = tag.end + TAIL_BYTES;
                Ok(true)
            }
            found => self.pass_damage(at, found),
        }
    }

    fn position(&self) -> u64 {
        self.at
    }

    fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    fn builders(&mut self) -> Vec<&mut IndexedTrackBuilder> {
        self.tracks.iter_mut().collect()
    }

    fn has_all_tracks(&self) -> bool {
        let (audio, video) = self.announces;
        let has = |kind| self.track(kind).is_some();
        (!audio || has(Kind::Audio)) && (!video || has(Kind::Video))
    }

    fn states_decoding_times(&self) -> bool {
        true
    }

    fn take_warnings(&mut self) -> Warnings {
        self.warn_of_skipped();
        std::mem::take(&mut self.warnings)
    }

    fn into_window(self) -> Window {
        self.window
    }
}

impl Reading {
    pub(crate) fn new(window: Window) -> Self {
        Self {
            window,
            warnings: Warnings::default(),
            at: 0,
            announces: (false, false),
            tracks: Vec::new(),
            others: Vec::new(),
            skipped: None,
        }
    }

    fn read_header(&mut self) -> Result<(), Fault> {
        let head = self.window.peek(0, 9)?;
        let [b'F', b'L', b'V', _, flags, length @ ..] = head else {
            return Err(Fault::at(0, Reason::Damaged("there is no FLV header")));
        };
        self.announces = (flags & 4 != 0, flags & 1 != 0);
        let length = length.first_chunk().map_or(9, |it| u32::from_be_bytes(*it));
        self.at = u64::from(length) + TAIL_BYTES;
        Ok(())
    }

    /// Returns whether a second file begins at `at`, as in a pipe that two writers took turns at.
    fn begins_anew(&mut self, at: u64) -> Result<bool, Fault> {
        Ok(self.window.peek(at, 4)?.starts_with(b"FLV\x01"))
    }

    /// Goes on behind a place where no whole tag lies. Returns false if that is the end.
    fn pass_damage(&mut self, at: u64, found: Option<Tag>) -> Result<bool, Fault> {
        let next = self.next_tag(at)?;
        let end = self.window.file_bytes();
        match (next, found) {
            (Some(next), _) => {
                self.skip(at, next);
                self.at = next;
                return Ok(true);
            }
            (None, Some(last)) if last.end <= end => self.take(&last)?,
            (None, Some(_)) => self.warnings.add(Some(at), WarningReason::Truncated),
            (None, None) => self.skip(at, end),
        }
        Ok(false)
    }

    /// Returns whether a tag that begins at `at` ends before its length, before another tag, or at the
    /// end of the file. If not, its length is damaged.
    fn ends_right(&mut self, tag: &Tag, at: u64) -> Result<bool, Fault> {
        let length = u32::try_from(tag.end - at).unwrap_or(0).to_be_bytes();
        if self.window.peek(tag.end, TAIL_BYTES as usize)? == length {
            return Ok(true);
        }
        // Some writers write no lengths.
        let next = tag.end + TAIL_BYTES;
        Ok(next == self.window.file_bytes() || self.tag(next)?.is_some())
    }

    fn skip(&mut self, from: u64, to: u64) {
        let (_, bytes) = self.skipped.get_or_insert((from, 0));
        *bytes += to - from;
    }

    fn tag(&mut self, at: u64) -> Result<Option<Tag>, Fault> {
        Ok(Tag::parse(self.window.peek(at, Tag::HEAD_BYTES)?, at))
    }

    /// Returns the offset of the first tag behind `at` whose length stands behind it again.
    fn next_tag(&mut self, at: u64) -> Result<Option<u64>, Fault> {
        let mut at = at + 1;
        loop {
            let bytes = self.window.peek(at, SEARCH_BYTES)?;
            if bytes.len() < Tag::HEAD_BYTES {
                return Ok(None);
            }
            let heads = bytes.windows(Tag::HEAD_BYTES).zip(at..);
            let tags: Vec<(u64, Tag)> = heads
                .filter_map(|(head, place)| Some((place, Tag::parse(head, place)?)))
                .collect();
            let read = bytes.len() as u64;
            for (place, tag) in tags {
                let behind = self.window.peek(tag.end, TAIL_BYTES as usize)?;
                let length = u32::try_from(tag.end - place).unwrap_or(0);
                if behind == length.to_be_bytes() {
                    return Ok(Some(place));
                }
            }
            at += read - (Tag::HEAD_BYTES as u64 - 1);
        }
    }

    fn take(&mut self, tag: &Tag) -> Result<(), Fault> {
        let length = tag.end - tag.body;
        let head = self.window.peek(tag.body, Payload::HEAD_BYTES_MAX)?;
        let head = &head[..head
            .len()
            .min(usize::try_from(length).unwrap_or(usize::MAX))];
        let Some(payload) = Payload::parse(tag.kind, head) else {
            return Ok(());
        };
        let offset = tag.body + payload.head_bytes;
        if payload.content == Content::Configuration {
            return self.configure(&payload, offset, tag.end);
        }
        if self.track(tag.kind).is_none() && !payload.needs_configuration() {
            // Such codings describe themselves in each frame.
            self.configure(&payload, offset, tag.end.min(offset + FRAME_HEAD_BYTES))?;
        }
        let Some(place) = self.track(tag.kind) else {
            return Ok(());
        };
        let decode_ns = i64::from(tag.time_ms) * TICK_NS;
        let sample = Sample {
            offset,
            length: tag.end.saturating_sub(offset),
            start_ns: decode_ns + i64::from(payload.later_ms) * TICK_NS,
            decode_ns: Some(decode_ns),
            duration_ns: None,
            keyframe: payload.keyframe,
        };
        self.tracks[place].push(sample, &mut self.window)?;
        Ok(())
    }

    fn track(&self, kind: Kind) -> Option<usize> {
        let mut tracks = self.tracks.iter();
        tracks.position(|track| track.track.kind() == kind)
    }

    /// Adds the track that the configuration from `offset` to `end` describes, unless there is one.
    fn configure(&mut self, payload: &Payload, offset: u64, end: u64) -> Result<(), Fault> {
        if self.track(payload.kind).is_some() {
            return Ok(());
        }
        let length = end.saturating_sub(offset).min(CONFIGURATION_BYTES_MAX);
        let configuration = self
            .window
            .load(offset, usize::try_from(length).unwrap_or(0))?;
        let described = payload.describe(&configuration, offset, &mut self.warnings);
        match described.map_err(|reason| Fault::at(offset, reason))? {
            Some(described) => {
                let builder = IndexedTrackBuilder::new(described, TICK_NS, None);
                self.tracks.push(builder);
            }
            None if !self.others.contains(&payload.coding) => {
                self.others.push(payload.coding.clone());
            }
            None => {}
        }
        Ok(())
    }

    fn warn_of_skipped(&mut self) {
        if let Some((at, bytes)) = self.skipped {
            self.warnings.add(Some(at), WarningReason::Skipped(bytes));
        }
    }

    fn finish(mut self, warnings: &mut Warnings) -> Result<Container, Fault> {
        self.warn_of_skipped();
        warnings.append(&mut self.warnings);
        let others = self.others.join(", ");
        if self.tracks.is_empty() && !others.is_empty() {
            let reason = format!("its coding is not supported: {others}");
            return Err(Fault::whole(Reason::NothingToPlay(reason)));
        }
        if !others.is_empty() {
            let reason = WarningReason::OtherTrack(format!("{others} is not supported"));
            warnings.add(None, reason);
        }
        let mut primed = Vec::new();
        for builder in self.tracks {
            let indexed = IndexedTrackBuilder::finish(builder, true, warnings);
            primed.extend(indexed.map(|indexed| Primed {
                indexed,
                priming_ns: 0,
            }));
        }
        Container::new(Box::new(InOnePiece(self.window.into_data())), primed)
    }
}
