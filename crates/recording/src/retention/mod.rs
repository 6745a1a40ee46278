//! What is deleted: files that are older than their stream keeps them, and the oldest ones where the
//! folder or its disk is full.
//!
//! A file that has something of a mark is kept as long as marked ones are, and for ever if the mark says
//! so. A file that somebody reads is left for the next time. A file whose stream is copied stays until it
//! has its copy, however old it is; where space is needed, such files go when no others are left.

mod thread;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use glassline_hub::StreamName;

use crate::catalogue::{
    Catalogue, CatalogueError, CopyState, FolderIndex, RecordedFile, TimeRange,
};
use crate::disk::{Disk, SystemDisk};
use crate::folder::remove_empty_folders;
use crate::recorders::{FolderPlan, Keep, Plan};
pub(crate) use thread::RetentionThread;

/// Files that are looked at together.
const TOGETHER: usize = 200;

/// Most files of one step of a round, so that a disk has time for other work.
const ROUND_MAX: usize = 500;

/// Files without their copy behind which none is looked for that has one: the oldest are copied first.
const UNCOPIED_MAX: usize = 5_000;

/// A file that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Path of the file.
    pub path: PathBuf,
    /// Size of the file.
    pub bytes: u64,
    /// Reason: `age`, `size` or `free_space`.
    pub reason: &'static str,
    /// Whether the file should have been copied before, and was not.
    pub is_uncopied: bool,
}

/// Deletes the files that the plan does not keep.
#[derive(Debug)]
pub struct Retention {
    catalogue: Catalogue,
    disk: Arc<dyn Disk>,
    free_bytes: fn(&Path) -> io::Result<u64>,
}

impl Retention {
    /// Creates the retention of a catalogue's files.
    pub fn new(catalogue: Catalogue) -> Self {
        Self {
            catalogue,
            disk: Arc::new(SystemDisk),
            free_bytes: |folder| glassline_net::disk_space(folder).map(|it| it.free_bytes),
        }
    }

    /// Deletes files that `plan` does not keep at `now`. Call this every few seconds, from a thread that may
    /// block.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if an index fails.
    pub fn round(&self, plan: &Plan, now: SystemTime) -> Result<Vec<Deleted>, CatalogueError> {
        let mut deleted = Vec::new();
        for round in self.rounds(plan, now) {
            round.run(&mut deleted)?;
        }
        Ok(deleted)
    }

    /// Returns files of which only the copy is left, and whose copy `plan` does not keep at `now` either.
    /// There may be more of them.
    ///
    /// # Errors
    /// Returns [`CatalogueError`] if an index fails.
    pub fn expired_copies(
        &self,
        plan: &Plan,
        now: SystemTime,
    ) -> Result<Vec<RecordedFile>, CatalogueError> {
        let mut expired = Vec::new();
        for round in self.rounds(plan, now) {
            for stream in round.index.stream_names()? {
                let age = round.keep_of(&stream).copy_age;
                let Some(before) = age.and_then(|it| now.checked_sub(it)) else {
                    continue;
                };
                for file in round.index.older_copies(&stream, before, ROUND_MAX)? {
                    if round.verdict(&file, age)? == Verdict::TooOld {
                        expired.push(file);
                    }
                }
            }
        }
        Ok(expired)
    }

    /// Returns a round through each folder of `plan` that is open.
    fn rounds<'a>(&'a self, plan: &'a Plan, now: SystemTime) -> impl Iterator<Item = Round<'a>> {
        plan.folders.iter().filter_map(move |folder| {
            Some(Round {
                retention: self,
                index: self.catalogue.folder(&folder.path)?,
                plan,
                folder,
                now,
            })
        })
    }
}

/// One round through one folder.
struct Round<'a> {
    retention: &'a Retention,
    index: Arc<FolderIndex>,
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
                let is_too_old = self.verdict(&file, keep.age)? == Verdict::TooOld;
                if is_too_old && !self.waits_for_copy(&file) {
                    self.delete(&file, "age", deleted)?;
                }
            }
        }
        Ok(())
    }

    /// Deletes the oldest files of all streams until there is space: first those without a mark that
    /// need no copy or have one.
    fn delete_oldest(
        &self,
        excess: &mut Excess,
        deleted: &mut Vec<Deleted>,
    ) -> Result<(), CatalogueError> {
        let mut spared = Vec::new();
        let mut uncopied = 0;
        let mut after = UNIX_EPOCH;
        while excess.reason().is_some() && deleted.len() < ROUND_MAX && uncopied < UNCOPIED_MAX {
            let files = self.index.oldest(after, TOGETHER)?;
            let Some(last) = files.last() else {
                break;
            };
            after = last.start;
            for file in files {
                let verdict = self.verdict(&file, self.keep_of(&file.stream).age)?;
                let is_uncopied = self.waits_for_copy(&file);
                uncopied += usize::from(is_uncopied);
                match verdict {
                    Verdict::ForEver => {}
                    Verdict::TooOld | Verdict::WhileSpace if !is_uncopied => {
                        self.delete_for(&file, excess, deleted)?;
                    }
                    _ => spared.push((is_uncopied, verdict == Verdict::Marked, file)),
                }
            }
        }
        // Nothing else is left, and a disk that is full would record nothing at all.
        spared.sort_by_key(|(is_uncopied, is_marked, _)| (*is_uncopied, *is_marked));
        for (_, _, file) in spared {
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

    /// Returns whether a file is to be kept that is kept for `keep_age` without a mark.
    fn verdict(
        &self,
        file: &RecordedFile,
        keep_age: Option<Duration>,
    ) -> Result<Verdict, CatalogueError> {
        let marked_age = self.keep_of(&file.stream).marked_age;
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
            true if is_older(keep_age) => Verdict::TooOld,
            true => Verdict::WhileSpace,
            false if is_older(keep_age) && is_older(marked_age) => Verdict::TooOld,
            false => Verdict::Marked,
        })
    }

    /// Returns whether a file is to be copied before it may go.
    fn waits_for_copy(&self, file: &RecordedFile) -> bool {
        file.copy == CopyState::None && self.keep_of(&file.stream).is_copied
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
        let below = below.unwrap_or(&file.path);
        let has_copy = self.index.leave_copy(below)?;
        // Marks outlive the file, as its copy does.
        remove_empty_folders(&self.folder.path, &file.path, !has_copy);
        deleted.push(Deleted {
            path: file.path.clone(),
            bytes: file.bytes,
            reason,
            is_uncopied: !has_copy && self.waits_for_copy(file),
        });
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
