//! The fragments of files that have no index yet, so that a file of an hour is not read through again for
//! every part of it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glassline_cmaf::{FragmentEntry, ReadAt, ReadError, RecordedFile};
use glassline_recording::Catalogue;

/// Most fragments that are kept, of all files: a day and four hours take 6 MB.
const FRAGMENTS_MAX: usize = 100_000;

/// The means by which files are opened.
#[derive(Clone, Debug)]
pub(super) struct FileOpener {
    pub(super) catalogue: Catalogue,
    pub(super) growing: Arc<GrowingFiles>,
}

impl FileOpener {
    /// Returns the means for what plays from `catalogue` alone, and keeps its file open.
    pub(super) fn of(catalogue: &Catalogue) -> Self {
        Self {
            catalogue: catalogue.clone(),
            growing: Arc::default(),
        }
    }
}

/// The fragments of growing files that were read lately, the latest file last.
#[derive(Debug, Default)]
pub(super) struct GrowingFiles(Mutex<VecDeque<(PathBuf, Vec<FragmentEntry>)>>);

impl GrowingFiles {
    /// Opens the file at `path`, of which `open` gives the bytes. Blocks.
    pub(super) fn open<S: ReadAt>(
        &self,
        path: &Path,
        open: impl Fn() -> std::io::Result<S>,
    ) -> Result<RecordedFile<S>, ReadError> {
        let source = || {
            open().map_err(|error| ReadError::Io {
                offset: 0,
                bytes: 0,
                error,
            })
        };
        let known = self.take(path);
        let file = match known {
            Some(known) => {
                let mut file = RecordedFile::open_with(source()?, known)?;
                match file.is_finished() {
                    // Its index may have another end: a repair cuts what is not whole.
                    true => RecordedFile::open(source()?)?,
                    false => {
                        file.refresh()?;
                        file
                    }
                }
            }
            None => RecordedFile::open(source()?)?,
        };
        if !file.is_finished() {
            self.keep(path, file.fragments());
        }
        Ok(file)
    }

    fn take(&self, path: &Path) -> Option<Vec<FragmentEntry>> {
        let mut files = self.lock();
        let position = files.iter().position(|(it, _)| it == path)?;
        files.remove(position).map(|(_, fragments)| fragments)
    }

    fn keep(&self, path: &Path, fragments: &[FragmentEntry]) {
        let mut files = self.lock();
        files.retain(|(it, _)| it != path);
        files.push_back((path.to_owned(), fragments.to_vec()));
        let count = |files: &VecDeque<(PathBuf, Vec<FragmentEntry>)>| {
            files.iter().map(|(_, it)| it.len()).sum::<usize>()
        };
        while count(&files) > FRAGMENTS_MAX {
            files.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(PathBuf, Vec<FragmentEntry>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
