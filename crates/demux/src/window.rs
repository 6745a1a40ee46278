//! Reads a file or a pipe through a window that moves over it once, and single units later.

use std::io::{self, Cursor, Read, SeekFrom};

use crate::Data;
use crate::error::{Fault, Reason};

/// Bytes that are read at once.
const AHEAD_BYTES: u64 = 64 * 1024;

/// Bytes that are read from a pipe at once: the capacity of a pipe on Linux would wait for nothing,
/// and a quarter of it keeps the stack small.
const READ_BYTES: usize = 16 * 1024;

/// Bytes that stay in memory before the requested offset, so that a reader that looks ahead and
/// returns does not read the file again.
const BEHIND_BYTES: u64 = 32 * 1024;

/// Most bytes of a pipe in memory: a unit of the largest size, 16 MiB, and what surrounds it.
const PIPE_BYTES_MAX: usize = 17 << 20;

/// A file seen through 96 KiB of memory, for readers that read it once from start to end and
/// sometimes look ahead.
///
/// A pipe is seen through as much memory as its reader needs: [`release`](Self::release) frees what
/// it has behind it.
pub(crate) struct Window {
    data: Source,
    /// Length of the file; [`u64::MAX`] while the end of a pipe has not been read.
    file_bytes: u64,
    /// Offset of `bytes` in the file.
    base: u64,
    bytes: Vec<u8>,
}

/// Where the bytes come from.
enum Source {
    File(Box<dyn Data>),
    /// Bytes that can be read once, and when they arrive.
    Pipe(Box<dyn Read + Send>),
}

impl Window {
    /// Looks at the start of a pipe. Each call waits for the bytes that it needs, and for no more.
    pub(crate) fn of_pipe(pipe: Box<dyn Read + Send>) -> Self {
        Self {
            data: Source::Pipe(pipe),
            file_bytes: u64::MAX,
            base: 0,
            bytes: Vec::new(),
        }
    }

    pub(crate) fn new(mut data: Box<dyn Data>) -> Result<Self, Fault> {
        let end = data.seek(SeekFrom::End(0));
        let file_bytes = end.map_err(|error| Fault::at(0, Reason::Read(error)))?;
        if file_bytes == 0 {
            return Err(Fault::at(0, Reason::Empty));
        }
        Ok(Self {
            data: Source::File(data),
            file_bytes,
            base: 0,
            bytes: Vec::new(),
        })
    }

    /// Returns another window on the same file.
    ///
    /// # Panics
    /// Panics for a pipe, of which there is no second reader.
    pub(crate) fn fork(&self) -> Self {
        let Source::File(data) = &self.data else {
            unreachable!("readers of pipes do not fork");
        };
        Self {
            data: Source::File(data.fork()),
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
            self.fill(at, length)?;
        }
        let place = usize::try_from(at - self.base).unwrap_or(usize::MAX);
        let seen = self.bytes.get(place..).unwrap_or_default();
        Ok(&seen[..seen.len().min(length)])
    }

    /// Reads `length` bytes at `at`, fewer at the end of a file. A pipe that ends earlier is an error.
    /// The caller bounds the length.
    pub(crate) fn load(&mut self, at: u64, length: usize) -> Result<Vec<u8>, Fault> {
        if let Source::File(data) = &mut self.data {
            let left = self.file_bytes.saturating_sub(at);
            let length = usize::try_from(left).map_or(length, |left| left.min(length));
            return read_unit(data.as_mut(), at, length);
        }
        if self.place_of(at, length).is_none() {
            self.fill(at, length)?;
        }
        match self.place_of(at, length) {
            Some(place) => Ok(self.bytes[place..place + length].to_vec()),
            None => Err(Fault::at(at, Reason::PipeEnded)),
        }
    }

    /// Returns whether the end of the pipe was read.
    pub(crate) fn is_ended(&self) -> bool {
        self.file_bytes < u64::MAX
    }

    /// Returns the bytes of a pipe from `at` on; `None` if there are none, or for a
    /// file.
    pub(crate) fn into_rest(mut self, at: u64) -> Option<Box<dyn Read + Send>> {
        let is_ended = self.is_ended();
        let Source::Pipe(pipe) = self.data else {
            return None;
        };
        let place = usize::try_from(at.checked_sub(self.base)?).ok()?;
        let read = self.bytes.split_off(place.min(self.bytes.len()));
        if is_ended && read.is_empty() {
            return None;
        }
        Some(Box::new(Cursor::new(read).chain(pipe)))
    }

    /// Frees the bytes before `at`, which are not read again. Has no effect on a file.
    pub(crate) fn release(&mut self, at: u64) {
        if matches!(self.data, Source::Pipe(_)) {
            let behind = at.saturating_sub(self.base);
            let behind = usize::try_from(behind).unwrap_or(usize::MAX);
            if behind >= self.bytes.len() || behind >= usize::try_from(BEHIND_BYTES).unwrap_or(0) {
                let freed = behind.min(self.bytes.len());
                self.bytes.drain(..freed);
                self.base += freed as u64;
            }
        }
    }

    /// Returns the file.
    ///
    /// # Panics
    /// Panics for a pipe, whose units are read as they arrive.
    pub(crate) fn into_data(self) -> Box<dyn Data> {
        match self.data {
            Source::File(data) => data,
            Source::Pipe(_) => unreachable!("readers of pipes fetch no units later"),
        }
    }

    fn place_of(&self, at: u64, length: usize) -> Option<usize> {
        let place = usize::try_from(at.checked_sub(self.base)?).ok()?;
        (place.checked_add(length)? <= self.bytes.len()).then_some(place)
    }

    fn fill(&mut self, at: u64, length: usize) -> Result<(), Fault> {
        let failed = |error| Fault::at(at, Reason::Read(error));
        let data = match &mut self.data {
            Source::File(data) => data,
            Source::Pipe(_) => return self.fill_from_pipe(at, length),
        };
        self.base = at.saturating_sub(BEHIND_BYTES);
        self.bytes.clear();
        data.seek(SeekFrom::Start(self.base)).map_err(failed)?;
        let mut window = data.take(BEHIND_BYTES + AHEAD_BYTES);
        window.read_to_end(&mut self.bytes).map_err(failed)?;
        Ok(())
    }

    /// Reads a pipe until `length` bytes at `at` are there, or until its end.
    fn fill_from_pipe(&mut self, at: u64, length: usize) -> Result<(), Fault> {
        let Source::Pipe(pipe) = &mut self.data else {
            return Ok(());
        };
        let end = at.saturating_add(length as u64);
        let mut read = [0; READ_BYTES];
        while self.base + (self.bytes.len() as u64) < end {
            if self.bytes.is_empty() && self.base < at {
                // Bytes that nobody asked for are passed over without being kept.
                let over = (at - self.base).min(READ_BYTES as u64);
                let over = usize::try_from(over).unwrap_or(READ_BYTES);
                let count = read_some(pipe.as_mut(), &mut read[..over], at)?;
                self.base += count as u64;
                if count == 0 {
                    self.file_bytes = self.base;
                    break;
                }
                continue;
            }
            if self.bytes.len() > PIPE_BYTES_MAX {
                let reason = "a length is larger than any frame";
                return Err(Fault::at(at, Reason::Damaged(reason)));
            }
            let count = read_some(pipe.as_mut(), &mut read, at)?;
            self.bytes.extend_from_slice(&read[..count]);
            if count == 0 {
                self.file_bytes = self.base + self.bytes.len() as u64;
                break;
            }
        }
        Ok(())
    }
}

/// Reads what there is, at least one byte, but 0 at the end.
fn read_some(pipe: &mut dyn Read, out: &mut [u8], at: u64) -> Result<usize, Fault> {
    loop {
        match pipe.read(out) {
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Fault::at(at, Reason::Read(error))),
        }
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
