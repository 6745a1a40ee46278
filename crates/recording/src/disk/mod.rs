//! The file layer below recordings: the calls to a disk, and the reasons of refusals.
//!
//! The writers know disks by these traits alone, so that tests put a slow, a full or a forgetful one in
//! place of the real.

mod failure;
#[cfg(test)]
pub(crate) mod model;
mod range_calls;
mod system;

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Instant;

use bytes::Bytes;

pub(crate) use failure::{Failure, FailureKind};
pub(crate) use system::SystemDisk;

/// A disk with folders of recordings.
pub(crate) trait Disk: fmt::Debug + Send + Sync {
    /// Makes the file at `path`, with the folders above it.
    ///
    /// # Errors
    /// Returns the system's error: `AlreadyExists` if there is something at `path`.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Deletes the file at `path`.
    ///
    /// # Errors
    /// Returns the system's error.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns the time now.
    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// A file that is written from its beginning to its end.
pub(crate) trait DiskFile: fmt::Debug + Send + Sync {
    /// Appends the pieces, whole.
    ///
    /// # Errors
    /// Returns the system's error. A part of the pieces may have been written.
    fn append(&self, pieces: &[Bytes]) -> io::Result<()>;

    /// Overwrites the bytes at `offset`.
    ///
    /// # Errors
    /// Returns the system's error.
    fn overwrite(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Reserves space behind the end of the file, which does not make the file longer.
    ///
    /// # Errors
    /// Returns the system's error if there is no such space. A file system that cannot reserve is no
    /// error.
    fn reserve(&self, offset: u64, bytes: u64) -> io::Result<()>;

    /// Makes the system begin to write this range to the disk.
    fn begin_writeback(&self, offset: u64, bytes: u64);

    /// Lets the system forget what it has in memory of this range, which is on the disk.
    fn forget_cached(&self, offset: u64, bytes: u64);

    /// Returns when everything that was appended is on the disk.
    ///
    /// # Errors
    /// Returns the system's error, after which the content of the disk is unknown.
    fn sync(&self) -> io::Result<()>;

    /// Makes the file end at `bytes`, and returns what was reserved behind.
    ///
    /// # Errors
    /// Returns the system's error.
    fn truncate(&self, bytes: u64) -> io::Result<()>;
}
