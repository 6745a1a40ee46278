//! The audio of a track without the chunks that cut it.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use crate::Data;

/// Offset that stands for the first byte of joined audio in an index, beyond those of any file.
pub(super) const BEGIN: u64 = 1 << 62;

/// A chunk of audio.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Bytes of the chunks before.
    pub(super) before: u64,
    /// Offset of the chunk's bytes in the file.
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// The bytes of all parts, one behind the other.
pub(super) struct Joined {
    data: Box<dyn Data>,
    parts: Arc<[Part]>,
    position: u64,
}

impl Joined {
    pub(super) fn new(data: Box<dyn Data>, parts: Vec<Part>) -> Self {
        Self {
            data,
            parts: parts.into(),
            position: 0,
        }
    }

    /// Returns another reader of the same bytes.
    pub(super) fn again(&self) -> Self {
        Self {
            data: self.data.fork(),
            parts: Arc::clone(&self.parts),
            position: 0,
        }
    }

    fn length(&self) -> u64 {
        self.parts
            .last()
            .map_or(0, |last| last.before + last.length)
    }
}

impl Read for Joined {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let ends = |part: &Part| part.before + part.length <= self.position;
        let place = self.parts.partition_point(ends);
        let Some(part) = self.parts.get(place) else {
            return Ok(0);
        };
        let inside = self.position - part.before;
        let left = usize::try_from(part.length - inside).unwrap_or(usize::MAX);
        let count = left.min(buffer.len());
        self.data.seek(SeekFrom::Start(part.offset + inside))?;
        let read = self.data.read(&mut buffer[..count])?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for Joined {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.length().checked_add_signed(by),
        };
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "seek before the start");
        self.position = position.ok_or_else(outside)?;
        Ok(self.position)
    }
}

impl Data for Joined {
    fn fork(&self) -> Box<dyn Data> {
        Box::new(self.again())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn parts_are_read_as_one_piece() {
        let part = |before, offset, length| Part {
            before,
            offset,
            length,
        };
        let parts = vec![part(0, 2, 3), part(3, 7, 1), part(4, 8, 2)];
        let mut joined = Joined::new(Box::new(Cursor::new(b"..abc..def..")), parts);
        let mut whole = String::new();
        joined.read_to_string(&mut whole).expect("readable");
        assert_eq!(whole, "abcdef");
        let mut other = joined.fork();
        other.seek(SeekFrom::End(-4)).expect("inside");
        let mut three = [0; 3];
        other.read_exact(&mut three).expect("readable");
        assert_eq!(&three, b"cde");
    }
}
