//! Writes the jobs of one folder, in order.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::job::{FileEnd, Fragment, Job, NewFile, Patch};
use super::layer_recording::LayerRecording;
use super::sync_job::{SharedFile, SyncJob, SyncedEnd};
use crate::catalogue::{FolderIndex, Growth};
use crate::disk::{Disk, DiskFile, Failure, FailureKind};
use crate::folder::{FilePlace, Folder, FolderId};

/// Bytes after which the system is made to begin writing, so that it does not write everything at once.
const WRITEBACK_BYTES: u64 = 4 << 20;

/// Bytes that are reserved ahead of a new file; each further step has twice as many.
const RESERVED_FIRST: u64 = 1 << 20;

/// Most bytes of one reservation: extents of this size cost a spinning disk little.
const RESERVED_STEP_MAX: u64 = 32 << 20;

/// Time for which a folder that refused is not tried again.
const PAUSE: Duration = Duration::from_secs(2);

/// Time after which a folder whose disk was away is opened anew.
const LOST_AFTER: Duration = Duration::from_secs(6);

/// Most names that are tried for a file.
const NAMES_MAX: usize = 1000;

/// How a folder is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriterOptions {
    /// Longest time for which written footage may not be on the disk.
    pub(crate) sync: Duration,
    /// Identity that the folder must have when a file begins; `None` does not look.
    pub(crate) identity: Option<FolderId>,
}

/// A file that is written.
#[derive(Debug)]
struct OpenFile {
    shared: Arc<SharedFile>,
    growth: Growth,
    /// Bytes whose writing to the disk has begun.
    begun: u64,
    /// Bytes that are reserved.
    reserved: u64,
    reserve_step: u64,
    sync_at: Instant,
}

/// Writes the jobs of one folder.
pub(crate) struct FolderWriter {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    index: Arc<FolderIndex>,
    options: WriterOptions,
    /// The files that are open, by the addresses of their layer recordings.
    files: HashMap<usize, OpenFile>,
    /// The reason why the folder refused last, and until when it is not tried.
    refused: Option<(Failure, Instant)>,
    /// Since when the folder has refused everything.
    refused_since: Option<Instant>,
    /// Syncs that are due.
    syncs: Vec<SyncJob>,
    /// Instant at which rows that the index refused are written again.
    retry_at: Instant,
}

impl FolderWriter {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        index: Arc<FolderIndex>,
        options: WriterOptions,
    ) -> Self {
        Self {
            retry_at: disk.now(),
            disk,
            folder: index.folder().to_owned(),
            index,
            options,
            files: HashMap::new(),
            refused: None,
            refused_since: None,
            syncs: Vec::new(),
        }
    }

    /// Writes for one job. Whatever fails is told to the job's layer recording.
    pub(crate) fn run(&mut self, job: Job) {
        let (layer_recording, key) = (
            Arc::clone(job.layer_recording()),
            key_of(job.layer_recording()),
        );
        let done = match job {
            Job::Begin(new) => self.begin(&new),
            Job::Append(fragment) => self.append(&fragment),
            Job::Finish(end) => self.finish(end),
        };
        if let Err(error) = done {
            let failure = Failure::of(&error);
            self.give_up(key);
            layer_recording.fail(failure.clone());
            let now = self.disk.now();
            self.refused = Some((failure, now + PAUSE));
            self.refused_since.get_or_insert(now);
        }
        self.end_failed();
    }

    /// Notes which files are to be synced now.
    pub(crate) fn tick(&mut self) {
        self.end_failed();
        let now = self.disk.now();
        if self.retry_at <= now {
            self.retry_at = now + PAUSE;
            self.index.retry();
        }
        for file in self.files.values_mut().filter(|it| it.sync_at <= now) {
            file.sync_at = now + self.options.sync;
            let shared = &file.shared;
            let is_unsynced = shared.synced.load(Ordering::Acquire) < file.growth.bytes;
            // A sync that still runs covers what was written before it began; the next one does the rest.
            if is_unsynced && !shared.is_syncing.swap(true, Ordering::AcqRel) {
                self.syncs.push(SyncJob {
                    file: Arc::clone(shared),
                    bytes: file.growth.bytes,
                    end: None,
                });
            }
        }
    }

    /// Returns whether the folder has refused for so long, in such a way, that it is better opened anew:
    /// its disk was away, and what is open is of the disk before.
    pub(super) fn is_lost(&self) -> bool {
        let since = self.refused_since;
        let is_away =
            |failure: &Failure| matches!(failure.kind, FailureKind::Away | FailureKind::Error);
        self.refused.as_ref().is_some_and(|(it, _)| is_away(it))
            && since.is_some_and(|it| self.disk.now().saturating_duration_since(it) > LOST_AFTER)
    }

    /// Returns the syncs that are to be done, in order.
    pub(crate) fn take_syncs(&mut self) -> Vec<SyncJob> {
        std::mem::take(&mut self.syncs)
    }

    /// Ends every file, as when the server ends.
    pub(super) fn end_all(&mut self) {
        let keys: Vec<usize> = self.files.keys().copied().collect();
        keys.into_iter().for_each(|key| self.give_up(key));
    }

    fn begin(&mut self, new: &NewFile) -> io::Result<()> {
        let now = self.disk.now();
        let key = key_of(&new.layer_recording);
        self.give_up(key);
        if let Some((failure, until)) = &self.refused
            && now < *until
        {
            new.layer_recording.fail(failure.clone());
            return Ok(());
        }
        self.check_identity()?;
        let (path, file) = self.create(new)?;
        let shared = Arc::new(SharedFile {
            file,
            path: path.clone(),
            layer_recording: Arc::clone(&new.layer_recording),
            is_syncing: AtomicBool::new(false),
            synced: AtomicU64::new(0),
            failure: OnceLock::new(),
        });
        let mut file = OpenFile {
            shared,
            growth: Growth::default(),
            begun: 0,
            reserved: 0,
            reserve_step: RESERVED_FIRST,
            sync_at: now + spread(&new.layer_recording, self.options.sync),
        };
        let written = file
            .reserve(0)
            .and_then(|()| file.shared.file.append(&new.pieces));
        file.growth.bytes = new.pieces.iter().map(|it| it.len() as u64).sum();
        self.files.insert(key, file);
        written?;
        self.refused = None;
        self.refused_since = None;
        new.layer_recording.note(|it| {
            it.files += 1;
            it.file = Some(path);
        });
        Ok(())
    }

    /// Returns an error if the folder's disk is not there: a mount point without its disk is a folder,
    /// too, and what is written there fills another disk.
    fn check_identity(&self) -> io::Result<()> {
        let Some(identity) = self.options.identity else {
            return Ok(());
        };
        match Folder::identity_of(&self.folder)? {
            Some(found) if found == identity => Ok(()),
            _ => Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("the disk of {} is not mounted there", self.folder.display()),
            )),
        }
    }

    /// Makes the file under the first name that is free.
    fn create(&self, new: &NewFile) -> io::Result<(PathBuf, Box<dyn DiskFile>)> {
        let header = &new.header;
        let mut place = FilePlace {
            stream: header.stream.clone(),
            layer: header.layer.clone(),
            start: header.start,
        };
        for _ in 0..NAMES_MAX {
            let path = place.path();
            if self.index.file_at(&path)?.is_none() {
                // Before the file is made, so that none is missing after a crash.
                self.index.begin(&path, header, &new.tracks)?;
                match self.disk.create(&self.folder.join(&path)) {
                    Ok(file) => return Ok((path, file)),
                    Err(error) => {
                        // The row is removed at the next start if it cannot be now.
                        let _ = self.index.forget(&path);
                        if error.kind() != io::ErrorKind::AlreadyExists {
                            return Err(error);
                        }
                    }
                }
            }
            place = place.next();
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn append(&mut self, fragment: &Fragment) -> io::Result<()> {
        // Without a file, the layer recording has failed and its recorder learns that.
        let Some(file) = self.files.get_mut(&key_of(&fragment.layer_recording)) else {
            return Ok(());
        };
        let bytes = fragment
            .pieces
            .iter()
            .map(|it| it.len() as u64)
            .sum::<u64>();
        file.reserve(bytes)?;
        file.shared.file.append(&fragment.pieces)?;
        file.growth.bytes += bytes;
        file.growth.duration = fragment.end;
        self.index.grow(&file.shared.path, file.growth);
        let unwritten = file.growth.bytes - file.begun;
        if unwritten >= WRITEBACK_BYTES {
            file.shared.file.begin_writeback(file.begun, unwritten);
            file.begun = file.growth.bytes;
        }
        let now = self.disk.now();
        let lag = now.saturating_duration_since(fragment.published);
        fragment.layer_recording.note_delay(lag, now);
        fragment.layer_recording.note(|it| {
            it.bytes += bytes;
            it.fragments += 1;
            it.lag = lag;
            it.written_to = Some(fragment.wall_end);
            it.written_at = Some(now);
        });
        Ok(())
    }

    fn finish(&mut self, end: FileEnd) -> io::Result<()> {
        let Some(mut file) = self.files.remove(&key_of(&end.layer_recording)) else {
            return Ok(());
        };
        end.layer_recording.note(|it| it.file = None);
        let content = file.growth.bytes;
        let appended = file.shared.file.append(&end.pieces);
        let whole = end.pieces.iter().map(|it| it.len() as u64).sum::<u64>();
        let patch = match &appended {
            Ok(()) => {
                file.growth.bytes = content + whole;
                end.patch
            }
            // Without its end the file is one that a crash left: every fragment plays.
            Err(_) => None,
        };
        self.close(file, patch);
        appended
    }

    /// Ends the file of a layer recording as it is.
    fn give_up(&mut self, key: usize) {
        if let Some(file) = self.files.remove(&key) {
            file.shared.layer_recording.note(|it| it.file = None);
            self.close(file, None);
        }
    }

    fn close(&mut self, file: OpenFile, patch: Option<Patch>) {
        if file.growth.duration.is_zero() {
            // Nothing is in it. What cannot be removed now is at the next start.
            let path = &file.shared.path;
            let _ = self.disk.remove(&self.folder.join(path));
            let _ = self.index.forget(path);
            return;
        }
        // Fails where appending does, and then only keeps reserved space from others.
        let _ = file.shared.file.truncate(file.growth.bytes);
        self.syncs.push(SyncJob {
            bytes: file.growth.bytes,
            end: Some(SyncedEnd {
                patch,
                growth: file.growth,
                index: Arc::clone(&self.index),
            }),
            file: file.shared,
        });
    }

    /// Ends the files that a sync has failed for.
    fn end_failed(&mut self) {
        let failed = self.files.iter().filter_map(|(key, file)| {
            let failure = file.shared.failure.get()?;
            Some((
                *key,
                Arc::clone(&file.shared.layer_recording),
                failure.clone(),
            ))
        });
        for (key, layer_recording, failure) in failed.collect::<Vec<_>>() {
            self.give_up(key);
            layer_recording.fail(failure);
        }
    }
}

impl OpenFile {
    /// Reserves space for `bytes` more, and some ahead.
    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        if self.growth.bytes + bytes < self.reserved || self.reserved == u64::MAX {
            return Ok(());
        }
        let step = self.reserve_step.max(bytes);
        match self.shared.file.reserve(self.reserved, step) {
            Ok(()) => {
                self.reserved += step;
                self.reserve_step = (self.reserve_step * 2).min(RESERVED_STEP_MAX);
                Ok(())
            }
            // What is left of a disk may be enough for what is to be written.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                self.reserved = u64::MAX;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for FolderWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderWriter")
            .field("folder", &self.folder)
            .field("files", &self.files.len())
            .finish_non_exhaustive()
    }
}

/// Returns the identity of a layer recording while it lives.
fn key_of(layer_recording: &Arc<LayerRecording>) -> usize {
    Arc::as_ptr(layer_recording).addr()
}

/// Returns the part of `interval` by which a layer recording's first sync is shifted, so that those of many layer recordings do
/// not come at once.
fn spread(layer_recording: &LayerRecording, interval: Duration) -> Duration {
    let mut hasher = DefaultHasher::new();
    (&layer_recording.stream, &layer_recording.layer).hash(&mut hasher);
    interval * u32::try_from(hasher.finish() % 1000).unwrap_or(0) / 1000
}

#[cfg(test)]
mod tests;
