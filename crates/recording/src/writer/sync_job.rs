//! What brings a file to the disk, on a thread that may wait for it.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::job::Patch;
use super::layer_recording::LayerRecording;
use crate::catalogue::FolderIndex;
use crate::catalogue::Growth;
use crate::disk::{DiskFile, Failure};

/// A file as the threads of its folder share it.
#[derive(Debug)]
pub(super) struct SharedFile {
    pub(super) file: Box<dyn DiskFile>,
    /// Path below the folder.
    pub(super) path: PathBuf,
    pub(super) layer_recording: Arc<LayerRecording>,
    /// Whether a sync waits or runs.
    pub(super) is_syncing: AtomicBool,
    /// Bytes from the beginning that are on the disk.
    pub(super) synced: AtomicU64,
    /// The reason why the file could not be brought to the disk.
    pub(super) failure: OnceLock<Failure>,
}

/// A file that is to be brought to the disk.
pub(crate) struct SyncJob {
    pub(super) file: Arc<SharedFile>,
    /// Bytes that the file has.
    pub(super) bytes: u64,
    /// The last step of a complete file; `None` for a file that grows.
    pub(super) end: Option<SyncedEnd>,
}

/// The end of a file, once its content is on the disk.
pub(super) struct SyncedEnd {
    pub(super) patch: Option<Patch>,
    pub(super) growth: Growth,
    pub(super) index: Arc<FolderIndex>,
}

impl SyncJob {
    /// Brings the file to the disk.
    pub(crate) fn run(self) {
        let Self { file, bytes, end } = self;
        let synced = file.file.sync();
        file.is_syncing.store(false, Ordering::Release);
        if let Err(error) = &synced {
            let _ = file.failure.set(Failure::of(error));
        } else {
            let before = file.synced.swap(bytes, Ordering::AcqRel);
            file.file
                .forget_cached(before, bytes.saturating_sub(before));
        }
        let Some(end) = end else {
            return;
        };
        // What the patch makes of the file needs everything that was appended.
        if let Some(patch) = end.patch.filter(|_| synced.is_ok()) {
            let patched = file.file.overwrite(patch.offset, &patch.bytes);
            if let Err(error) = patched {
                tracing::warn!(file = %file.path.display(), %error, "a recording was not finished");
            }
        }
        end.index.end_or_retry(&file.path, end.growth);
    }
}

impl fmt::Debug for SyncJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncJob")
            .field("path", &self.file.path)
            .finish_non_exhaustive()
    }
}
