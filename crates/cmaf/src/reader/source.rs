use std::io;

use bytes::Bytes;

/// Bytes that can be read at any offset: an open file, an object of a store, a buffer.
pub trait ReadAt {
    /// Returns the number of bytes.
    ///
    /// # Errors
    /// The number is not known.
    fn byte_count(&self) -> io::Result<u64>;

    /// Reads bytes at `offset`, as many as `buffer` has room for, or fewer. Returns their number; 0 at
    /// the end.
    ///
    /// # Errors
    /// The bytes cannot be read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn byte_count(&self) -> io::Result<u64> {
        (**self).byte_count()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(offset, buffer)
    }
}

impl ReadAt for [u8] {
    fn byte_count(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.get(start..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

impl ReadAt for Vec<u8> {
    fn byte_count(&self) -> io::Result<u64> {
        self.as_slice().byte_count()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.as_slice().read_at(offset, buffer)
    }
}

impl ReadAt for Bytes {
    fn byte_count(&self) -> io::Result<u64> {
        self.as_ref().byte_count()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.as_ref().read_at(offset, buffer)
    }
}

#[cfg(unix)]
impl ReadAt for std::fs::File {
    fn byte_count(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buffer, offset)
    }
}
