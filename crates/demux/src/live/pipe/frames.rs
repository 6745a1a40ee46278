//! Motion JPEG without a container, which has no times: pictures follow each other at a constant rate.

use std::collections::VecDeque;
use std::io::{self, Read};

use glassline_media::{Codec, Track};

use crate::FrameRate;
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::live::motion_jpeg::MotionJpeg;
use crate::pipe_reader::{PipeReader, PipeUnit};

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// Reads the pictures of one track of video.
pub(super) struct FrameReader {
    pipe: Box<dyn Read + Send>,
    splitter: MotionJpeg,
    buffer: Vec<u8>,
    offset: u64,
    rate: FrameRate,
    /// Number of pictures so far.
    count: u64,
    /// Number of damaged pictures that a warning has named.
    told: u64,
}

impl FrameReader {
    pub(super) fn new(pipe: Box<dyn Read + Send>, rate: Option<FrameRate>) -> Self {
        Self {
            pipe,
            splitter: MotionJpeg::default(),
            buffer: vec![0; READ_BYTES],
            offset: 0,
            rate: rate.unwrap_or(FrameRate::DEFAULT),
            count: 0,
            told: 0,
        }
    }

    /// Returns the time of a picture: a frame is two halves.
    fn at_ns(&self, number: u64) -> i64 {
        self.rate.nanos(2 * number)
    }
}

impl PipeReader for FrameReader {
    fn tracks(&mut self) -> Vec<Track> {
        let track = (self.count > 0).then(|| Track::new(Codec::Jpeg));
        track.into_iter().collect()
    }

    fn has_all_tracks(&self) -> bool {
        self.count > 0
    }

    fn read(&mut self, out: &mut VecDeque<PipeUnit>) -> Result<bool, Fault> {
        let at = self.offset;
        let count = match self.pipe.read(&mut self.buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(Fault::at(at, Reason::Read(error))),
        };
        self.offset += count as u64;
        let pushed = self.splitter.push(&self.buffer[..count]);
        while let Some(data) = self.splitter.next_frame() {
            let start_ns = self.at_ns(self.count);
            self.count += 1;
            out.push_back(PipeUnit {
                track: 0,
                start_ns,
                decode_ns: Some(start_ns),
                duration_ns: Some(self.at_ns(self.count) - start_ns),
                keyframe: true,
                after_loss: false,
                data,
            });
        }
        pushed.map_err(|error| Fault::at(at, Reason::Elementary(error.to_string())))?;
        Ok(count > 0)
    }

    fn take_warnings(&mut self) -> Warnings {
        let mut warnings = Warnings::default();
        let damaged = self.splitter.damaged();
        if damaged > self.told {
            let reason = WarningReason::DamagedFrames(damaged - self.told);
            warnings.add(None, reason);
            self.told = damaged;
        }
        warnings
    }
}
