//! The index of an audio file without a container, which is made in one pass through the file.

use std::ops::Range;

use super::syntax::{FrameHeader, StreamFormat, Syntax};
use crate::audio::tags;
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::window::Window;

/// Most frames of one file: 4 to 6 days of most codings. Their index takes 128 MB.
const FRAMES_MAX: usize = 1 << 24;

/// Most bytes in a row that may belong to no frame.
const JUNK_BYTES_MAX: u64 = 1 << 20;

/// Location of a frame's data: an offset of 48 bits and a length of 16 bits.
#[derive(Clone, Copy)]
pub(super) struct Entry(u64);

impl Entry {
    /// Packs a location; `None` if `offset` is larger than any file.
    fn new(offset: u64, length: u16) -> Option<Self> {
        (offset < 1 << 48).then_some(Self(offset << 16 | u64::from(length)))
    }

    pub(super) fn offset(self) -> u64 {
        self.0 >> 16
    }

    pub(super) fn length(self) -> usize {
        (self.0 & 0xffff) as usize
    }
}

/// Builds the index while the file is read.
pub(super) struct Indexer<'w> {
    syntax: &'w dyn Syntax,
    window: Window,
    range: Range<u64>,
    warnings: &'w mut Warnings,
    format: Option<StreamFormat>,
    index: Vec<Entry>,
}

impl<'w> Indexer<'w> {
    pub(super) fn new(
        syntax: &'w dyn Syntax,
        window: Window,
        range: Range<u64>,
        warnings: &'w mut Warnings,
    ) -> Self {
        Self {
            syntax,
            window,
            range,
            warnings,
            format: None,
            index: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> Result<(StreamFormat, Vec<Entry>, Window), Fault> {
        let start = self.range.start;
        // A magic number replaces the check of the first frame by the frames behind it.
        let mut in_step = self.syntax.magic_bytes() > 0;
        let mut at = start;
        while at < self.range.end {
            match self.frame_to_take(at, in_step)? {
                Some(frame) => {
                    self.take(at, frame)?;
                    at += u64::from(frame.bytes);
                    in_step = true;
                }
                None => {
                    at = self.skip(at)?;
                    in_step = false;
                }
            }
        }
        match self.format {
            Some(format) if !self.index.is_empty() => Ok((format, self.index, self.window)),
            _ => {
                let what = format!("it has no frame of {}", self.syntax.expected());
                Err(Fault::at(start, Reason::NothingToPlay(what)))
            }
        }
    }

    fn frame_at(&mut self, at: u64) -> Result<Option<FrameHeader>, Fault> {
        if at >= self.range.end {
            return Ok(None);
        }
        let head = self.window.peek(at, self.syntax.head_bytes())?;
        Ok(self.syntax.frame(head))
    }

    /// Returns the frame at `at`, if it belongs to the track. `in_step`: whether a frame or a
    /// magic number ends at `at`.
    fn frame_to_take(&mut self, at: u64, in_step: bool) -> Result<Option<FrameHeader>, Fault> {
        let Some(frame) = self.frame_at(at)? else {
            return Ok(None);
        };
        let Some(format) = self.format else {
            let taken = in_step || self.is_followed(at, frame)?;
            return Ok(taken.then_some(frame));
        };
        if format.fits(&frame.format) {
            let taken = in_step || self.is_followed(at, frame)?;
            return Ok(taken.then_some(frame));
        }
        if in_step && self.frames_behind(at, frame)? >= self.syntax.witnesses() {
            let (from, to) = (format.to_string(), frame.format.to_string());
            return Err(Fault::at(at, Reason::Changes { from, to }));
        }
        Ok(None)
    }

    /// Returns whether enough frames of the same form follow, or all that the rest of the file
    /// has room for.
    fn is_followed(&mut self, at: u64, frame: FrameHeader) -> Result<bool, Fault> {
        let behind = self.frames_behind(at, frame)?;
        let mut end = at + u64::from(frame.bytes);
        for _ in 0..behind {
            end += self.frame_at(end)?.map_or(0, |next| next.bytes.into());
        }
        let at_end = end == self.range.end || behind > 0 && end > self.range.end;
        // Wherever a file ends, a byte may look like a frame whose header is one byte.
        let weak = self.syntax.head_bytes() == 1;
        // A frame at the expected start of the audio needs fewer witnesses.
        let needed = match at == self.range.start {
            true => 1,
            false => self.syntax.witnesses(),
        };
        Ok(behind >= needed || at_end && !weak)
    }

    /// Counts the frames of the same form that follow without a gap, up to the number of
    /// witnesses.
    fn frames_behind(&mut self, at: u64, frame: FrameHeader) -> Result<usize, Fault> {
        let mut at = at + u64::from(frame.bytes);
        for count in 0..self.syntax.witnesses() {
            match self.frame_at(at)? {
                Some(next) if next.format.fits(&frame.format) => at += u64::from(next.bytes),
                _ => return Ok(count),
            }
        }
        Ok(self.syntax.witnesses())
    }

    fn take(&mut self, at: u64, frame: FrameHeader) -> Result<(), Fault> {
        self.format.get_or_insert(frame.format);
        let end = at + u64::from(frame.bytes);
        if end > self.range.end {
            self.warnings.add(Some(at), WarningReason::TruncatedFrame);
            return Ok(());
        }
        if self.index.is_empty() && self.is_directory(at)? {
            return Ok(());
        }
        let length = frame.bytes - frame.header_bytes;
        let entry = Entry::new(at + u64::from(frame.header_bytes), length);
        match entry {
            Some(entry) if self.index.len() < FRAMES_MAX => self.index.push(entry),
            _ => {
                let (expected, limit) = (self.syntax.expected(), FRAMES_MAX as u64);
                return Err(Fault::too_large(at, expected, "the file", limit, "frames"));
            }
        }
        Ok(())
    }

    /// Returns whether the frame holds a directory of the file and no audio.
    fn is_directory(&mut self, at: u64) -> Result<bool, Fault> {
        match self.syntax.directory_bytes() {
            0 => Ok(false),
            count => Ok(self.syntax.is_directory(self.window.peek(at, count)?)),
        }
    }

    /// Returns where audio continues behind bytes that are no frame: behind a tag, which states
    /// its length, or at the next plausible frame.
    fn skip(&mut self, from: u64) -> Result<u64, Fault> {
        if let Some(bytes) = tags::bytes_of(self.window.peek(from, tags::HEAD_BYTES)?) {
            let behind = from.saturating_add(bytes);
            if behind <= self.range.end {
                return Ok(behind);
            }
        }
        let limit = self.range.end.min(from + JUNK_BYTES_MAX);
        for at in from + 1..limit {
            if self.frame_to_take(at, false)?.is_some() {
                self.warnings
                    .add(Some(from), WarningReason::Skipped(at - from));
                return Ok(at);
            }
        }
        if limit < self.range.end || self.index.is_empty() {
            let (expected, searched) = (self.syntax.frame_name(), limit - from);
            return Err(Fault::at(from, Reason::NoFrame { expected, searched }));
        }
        self.warnings
            .add(Some(from), WarningReason::Skipped(limit - from));
        Ok(limit)
    }
}
