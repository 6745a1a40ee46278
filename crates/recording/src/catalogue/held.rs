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

/// The readers of each file. A disk that hangs holds up whoever reads or deletes its files, and no others: the
/// disk is never waited for under the lock.
#[derive(Debug, Default)]
pub(crate) struct Holders(Mutex<HashMap<PathBuf, Holding>>);

/// The use of a file.
#[derive(Debug, Default)]
struct Holding {
    readers: usize,
    /// Whether the file is being deleted, and is gone for new readers.
    is_deleted: bool,
}

/// A file that is being deleted, for as long as this value lives.
struct Deletion<'a> {
    path: &'a Path,
    holders: &'a Holders,
}

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
        self.holders.change(&self.path, |it| it.readers -= 1);
    }
}

impl Holders {
    /// Holds the file at `path`, if it or its copy exists.
    pub(super) fn hold(self: &Arc<Self>, path: &Path, copy: Option<HeldCopy>) -> Option<HeldFile> {
        let mut is_gone = false;
        self.change(path, |it| {
            it.readers += 1;
            is_gone = it.is_deleted;
        });
        // From here on nothing deletes the file, so that it stays if it exists.
        let mut held = HeldFile {
            path: path.to_owned(),
            copy: None,
            holders: Arc::clone(self),
        };
        if is_gone || !path.exists() {
            held.copy = Some(copy?);
        }
        Some(held)
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
        let mut is_free = false;
        self.change(path, |it| {
            is_free = it.readers == 0 && !it.is_deleted;
            it.is_deleted |= is_free;
        });
        if !is_free {
            return Ok(false);
        }
        let deletion = Deletion {
            path,
            holders: self,
        };
        let deleted = delete();
        drop(deletion);
        deleted.map(|()| true)
    }

    /// Changes the use of a file, which is forgotten when there is none.
    fn change(&self, path: &Path, change: impl FnOnce(&mut Holding)) {
        let mut files = self.lock();
        let holding = files.entry(path.to_owned()).or_default();
        change(holding);
        if holding.readers == 0 && !holding.is_deleted {
            files.remove(path);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Holding>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Deletion<'_> {
    fn drop(&mut self) {
        self.holders.change(self.path, |it| it.is_deleted = false);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_deletion_that_hangs_holds_up_its_own_file_alone() {
        let holders = Arc::<Holders>::default();
        // Any two files that exist.
        let (hangs, other) = (Path::new("/dev/null"), Path::new("/dev/zero"));
        let (begin, begun) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let deleting = std::thread::spawn({
            let holders = Arc::clone(&holders);
            move || {
                holders.delete_unheld(hangs, || {
                    begin.send(()).expect("the test waits");
                    ends.recv().expect("the test ends it");
                    Ok(())
                })
            }
        });
        begun.recv().expect("it begins");
        let held = holders.hold(other, None).expect("it is there");
        assert!(!held.is_copy());
        assert!(holders.hold(hangs, None).is_none(), "it is as good as gone");
        let again = holders.delete_unheld(hangs, || panic!("once"));
        assert!(!again.expect("no error"));
        let other_is_deleted = holders.delete_unheld(other, || panic!("it is held"));
        assert!(!other_is_deleted.expect("no error"));
        end.send(()).expect("it waits");
        assert!(deleting.join().expect("no panic").expect("no error"));
        drop(held);
        assert!(holders.lock().is_empty(), "nothing is left");
        assert!(holders.delete_unheld(other, || Ok(())).expect("no error"));
    }
}
