//! Bytes that several readers can read in any order.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// A source of bytes that can be read in any order.
pub trait Data: Read + Seek + Send {
    /// Returns the same bytes for another reader, at their start.
    fn fork(&self) -> Box<dyn Data>;
}

/// An open file. Its forks share the descriptor, and each has its own position.
#[derive(Debug)]
pub(crate) struct SharedFile {
    file: Arc<File>,
    position: u64,
}

impl SharedFile {
    pub(crate) fn new(file: File) -> Self {
        Self {
            file: Arc::new(file),
            position: 0,
        }
    }
}

impl Read for SharedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for SharedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.file.metadata()?.len().checked_add_signed(by),
        };
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "seek before the start");
        self.position = position.ok_or_else(outside)?;
        Ok(self.position)
    }
}

impl Data for SharedFile {
    fn fork(&self) -> Box<dyn Data> {
        Box::new(Self {
            file: Arc::clone(&self.file),
            position: 0,
        })
    }
}

impl Data for Box<dyn Data> {
    fn fork(&self) -> Box<dyn Data> {
        (**self).fork()
    }
}

impl<T: AsRef<[u8]> + Clone + Send + 'static> Data for Cursor<T> {
    fn fork(&self) -> Box<dyn Data> {
        Box::new(Self::new(self.get_ref().clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_of_a_file_read_each_for_itself() {
        let path = std::env::temp_dir().join(format!("glassline-fork-{}", std::process::id()));
        std::fs::write(&path, b"0123456789").expect("a file for the test");
        let mut one = SharedFile::new(File::open(&path).expect("it was just written"));
        let mut buffer = [0; 4];
        one.read_exact(&mut buffer).expect("ten bytes");
        let mut other = one.fork();
        other.read_exact(&mut buffer).expect("ten bytes");
        assert_eq!(&buffer, b"0123");
        one.read_exact(&mut buffer).expect("ten bytes");
        assert_eq!(&buffer, b"4567");
        one.seek(SeekFrom::End(-1)).expect("within");
        assert_eq!(one.read(&mut buffer).expect("readable"), 1);
        assert!(one.seek(SeekFrom::Current(-11)).is_err());
        let _ = std::fs::remove_file(&path);
    }
}
