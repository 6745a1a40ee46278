//! A recorded file of another server, as bytes.
//!
//! Bytes come in blocks: a player reads frame by frame, and each question takes the time of a round trip.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use glassline_cmaf::{FragmentEntry, ReadAt, read_index};
use glassline_hub::StreamName;

use super::others::{BYTES_MAX, OtherServer, Question};

/// Bytes that are asked for at least: about a second of video.
const BLOCK_BYTES: u32 = 256 << 10;

/// A file of another server.
#[derive(Debug)]
pub(super) struct DistantFile {
    pub(super) server: OtherServer,
    pub(super) stream: StreamName,
    pub(super) path: PathBuf,
    /// Size of the file, as that server said.
    bytes: AtomicU64,
}

impl DistantFile {
    pub(super) const fn new(
        server: OtherServer,
        stream: StreamName,
        path: PathBuf,
        bytes: u64,
    ) -> Self {
        Self {
            server,
            stream,
            path,
            bytes: AtomicU64::new(bytes),
        }
    }

    /// Notes that the file has grown to so many bytes.
    pub(super) fn note_size(&self, bytes: u64) {
        self.bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Returns the fragments of the file; `None` if it is gone. Blocks.
    pub(super) fn fragments(&self) -> io::Result<Option<Vec<FragmentEntry>>> {
        let file = self.path.clone();
        let answer = self.ask(&Question::Fragments { file })?;
        if answer.is_empty() {
            return Ok(None);
        }
        let damaged = || io::Error::other("its list of fragments is damaged");
        let index = read_index(&answer).ok_or_else(damaged)?;
        // The file may have grown since its size was told.
        if let Some(last) = index.last() {
            self.note_size(last.end());
        }
        Ok(Some(index))
    }

    fn bytes_at(&self, offset: u64, wanted: usize) -> io::Result<Bytes> {
        let wanted = u32::try_from(wanted).unwrap_or(BYTES_MAX);
        self.ask(&Question::Bytes {
            file: self.path.clone(),
            offset,
            bytes: wanted.clamp(BLOCK_BYTES, BYTES_MAX),
        })
    }

    fn ask(&self, question: &Question) -> io::Result<Bytes> {
        self.server.ask_and_wait(&self.stream, question)
    }
}

/// A file of another server that is being read, with the bytes that came last.
#[derive(Debug)]
pub(super) struct OpenDistantFile {
    file: Arc<DistantFile>,
    block: Mutex<Block>,
}

#[derive(Debug, Default)]
struct Block {
    offset: u64,
    bytes: Bytes,
}

impl Block {
    /// Returns what the block has from `offset` on.
    fn from(&self, offset: u64) -> Option<&[u8]> {
        let at = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.bytes.get(at..).filter(|rest| !rest.is_empty())
    }
}

impl OpenDistantFile {
    pub(super) fn new(file: Arc<DistantFile>) -> Self {
        Self {
            file,
            block: Mutex::default(),
        }
    }
}

impl ReadAt for OpenDistantFile {
    fn byte_count(&self) -> io::Result<u64> {
        Ok(self.file.bytes.load(Ordering::Relaxed))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut block = self.block.lock().unwrap_or_else(PoisonError::into_inner);
        if block.from(offset).is_none() {
            *block = Block {
                offset,
                bytes: self.file.bytes_at(offset, buffer.len())?,
            };
        }
        let rest = block.from(offset).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}
