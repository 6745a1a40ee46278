//! Reads a file through a window that moves over it once, and single units later.

use std::io::{self, Read as _, SeekFrom};

use crate::Data;
use crate::error::{Fault, Reason};

/// Bytes that are read at once.
const AHEAD_BYTES: u64 = 64 * 1024;

/// Bytes that stay in memory before the requested offset, so that a reader that looks ahead and
/// returns does not read the file again.
const BEHIND_BYTES: u64 = 32 * 1024;

/// A file seen through 96 KiB of memory, for readers that read it once from start to end and
/// sometimes look ahead.
pub(crate) struct Window {
    data: Box<dyn Data>,
    file_bytes: u64,
    /// Offset of `bytes` in the file.
    base: u64,
    bytes: Vec<u8>,
}

impl Window {
    pub(crate) fn new(mut data: Box<dyn Data>) -> Result<Self, Fault> {
        let end = data.seek(SeekFrom::End(0));
        let file_bytes = end.map_err(|error| Fault::at(0, Reason::Read(error)))?;
        if file_bytes == 0 {
            return Err(Fault::at(0, Reason::Empty));
        }
        Ok(Self {
            data,
            file_bytes,
            base: 0,
            bytes: Vec::new(),
        })
    }

    /// Returns another window on the same file.
    pub(crate) fn fork(&self) -> Self {
        Self {
            data: self.data.fork(),
            file_bytes: self.file_bytes,
            base: 0,
            bytes: Vec::new(),
        }
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Returns `length` bytes from `at` on, fewer at the end of the file. At most 32 KiB.
    pub(crate) fn peek(&mut self, at: u64, length: usize) -> Result<&[u8], Fault> {
        let left = usize::try_from(self.file_bytes.saturating_sub(at));
        let length = left.map_or(length, |left| left.min(length));
        if length == 0 {
            return Ok(&[]);
        }
        if self.place_of(at, length).is_none() {
            self.fill(at)?;
        }
        let place = usize::try_from(at - self.base).unwrap_or(usize::MAX);
        let seen = self.bytes.get(place..).unwrap_or_default();
        Ok(&seen[..seen.len().min(length)])
    }

    /// Reads `length` bytes at `at`, fewer at the end of the file. The caller bounds the
    /// length.
    pub(crate) fn load(&mut self, at: u64, length: usize) -> Result<Vec<u8>, Fault> {
        let left = self.file_bytes.saturating_sub(at);
        let length = usize::try_from(left).map_or(length, |left| left.min(length));
        read_unit(self.data.as_mut(), at, length)
    }

    pub(crate) fn into_data(self) -> Box<dyn Data> {
        self.data
    }

    fn place_of(&self, at: u64, length: usize) -> Option<usize> {
        let place = usize::try_from(at.checked_sub(self.base)?).ok()?;
        (place.checked_add(length)? <= self.bytes.len()).then_some(place)
    }

    fn fill(&mut self, at: u64) -> Result<(), Fault> {
        let failed = |error| Fault::at(at, Reason::Read(error));
        self.base = at.saturating_sub(BEHIND_BYTES);
        self.bytes.clear();
        self.data.seek(SeekFrom::Start(self.base)).map_err(failed)?;
        let mut window = (&mut self.data).take(BEHIND_BYTES + AHEAD_BYTES);
        window.read_to_end(&mut self.bytes).map_err(failed)?;
        Ok(())
    }
}

/// Reads `length` bytes at `offset`, which the file had when it was opened.
pub(crate) fn read_unit(data: &mut dyn Data, offset: u64, length: usize) -> Result<Vec<u8>, Fault> {
    let failed = |error: io::Error| {
        let reason = match error.kind() {
            io::ErrorKind::UnexpectedEof => Reason::Shrunk,
            _ => Reason::Read(error),
        };
        Fault::at(offset, reason)
    };
    data.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let mut unit = vec![0; length];
    data.read_exact(&mut unit).map_err(failed)?;
    Ok(unit)
}
