//! Files that somebody reads, which nothing deletes meanwhile.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glassline_cmaf::ReadAt;

/// The storage that has copies.
pub trait Copies: fmt::Debug + Send + Sync {
    /// Reads bytes of the copy `key` at `offset`, as many as `buffer` has room for, or fewer; 0 at the
    /// end. Blocks.
    ///
    /// # Errors
    /// Returns an error whose text names the storage if it does not answer, or has no such copy.
    fn read_at(&self, key: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

/// The readers of each file.
#[derive(Debug, Default)]
pub(crate) struct Holders(Mutex<HashMap<PathBuf, usize>>);

/// A file that is kept from deletion for as long as this value lives.
#[derive(Debug)]
pub struct HeldFile {
    path: PathBuf,
    /// The copy, if the file itself is gone.
    copy: Option<HeldCopy>,
    holders: Arc<Holders>,
}

/// The copy of a file that somebody reads.
#[derive(Clone, Debug)]
pub(super) struct HeldCopy {
    pub(super) copies: Arc<dyn Copies>,
    pub(super) key: String,
    pub(super) bytes: u64,
}

/// A recorded file that is open: the file itself, or its copy.
#[derive(Debug)]
pub struct OpenRecording(Opened);

#[derive(Debug)]
enum Opened {
    File(File),
    Copy(HeldCopy),
}

impl HeldFile {
    /// Returns where the file is, or was.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file is gone, and its copy is read.
    pub fn is_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// Opens the file, or its copy if the file is gone.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn open(&self) -> io::Result<OpenRecording> {
        Ok(OpenRecording(match &self.copy {
            Some(copy) => Opened::Copy(copy.clone()),
            None => Opened::File(File::open(&self.path)?),
        }))
    }
}

impl OpenRecording {
    /// Fills `buffer` with the bytes at `offset`.
    ///
    /// # Errors
    /// Returns the error of the system or the storage, or that the file ends before.
    pub fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            let read = self.read_at(offset, buffer)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer = &mut buffer[read..];
            offset += read as u64;
        }
        Ok(())
    }
}

impl ReadAt for OpenRecording {
    fn byte_count(&self) -> io::Result<u64> {
        match &self.0 {
            Opened::File(file) => file.byte_count(),
            Opened::Copy(copy) => Ok(copy.bytes),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.0 {
            Opened::File(file) => FileExt::read_at(file, buffer, offset),
            Opened::Copy(copy) => {
                let left = copy.bytes.saturating_sub(offset);
                let length = buffer
                    .len()
                    .min(usize::try_from(left).unwrap_or(usize::MAX));
                copy.copies
                    .read_at(&copy.key, offset, &mut buffer[..length])
            }
        }
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        let mut counts = self.holders.lock();
        if let Some(count) = counts.get_mut(&self.path) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.path);
            }
        }
    }
}

impl Holders {
    /// Holds the file at `path`, if it or its copy exists.
    pub(super) fn hold(self: &Arc<Self>, path: &Path, copy: Option<HeldCopy>) -> Option<HeldFile> {
        // Under the lock, so that the file is not deleted between the look and the count.
        let mut counts = self.lock();
        let copy = match path.exists() {
            true => None,
            false => Some(copy?),
        };
        *counts.entry(path.to_owned()).or_default() += 1;
        Some(HeldFile {
            path: path.to_owned(),
            copy,
            holders: Arc::clone(self),
        })
    }

    /// Deletes the file at `path` by `delete`, unless somebody holds it. Returns whether it was deleted.
    ///
    /// # Errors
    /// Returns the error of `delete`.
    pub(crate) fn delete_unheld(
        &self,
        path: &Path,
        delete: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<bool> {
        let counts = self.lock();
        if counts.contains_key(path) {
            return Ok(false);
        }
        delete().map(|()| true)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
