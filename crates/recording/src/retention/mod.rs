//! What is deleted: files that are older than their stream keeps them, and the oldest ones where the
//! folder or its disk is full.
//!
//! A file that has something of a mark is kept as long as marked ones are, and for ever if the mark says
//! so. A file that somebody reads is left for the next time.

mod thread;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use glassline_hub::StreamName;

use crate::catalogue::{Catalogue, CatalogueError, FolderIndex, RecordedFile, TimeRange};
use crate::disk::{Disk, SystemDisk};
use crate::folder::{MARKS_FILE, STAGES_FILE};
use crate::recorders::{FolderPlan, Keep, Plan};
pub(crate) use thread::RetentionThread;

/// Files that are looked at together.
const TOGETHER: usize = 200;

/// Most files of one step of a round, so that a disk has time for other work.
const ROUND_MAX: usize = 500;

/// A file that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Path of the file.
    pub path: PathBuf,
    /// Size of the file.
    pub bytes: u64,
    /// Reason: `age`, `size` or `free_space`.
    pub reason: &'static str,
}

/// Deletes what is not to be kept.
#[derive(Debug)]
pub struct Retention {
    catalogue: Catalogue,
    disk: Arc<dyn Disk>,
    free_bytes: fn(&Path) -> io::Result<u64>,
}

impl Retention {
    /// Creates what deletes the files of a catalogue.
    pub fn new(catalogue: Catalogue) -> Self {
        Self {
            catalogue,
            disk: Arc::new(SystemDisk),
            free_bytes: |folder| glassline_net::disk_space(folder).map(|it| it.free_bytes),
        }
    }

    /// Deletes what `plan` does not keep at `now`. Call this every few seconds, from a thread that may
    /// block.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if an index fails.
    pub fn round(&self, plan: &Plan, now: SystemTime) -> Result<Vec<Deleted>, CatalogueError> {
        let mut deleted = Vec::new();
        for folder in &plan.folders {
            let Some(index) = self.catalogue.folder(&folder.path) else {
                continue;
            };
            let round = Round {
                retention: self,
                index: &index,
                plan,
                folder,
                now,
            };
            round.run(&mut deleted)?;
        }
        Ok(deleted)
    }
}

/// One round through one folder.
struct Round<'a> {
    retention: &'a Retention,
    index: &'a Arc<FolderIndex>,
    plan: &'a Plan,
    folder: &'a FolderPlan,
    now: SystemTime,
}

/// Bytes that are to be deleted.
#[derive(Clone, Copy, Debug)]
struct Excess {
    /// Bytes beyond the most that a folder has.
    over: u64,
    /// Bytes that the disk has too little.
    missing: u64,
}

impl Excess {
    /// Returns why something is to be deleted; `None` if there is space.
    const fn reason(self) -> Option<&'static str> {
        match (self.over, self.missing) {
            (0, 0) => None,
            (over, missing) if over >= missing => Some("size"),
            _ => Some("free_space"),
        }
    }
}

/// Whether a file may be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The file is older than its stream keeps it.
    TooOld,
    /// The file is kept while there is space.
    WhileSpace,
    /// The file is kept because of a mark, until there is nothing else to delete.
    Marked,
    /// The file is kept for ever.
    ForEver,
}

impl Round<'_> {
    fn run(&self, deleted: &mut Vec<Deleted>) -> Result<(), CatalogueError> {
        self.delete_old(deleted)?;
        // A disk that does not say how much it has is not emptied.
        let free = (self.retention.free_bytes)(&self.folder.path).unwrap_or(u64::MAX);
        let missing = self.folder.free_min.saturating_sub(free);
        let over = match self.folder.bytes_max {
            Some(most) => self.index.bytes()?.saturating_sub(most),
            None => 0,
        };
        let mut excess = Excess { over, missing };
        self.delete_oldest(&mut excess, deleted)
    }

    /// Deletes the files of each stream that are older than it keeps them.
    fn delete_old(&self, deleted: &mut Vec<Deleted>) -> Result<(), CatalogueError> {
        for stream in self.index.stream_names()? {
            self.index.forget_old_marks(&stream)?;
            let keep = self.keep_of(&stream);
            let Some(before) = keep.age.and_then(|it| self.now.checked_sub(it)) else {
                continue;
            };
            for file in self.index.older(&stream, before, ROUND_MAX)? {
                if self.verdict(&file)? == Verdict::TooOld {
                    self.delete(&file, "age", deleted)?;
                }
            }
        }
        Ok(())
    }

    /// Deletes the oldest files of all streams until there is space: first those without a mark.
    fn delete_oldest(
        &self,
        excess: &mut Excess,
        deleted: &mut Vec<Deleted>,
    ) -> Result<(), CatalogueError> {
        let mut kept_by_marks = Vec::new();
        let mut after = UNIX_EPOCH;
        while excess.reason().is_some() && deleted.len() < ROUND_MAX {
            let files = self.index.oldest(after, TOGETHER)?;
            let Some(last) = files.last() else {
                break;
            };
            after = last.start;
            for file in files {
                match self.verdict(&file)? {
                    Verdict::ForEver => {}
                    Verdict::Marked => kept_by_marks.push(file),
                    Verdict::TooOld | Verdict::WhileSpace => {
                        self.delete_for(&file, excess, deleted)?;
                    }
                }
            }
        }
        // Only marked files are left: a disk that is full would record nothing at all.
        for file in kept_by_marks {
            self.delete_for(&file, excess, deleted)?;
        }
        Ok(())
    }

    /// Deletes a file if there is too little space.
    fn delete_for(
        &self,
        file: &RecordedFile,
        excess: &mut Excess,
        deleted: &mut Vec<Deleted>,
    ) -> Result<(), CatalogueError> {
        let Some(reason) = excess.reason() else {
            return Ok(());
        };
        if self.delete(file, reason, deleted)? {
            excess.over = excess.over.saturating_sub(file.bytes);
            excess.missing = excess.missing.saturating_sub(file.bytes);
        }
        Ok(())
    }

    fn verdict(&self, file: &RecordedFile) -> Result<Verdict, CatalogueError> {
        let keep = self.keep_of(&file.stream);
        let mut marks = Vec::new();
        let range = TimeRange {
            from: file.start,
            to: file.end(),
        };
        self.index.marks(&file.stream, range, &mut marks)?;
        if marks.iter().any(|it| it.is_for_ever) {
            return Ok(Verdict::ForEver);
        }
        let age = self
            .now
            .duration_since(file.end())
            .unwrap_or(Duration::ZERO);
        let is_older = |limit: Option<Duration>| limit.is_some_and(|it| age > it);
        Ok(match marks.is_empty() {
            true if is_older(keep.age) => Verdict::TooOld,
            true => Verdict::WhileSpace,
            false if is_older(keep.age) && is_older(keep.marked_age) => Verdict::TooOld,
            false => Verdict::Marked,
        })
    }

    /// Returns how long the files of a stream are kept: those of one that is not recorded any more, as
    /// long as there is space.
    fn keep_of(&self, stream: &StreamName) -> Keep {
        let plan = (self.plan.of_stream)(stream);
        plan.map(|it| it.keep).unwrap_or_default()
    }

    fn delete(
        &self,
        file: &RecordedFile,
        reason: &'static str,
        deleted: &mut Vec<Deleted>,
    ) -> Result<bool, CatalogueError> {
        let retention = self.retention;
        let holders = retention.catalogue.holders();
        let removed =
            holders.delete_unheld(&file.path, || match retention.disk.remove(&file.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            });
        match removed {
            Ok(true) => {}
            // Somebody reads it.
            Ok(false) => return Ok(false),
            Err(error) => {
                let file = file.path.display();
                tracing::warn!(%file, %error, "a recording cannot be deleted");
                return Ok(false);
            }
        }
        let below = file.path.strip_prefix(&self.folder.path);
        self.index.forget(below.unwrap_or(&file.path))?;
        self.remove_empty_folders(&file.path);
        deleted.push(Deleted {
            path: file.path.clone(),
            bytes: file.bytes,
            reason,
        });
        Ok(true)
    }

    /// Removes the folders above a deleted file that have nothing any more.
    fn remove_empty_folders(&self, file: &Path) {
        let above = file.ancestors().skip(1);
        for folder in above.take_while(|it| *it != self.folder.path) {
            remove_lone_notes(folder);
            // Fails for the first one that has something.
            if std::fs::remove_dir(folder).is_err() {
                return;
            }
        }
    }
}

/// Removes the marks and the delays of a day of which nothing else is left.
fn remove_lone_notes(day: &Path) {
    let entries = std::fs::read_dir(day).into_iter().flatten();
    let entries: Vec<_> = entries.take(3).filter_map(Result::ok).collect();
    let is_note = |it: &std::ffi::OsStr| it == MARKS_FILE || it == STAGES_FILE;
    if entries.iter().all(|it| is_note(&it.file_name())) {
        for note in entries {
            // What stays is removed with the next file.
            let _ = std::fs::remove_file(note.path());
        }
    }
}

#[cfg(test)]
mod tests;
