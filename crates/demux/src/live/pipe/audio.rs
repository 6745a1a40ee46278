//! Frames of audio that state their own length: AAC with ADTS headers, MPEG audio, AC-3.

use std::collections::VecDeque;

use bytes::Bytes;
use glassline_media::{MediaTime, Track};

use crate::audio::frames::{FrameHeader, StreamFormat, Syntax};
use crate::audio::tags;
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::pipe_reader::{PipeReader, PipeUnit};
use crate::window::Window;

/// Most bytes in a row that may belong to no frame.
const JUNK_BYTES_MAX: u64 = 1 << 20;

/// Reads frames of one track of audio.
pub(super) struct AudioReader {
    syntax: &'static (dyn Syntax + Sync),
    window: Window,
    at: u64,
    format: Option<StreamFormat>,
    /// Samples of each channel so far.
    samples: i64,
    /// Bytes that belong to no frame, since the last one and in all.
    junk: (u64, u64),
    /// Whether the next frame must be followed by another to count as one.
    is_searching: bool,
}

impl AudioReader {
    pub(super) fn new(syntax: &'static (dyn Syntax + Sync), window: Window) -> Self {
        Self {
            syntax,
            window,
            at: 0,
            format: None,
            samples: 0,
            junk: (0, 0),
            is_searching: false,
        }
    }

    fn frame_at(&mut self, at: u64) -> Result<Option<FrameHeader>, Fault> {
        let head = self.window.peek(at, self.syntax.head_bytes())?;
        let frame = self.syntax.frame(head);
        let fits = |it: &FrameHeader| self.format.is_none_or(|format| format.fits(&it.format));
        Ok(frame.filter(fits))
    }

    /// Passes a tag, or a byte that belongs to nothing.
    fn pass(&mut self) -> Result<(), Fault> {
        let head = self.window.peek(self.at, tags::HEAD_BYTES)?;
        if let Some(bytes) = tags::bytes_of(head).or(tags::bytes_of_id3v1(head)) {
            self.at = self.at.saturating_add(bytes);
            return Ok(());
        }
        self.at += 1;
        self.junk.0 += 1;
        self.junk.1 += 1;
        self.is_searching = true;
        if self.junk.0 > JUNK_BYTES_MAX {
            let (expected, searched) = (self.syntax.frame_name(), self.junk.0);
            return Err(Fault::at(self.at, Reason::NoFrame { expected, searched }));
        }
        Ok(())
    }
}

impl PipeReader for AudioReader {
    fn tracks(&mut self) -> Vec<Track> {
        let track = self.format.map(|format| self.syntax.track(&format));
        track.into_iter().collect()
    }

    fn has_all_tracks(&self) -> bool {
        self.format.is_some()
    }

    fn read(&mut self, out: &mut VecDeque<PipeUnit>) -> Result<bool, Fault> {
        if self.window.peek(self.at, 1)?.is_empty() {
            return Ok(false);
        }
        self.window.release(self.at);
        let Some(frame) = self.frame_at(self.at)? else {
            return self.pass().map(|()| true);
        };
        let end = self.at + u64::from(frame.bytes);
        if self.is_searching && self.frame_at(end)?.is_none() {
            return self.pass().map(|()| true);
        }
        let length = usize::from(frame.bytes - frame.header_bytes);
        let start = self.at + u64::from(frame.header_bytes);
        let bytes = match self.window.load(start, length) {
            Ok(bytes) if bytes.len() == length => bytes,
            // The writer was stopped within the frame.
            Ok(_) => return Ok(false),
            Err(_) if self.window.is_ended() => return Ok(false),
            Err(fault) => return Err(fault),
        };
        let format = *self.format.get_or_insert(frame.format);
        let ns = |samples| MediaTime::from_ticks(samples, format.rate.max(1)).nanos();
        let start_ns = ns(self.samples);
        self.samples += i64::from(format.samples);
        out.push_back(PipeUnit {
            track: 0,
            start_ns,
            decode_ns: Some(start_ns),
            duration_ns: Some(ns(self.samples) - start_ns),
            keyframe: true,
            after_loss: false,
            data: Bytes::from(bytes),
        });
        self.at = end;
        self.junk.0 = 0;
        self.is_searching = false;
        Ok(true)
    }

    fn take_warnings(&mut self) -> Warnings {
        let mut warnings = Warnings::default();
        if self.junk.1 > 0 {
            let reason = WarningReason::Skipped(std::mem::take(&mut self.junk.1));
            warnings.add(None, reason);
        }
        warnings
    }
}
