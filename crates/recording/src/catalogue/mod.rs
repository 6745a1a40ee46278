//! The catalogue: which streams were recorded when, and in which files.
//!
//! ```text
//! writers ─ begin, grow, end ─► FolderIndex (SQLite, one row a file) ◄─ files, spans, marks ─ playback
//!                                  ▲ made anew from the files by repair        │
//!                                  └─ retention ◄─ nothing that is held ◄─ HeldFile
//! ```
//!
//! Each folder has an index of its own, which moves with its disk. What grows at the moment is in memory
//! beside it, so that a file of an hour is found from its first fragment on.
//!
//! Calls read a disk: a task calls them from a thread that may block.

mod copies;
mod file;
mod held;
mod index;
mod mark;
mod repair;
mod span;
mod stage_minutes;
mod survey;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use glassline_hub::StreamName;

pub use file::{CopiesWaiting, CopyState, RecordedFile, RecordedStream, RecordedTrack, TimeRange};
pub use held::{Copies, HeldFile, OpenRecording};
pub use mark::{Mark, NewMark};
pub use repair::{Findings, check};
pub use span::Span;
pub use stage_minutes::StageMinute;

use held::HeldCopy;
pub(crate) use held::Holders;
pub(crate) use index::{FolderIndex, Growth};
pub(crate) use survey::find_after_crash;

use crate::folder::{FilePlace, Folder};

/// Finds recordings in one or more folders. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    folders: Arc<RwLock<Vec<Arc<FolderIndex>>>>,
    holders: Arc<Holders>,
    /// The storage that has the copies of files.
    copies: Arc<RwLock<Option<Arc<dyn Copies>>>>,
}

/// Reason why a catalogue does not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// The index of a folder cannot be read or written.
    #[error(
        "the index of the recordings in {} fails: {reason}; `glassline recordings repair {}` makes it anew",
        folder.display(), folder.display()
    )]
    Index {
        /// Path of the folder.
        folder: PathBuf,
        /// Reason as SQLite says it.
        reason: String,
        /// Kind of the disk's failure, if it is one.
        kind: io::ErrorKind,
    },
    /// A file beside the index cannot be read or written.
    #[error("{}: {error}", file.display())]
    Io {
        /// The file or folder.
        file: PathBuf,
        /// The error that the system returned.
        error: io::Error,
    },
    /// The server has no folder of recordings.
    #[error("no folder of recordings is there now; the setting `recordings.folder` names one")]
    NoFolder,
}

impl From<CatalogueError> for io::Error {
    fn from(error: CatalogueError) -> Self {
        let kind = match &error {
            CatalogueError::Index { kind, .. } => *kind,
            CatalogueError::Io { error, .. } => error.kind(),
            CatalogueError::NoFolder => io::ErrorKind::NotFound,
        };
        Self::new(kind, error.to_string())
    }
}

impl Catalogue {
    /// Adds a folder that this process writes to, in place of one that was at the same path.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if the folder's index cannot be opened.
    pub fn add(&self, folder: &Folder) -> Result<(), CatalogueError> {
        self.insert(FolderIndex::open(folder.path())?);
        Ok(())
    }

    /// Makes the index of `folder` anew from its files, and returns the faults of the files.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if the folder cannot be read, or the index cannot be written.
    pub fn repair(folder: &Folder) -> Result<Findings, CatalogueError> {
        // An index that is damaged is not asked: what is on the disk is then copied again.
        let before = FolderIndex::open_for_reading(folder.path()).and_then(|it| it.copied());
        let index = FolderIndex::made_anew(folder.path())?;
        repair::repair(&index, before.unwrap_or_default())
    }

    /// Adds a folder that another process may write to, for reading alone.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if the folder has no index, or one that cannot be read.
    pub fn add_for_reading(&self, folder: &Path) -> Result<(), CatalogueError> {
        self.insert(FolderIndex::open_for_reading(folder)?);
        Ok(())
    }

    /// Forgets the folder at `path`, because its disk is away or nothing is recorded there any more.
    pub fn remove(&self, path: &Path) {
        let mut folders = self.folders.write().unwrap_or_else(PoisonError::into_inner);
        folders.retain(|it| it.folder() != path);
    }

    /// Returns each folder by its path, with a catalogue of it alone.
    pub fn by_folder(&self) -> Vec<(PathBuf, Self)> {
        let folders = self.folders().into_iter();
        let alone = folders.map(|folder| {
            let path = folder.folder().to_owned();
            let catalogue = Self {
                folders: Arc::new(RwLock::new(vec![folder])),
                ..self.clone()
            };
            (path, catalogue)
        });
        alone.collect()
    }

    /// Returns a catalogue of the present folders but those for whose paths `is_left_out` holds.
    #[must_use]
    pub fn without(&self, is_left_out: impl Fn(&Path) -> bool) -> Self {
        let mut folders = self.folders();
        folders.retain(|it| !is_left_out(it.folder()));
        Self {
            folders: Arc::new(RwLock::new(folders)),
            ..self.clone()
        }
    }

    /// Returns every stream that has recordings, by name.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if an index fails.
    pub fn streams(&self) -> Result<Vec<RecordedStream>, CatalogueError> {
        let mut streams = BTreeMap::<StreamName, RecordedStream>::new();
        for folder in self.folders() {
            for stream in folder.streams()? {
                match streams.get_mut(&stream.name) {
                    Some(known) => known.join(&stream),
                    None => {
                        streams.insert(stream.name.clone(), stream);
                    }
                }
            }
        }
        Ok(streams.into_values().collect())
    }

    /// Returns the files of a stream that have something of `range`, by their beginnings; of all layers
    /// that are recorded.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if an index fails.
    pub fn files(
        &self,
        stream: &StreamName,
        range: TimeRange,
    ) -> Result<Vec<RecordedFile>, CatalogueError> {
        let mut files = Vec::new();
        for folder in self.folders() {
            folder.files(stream, range, &mut files)?;
        }
        files.sort_by(|one, other| (one.start, &one.layer).cmp(&(other.start, &other.layer)));
        Ok(files)
    }

    /// Returns the files of a stream next to `at`, by their beginnings: in each folder the last `count` that
    /// begin at or before `at`, and the first `count` that begin after it; of one layer, or of all if `layer`
    /// is `None`. Takes as long for a day of recordings as for years of them.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if an index fails.
    pub fn around(
        &self,
        stream: &StreamName,
        layer: Option<&str>,
        at: SystemTime,
        count: u32,
    ) -> Result<Vec<RecordedFile>, CatalogueError> {
        let mut files = Vec::new();
        for folder in self.folders() {
            folder.around(stream, layer, at, count, &mut files)?;
        }
        files.sort_by(|one, other| (one.start, &one.layer).cmp(&(other.start, &other.layer)));
        Ok(files)
    }

    /// Returns the continuous stretches of a stream within `range`, by their beginnings. Whatever is
    /// between two of them was not recorded.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if an index fails.
    pub fn spans(
        &self,
        stream: &StreamName,
        range: TimeRange,
    ) -> Result<Vec<Span>, CatalogueError> {
        let files = self.files(stream, range)?;
        Ok(span::of_files(&files, range))
    }

    /// Returns the marks of a stream that have something of `range`, by their beginnings.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if an index fails.
    pub fn marks(
        &self,
        stream: &StreamName,
        range: TimeRange,
    ) -> Result<Vec<Mark>, CatalogueError> {
        let mut marks = Vec::new();
        for folder in self.folders() {
            folder.marks(stream, range, &mut marks)?;
        }
        marks.sort_by_key(|it| (it.from, it.number));
        Ok(marks)
    }

    /// Keeps `file` from deletion until the answer is dropped. Returns `None` if the file is gone
    /// already, and has no copy.
    pub fn hold(&self, file: &RecordedFile) -> Option<HeldFile> {
        let copies = self.copies.read().unwrap_or_else(PoisonError::into_inner);
        let copies = copies.clone().filter(|_| file.copy.exists());
        let copy = copies
            .zip(self.key_of_copy(&file.path))
            .map(|(copies, key)| HeldCopy {
                copies,
                key,
                bytes: file.bytes,
            });
        self.holders.hold(&file.path, copy)
    }

    /// Keeps the file of a stream at `path` from deletion until the answer is dropped. Returns `None` if there
    /// is no such file of that stream in any folder.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if an index fails.
    pub fn hold_at(
        &self,
        stream: &StreamName,
        path: &Path,
    ) -> Result<Option<HeldFile>, CatalogueError> {
        for folder in self.folders() {
            let Ok(below) = path.strip_prefix(folder.folder()) else {
                continue;
            };
            let place = FilePlace::parse(below);
            if place.is_some_and(|it| it.stream == *stream) {
                return Ok(folder.file_at(below)?.and_then(|it| self.hold(&it)));
            }
        }
        Ok(None)
    }

    /// Marks a span of a stream, in the folder that has most of it.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if there is no folder, or the mark cannot be written.
    pub fn mark(&self, mark: NewMark) -> Result<Mark, CatalogueError> {
        let range = TimeRange {
            from: mark.from,
            to: mark.to,
        };
        let newest = self.files(&mark.stream, range)?.pop();
        let folders = self.folders();
        let has = |it: &&Arc<FolderIndex>| {
            let newest = newest.as_ref();
            newest.is_none_or(|file| file.path.starts_with(it.folder()))
        };
        let folder = folders.iter().find(has);
        folder.ok_or(CatalogueError::NoFolder)?.add_mark(mark)
    }

    /// Returns the index of the folder at `path`.
    pub(crate) fn folder(&self, path: &Path) -> Option<Arc<FolderIndex>> {
        self.folders().into_iter().find(|it| it.folder() == path)
    }

    /// Returns the holders of files.
    pub(crate) fn holders(&self) -> &Arc<Holders> {
        &self.holders
    }

    fn insert(&self, index: FolderIndex) {
        let mut folders = self.folders.write().unwrap_or_else(PoisonError::into_inner);
        folders.retain(|it| it.folder() != index.folder());
        folders.push(Arc::new(index));
    }

    fn folders(&self) -> Vec<Arc<FolderIndex>> {
        let folders = self.folders.read().unwrap_or_else(PoisonError::into_inner);
        folders.clone()
    }
}

#[cfg(test)]
mod tests;
