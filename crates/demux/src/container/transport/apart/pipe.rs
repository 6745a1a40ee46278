//! Video and audio of a transport stream that comes through a pipe.

use std::collections::VecDeque;
use std::io::{self, Read};

use glassline_media::Track;

use super::pushed::PushedTransport;
use crate::error::{Fault, Reason, Warnings};
use crate::pipe_reader::{PipeReader, PipeUnit};

/// Most bytes that are read at once.
const READ_BYTES: usize = 16 * 1024;

/// Reads a pipe, and pushes what it brings.
pub(crate) struct TransportPipe {
    pipe: Box<dyn Read + Send>,
    buffer: Box<[u8]>,
    transport: PushedTransport,
    /// Number of bytes so far.
    at: u64,
    has_ended: bool,
}

impl TransportPipe {
    pub(crate) fn new(pipe: Box<dyn Read + Send>) -> Self {
        Self {
            pipe,
            buffer: vec![0; READ_BYTES].into(),
            transport: PushedTransport::default(),
            at: 0,
            has_ended: false,
        }
    }

    /// Waits for the next bytes, of which there are none at the end.
    fn wait(&mut self) -> Result<&[u8], Fault> {
        loop {
            match self.pipe.read(&mut self.buffer) {
                Ok(count) => {
                    self.at += count as u64;
                    self.has_ended = count == 0;
                    return Ok(&self.buffer[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::at(self.at, Reason::Read(error))),
            }
        }
    }
}

impl PipeReader for TransportPipe {
    fn tracks(&mut self) -> Vec<Track> {
        self.transport.tracks()
    }

    fn has_all_tracks(&self) -> bool {
        self.transport.has_all_tracks()
    }

    fn read(&mut self, out: &mut VecDeque<PipeUnit>) -> Result<bool, Fault> {
        while !self.transport.advance(out)? {
            if self.has_ended {
                return Ok(false);
            }
            let bytes = self.wait()?.to_vec();
            self.transport.push(&bytes);
        }
        Ok(true)
    }

    fn take_warnings(&mut self) -> Warnings {
        self.transport.take_warnings()
    }
}
