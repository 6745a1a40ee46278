//! Copies of files in object storage, as the catalogue knows them.
//!
//! ```text
//! closed ─ next_to_copy ─► copied ─ deleted here ─► copy alone ─ forget_copy ─► (no row)
//!    └─ note_not_copied, five times ─► refused
//! ```
//!
//! The states are in the index, so that no file is forgotten when the server ends, however it does. Who
//! copies, and to where, is the caller's.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use glassline_hub::StreamName;

use super::file::{CopiesWaiting, RecordedFile};
use super::held::Copies;
use super::index::FolderIndex;
use super::{Catalogue, CatalogueError};
use crate::folder::{Folder, remove_empty_folders};

impl Catalogue {
    /// Puts the storage in force that has the copies; `None` if there is none any more.
    pub fn set_copies(&self, copies: Option<Arc<dyn Copies>>) {
        let mut current = self.copies.write().unwrap_or_else(PoisonError::into_inner);
        *current = copies;
    }

    /// Returns the closed file that is to be copied next, of the streams that `wanted` names.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if an index fails.
    pub fn next_to_copy(
        &self,
        wanted: &dyn Fn(&StreamName) -> bool,
    ) -> Result<Option<RecordedFile>, CatalogueError> {
        let mut next: Option<RecordedFile> = None;
        for folder in self.folders() {
            for stream in folder.stream_names()?.iter().filter(|it| wanted(it)) {
                let found = folder.next_to_copy(stream)?;
                let is_older =
                    |it: &RecordedFile| next.as_ref().is_none_or(|next| it.start < next.start);
                if let Some(file) = found.filter(is_older) {
                    next = Some(file);
                }
            }
        }
        Ok(next)
    }

    /// Counts the files that wait for a copy, of the streams that `wanted` names.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if an index fails.
    pub fn copies_waiting(
        &self,
        wanted: &dyn Fn(&StreamName) -> bool,
    ) -> Result<CopiesWaiting, CatalogueError> {
        let mut sum = CopiesWaiting::default();
        for folder in self.folders() {
            folder.count_waiting(wanted, &mut sum)?;
        }
        Ok(sum)
    }

    /// Returns the key of the copy of the file at `path`: its path below its folder.
    pub fn key_of_copy(&self, path: &Path) -> Option<String> {
        let folder = self.folder_of(path)?;
        let below = path.strip_prefix(folder.folder()).ok()?;
        Some(below.to_string_lossy().into_owned())
    }

    /// Notes that the storage has confirmed a copy of the file at `path`.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if the index cannot be written.
    pub fn note_copied(&self, path: &Path) -> Result<(), CatalogueError> {
        self.change_copy(path, FolderIndex::note_copied)
    }

    /// Notes that the file at `path` could not be read for a copy. After five times the file is not tried
    /// any more. A disk that is away is no fault of a file.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if the index cannot be written.
    pub fn note_not_copied(&self, path: &Path) -> Result<(), CatalogueError> {
        self.change_copy(path, |index, below| {
            match Folder::identity_of(index.folder()) {
                Ok(Some(_)) => index.note_not_copied(below),
                _ => Ok(()),
            }
        })
    }

    /// Forgets the file at `path`, of which only the copy was left, and which the storage has deleted.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if the index cannot be written.
    pub fn forget_copy(&self, path: &Path) -> Result<(), CatalogueError> {
        self.change_copy(path, |index, below| {
            index.forget(below)?;
            remove_empty_folders(index.folder(), path, true);
            Ok(())
        })
    }

    fn change_copy(
        &self,
        path: &Path,
        change: impl FnOnce(&FolderIndex, &Path) -> Result<(), CatalogueError>,
    ) -> Result<(), CatalogueError> {
        let folder = self.folder_of(path).ok_or(CatalogueError::NoFolder)?;
        let below = path.strip_prefix(folder.folder()).unwrap_or(path);
        change(&folder, below)
    }

    fn folder_of(&self, path: &Path) -> Option<Arc<FolderIndex>> {
        let mut folders = self.folders().into_iter();
        folders.find(|it| path.starts_with(it.folder()))
    }
}
