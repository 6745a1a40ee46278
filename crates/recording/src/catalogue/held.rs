//! Files that somebody reads, which nothing deletes meanwhile.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The readers of each file.
#[derive(Debug, Default)]
pub(crate) struct Holders(Mutex<HashMap<PathBuf, usize>>);

/// A file that is kept from deletion for as long as this value lives.
#[derive(Debug)]
pub struct HeldFile {
    path: PathBuf,
    holders: Arc<Holders>,
}

impl HeldFile {
    /// Returns where the file is.
    pub fn path(&self) -> &Path {
        &self.path
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
    /// Holds the file at `path`, if it exists.
    pub(crate) fn hold(self: &Arc<Self>, path: &Path) -> Option<HeldFile> {
        // Under the lock, so that the file is not deleted between the look and the count.
        let mut counts = self.lock();
        if !path.exists() {
            return None;
        }
        *counts.entry(path.to_owned()).or_default() += 1;
        Some(HeldFile {
            path: path.to_owned(),
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
