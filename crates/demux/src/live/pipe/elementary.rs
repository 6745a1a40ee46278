//! H.264 and H.265 in Annex-B form, which have no times: frames follow each other at a constant
//! rate.

use std::collections::VecDeque;
use std::io::{self, Read};

use glassline_media::Track;

use crate::FrameRate;
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::live::Splitter;
use crate::pipe_reader::{PipeReader, PipeUnit};

/// Bytes that are read at once.
const READ_BYTES: usize = 16 << 10;

/// Reads access units of one track of video.
pub(super) struct ElementaryReader {
    pipe: Box<dyn Read + Send>,
    splitter: Splitter,
    buffer: Vec<u8>,
    offset: u64,
    /// The rate to use where the bitstream states none.
    rate: Option<FrameRate>,
    /// Length of the stream so far, in halves of a frame: a field lasts one.
    halves: u64,
}

impl ElementaryReader {
    pub(super) fn new(pipe: Box<dyn Read + Send>, rate: Option<FrameRate>) -> Self {
        Self {
            pipe,
            splitter: Splitter::new(),
            buffer: vec![0; READ_BYTES],
            offset: 0,
            rate,
            halves: 0,
        }
    }

    fn take_units(&mut self, out: &mut VecDeque<PipeUnit>) {
        let stated = self.splitter.frame_rate();
        let rate = stated.or(self.rate).unwrap_or(FrameRate::DEFAULT);
        while let Some(unit) = self.splitter.next_unit() {
            let start_ns = rate.nanos(self.halves);
            self.halves += if unit.field { 1 } else { 2 };
            out.push_back(PipeUnit {
                track: 0,
                start_ns,
                decode_ns: Some(start_ns),
                duration_ns: Some(rate.nanos(self.halves) - start_ns),
                keyframe: unit.keyframe,
                after_loss: false,
                data: unit.data,
            });
        }
    }
}

impl PipeReader for ElementaryReader {
    fn tracks(&mut self) -> Vec<Track> {
        self.splitter.track().cloned().into_iter().collect()
    }

    fn has_all_tracks(&self) -> bool {
        self.splitter.track().is_some()
    }

    fn read(&mut self, out: &mut VecDeque<PipeUnit>) -> Result<bool, Fault> {
        let at = self.offset;
        let damaged =
            |error: crate::live::Error| Fault::at(at, Reason::Elementary(error.to_string()));
        let count = match self.pipe.read(&mut self.buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(Fault::at(at, Reason::Read(error))),
        };
        self.offset += count as u64;
        let pushed = match count {
            0 => self.splitter.finish(),
            _ => self.splitter.push(&self.buffer[..count]),
        };
        self.take_units(out);
        pushed.map_err(damaged)?;
        Ok(count > 0)
    }

    fn take_warnings(&mut self) -> Warnings {
        let notes = self.splitter.notes();
        let mut warnings = Warnings::default();
        if notes.before_keyframe > 0 {
            let reason = WarningReason::BeforeKeyframe(notes.before_keyframe);
            warnings.add(None, reason);
        }
        if notes.damaged_slices + notes.damaged_sets > 0 {
            let count = notes.damaged_slices + notes.damaged_sets;
            warnings.add(None, WarningReason::DamagedFrames(count));
        }
        if notes.reordered > 0 {
            warnings.add(None, WarningReason::UnknownOrder);
        }
        warnings
    }
}
