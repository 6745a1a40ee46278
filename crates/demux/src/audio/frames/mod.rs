//! Files of audio frames of equal duration, each with a header that states its length in bytes:
//! AAC with ADTS headers, AC-3, AMR, MPEG audio.
//!
//! Opening a file follows the frames from header to header. Where no frame begins at the
//! expected place, the reader searches for the next one, and accepts it only if other frames
//! follow it.

mod indexer;
mod syntax;

use std::ops::Range;
use std::sync::Arc;

use glassline_media::{MediaTime, Track};

use crate::Data;
use crate::error::{Fault, Warnings};
use crate::length::Length;
use crate::reader::{Reader, Unit};
use crate::window::{Window, read_unit};

use indexer::{Entry, Indexer};
pub(crate) use syntax::{FrameHeader, StreamFormat, Syntax};

/// A reader of the frames of an audio file.
pub(crate) struct Frames {
    data: Box<dyn Data>,
    index: Arc<[Entry]>,
    format: StreamFormat,
    tracks: [Track; 1],
    next: usize,
}

impl Frames {
    /// Reads the file once and indexes its frames.
    ///
    /// `range`: part of the file between the tags at its two ends.
    pub(crate) fn open(
        syntax: &dyn Syntax,
        mut window: Window,
        mut range: Range<u64>,
        warnings: &mut Warnings,
    ) -> Result<Self, Fault> {
        let head = window.peek(range.start, syntax.head_bytes())?;
        if let Some(reason) = syntax.refusal(head) {
            return Err(Fault::at(range.start, reason));
        }
        range.start += syntax.magic_bytes();
        let indexer = Indexer::new(syntax, window, range, warnings);
        let (format, index, window) = indexer.run()?;
        Ok(Self {
            data: window.into_data(),
            index: index.into(),
            tracks: [syntax.track(&format)],
            format,
            next: 0,
        })
    }

    /// Returns the number of samples before a frame.
    fn samples(&self, frame: usize) -> i64 {
        let samples = frame as u64 * u64::from(self.format.samples);
        i64::try_from(samples).unwrap_or(i64::MAX)
    }

    fn start_ns(&self, frame: usize) -> i64 {
        MediaTime::from_ticks(self.samples(frame), self.format.rate).nanos()
    }
}

impl Reader for Frames {
    fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    fn length(&self) -> Length {
        Length::from_ticks(self.samples(self.index.len()), self.format.rate)
    }

    fn next_unit(&mut self) -> Result<Option<Unit>, Fault> {
        let Some(entry) = self.index.get(self.next) else {
            return Ok(None);
        };
        let data = read_unit(&mut self.data, entry.offset(), entry.length())?;
        let start_ns = self.start_ns(self.next);
        self.next += 1;
        let end_ns = self.start_ns(self.next);
        Ok(Some(Unit::in_turn(start_ns..end_ns, true, data)))
    }

    fn seek(&mut self, to_ns: i64) -> Result<(), Fault> {
        let samples = MediaTime::from_nanos(to_ns.max(0)).ticks(self.format.rate);
        let frame = samples / i64::from(self.format.samples);
        self.next = usize::try_from(frame).map_or(0, |frame| frame.min(self.index.len()));
        Ok(())
    }

    fn fork(&self) -> Box<dyn Reader> {
        Box::new(Self {
            data: self.data.fork(),
            index: Arc::clone(&self.index),
            format: self.format,
            tracks: self.tracks.clone(),
            next: 0,
        })
    }
}
