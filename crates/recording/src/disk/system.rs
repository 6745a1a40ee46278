//! The disks of this machine.

use std::fs::File;
use std::io::{self, IoSlice, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use super::range_calls;
use super::{Disk, DiskFile};

/// Most pieces of one system call; `IOV_MAX` of Linux is 1024.
const PIECES_MAX: usize = 512;

/// The disks of this machine, as the operating system shows them.
#[derive(Debug)]
pub(crate) struct SystemDisk;

impl Disk for SystemDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        let file = match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(folder) = path.parent() {
                    std::fs::create_dir_all(folder)?;
                }
                options.open(path)?
            }
            opened => opened?,
        };
        Ok(Box::new(SystemFile {
            file,
            unsynced_path: Mutex::new(Some(path.to_owned())),
        }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }
}

#[derive(Debug)]
struct SystemFile {
    file: File,
    /// Path of the file while its name may not be on the disk yet.
    unsynced_path: Mutex<Option<PathBuf>>,
}

impl DiskFile for SystemFile {
    fn append(&self, pieces: &[Bytes]) -> io::Result<()> {
        let mut file = &self.file;
        for group in pieces.chunks(PIECES_MAX) {
            let mut slices: Vec<IoSlice<'_>> = group.iter().map(|it| IoSlice::new(it)).collect();
            let mut rest = &mut slices[..];
            // Skips pieces without bytes, for which a write returns zero.
            IoSlice::advance_slices(&mut rest, 0);
            while !rest.is_empty() {
                match file.write_vectored(rest) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => IoSlice::advance_slices(&mut rest, written),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn overwrite(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = &self.file;
        let end = file.stream_position()?;
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(bytes)?;
        file.seek(SeekFrom::Start(end)).map(|_| ())
    }

    fn reserve(&self, offset: u64, bytes: u64) -> io::Result<()> {
        range_calls::reserve(&self.file, offset, bytes)
    }

    fn begin_writeback(&self, offset: u64, bytes: u64) {
        range_calls::begin_writeback(&self.file, offset, bytes);
    }

    fn forget_cached(&self, offset: u64, bytes: u64) {
        range_calls::forget_cached(&self.file, offset, bytes);
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        let mut unsynced = self
            .unsynced_path
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = &*unsynced {
            sync_names(path)?;
            *unsynced = None;
        }
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }
}

/// Number of folders above a file that may be new: that of the day, that of the stream, and its own.
const FOLDERS_ABOVE: usize = 3;

/// Brings the names of a new file, and of the folders above it, to the disk.
fn sync_names(path: &Path) -> io::Result<()> {
    for folder in path.ancestors().skip(1).take(FOLDERS_ABOVE) {
        if cfg!(unix) {
            File::open(folder)?.sync_all()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_file_has_what_was_appended_and_no_reserved_space_when_it_is_truncated() {
        let scratch = Scratch::new();
        let path = scratch.path().join("site/cam/2026-11-30/a.mp4");
        let file = SystemDisk.create(&path).expect("a new file");
        file.reserve(0, 1 << 20).expect("space");
        // More pieces than one system call takes, and some of them empty.
        let piece = |number: usize| Bytes::from(vec![b'x'; number % 3]);
        let pieces: Vec<Bytes> = (0..2000).map(piece).collect();
        let bytes = pieces.iter().map(Bytes::len).sum::<usize>();
        file.append(&pieces).expect("written");
        file.overwrite(1, b"yz").expect("written");
        file.append(&[Bytes::from_static(b"end")]).expect("written");
        file.begin_writeback(0, 100);
        file.sync().expect("a disk");
        file.forget_cached(0, 100);
        file.truncate(bytes as u64 + 3).expect("truncated");
        let read = std::fs::read(&path).expect("a file");
        assert_eq!(read.len(), bytes + 3);
        assert_eq!((&read[..4], &read[bytes..]), (&b"xyzx"[..], &b"end"[..]));
        let again = SystemDisk.create(&path).expect_err("it exists");
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }
}
