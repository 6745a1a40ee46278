//! What is to be recorded, where, and for how long it is kept.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use glassline_hub::StreamName;

/// Returns how a stream is recorded; `None` for one that never is.
pub type PlanOfStream = dyn Fn(&StreamName) -> Option<StreamPlan> + Send + Sync;

/// The streams that are to be recorded.
#[derive(Clone)]
pub struct Plan {
    /// Folders that are written to.
    pub folders: Vec<FolderPlan>,
    /// Returns how a stream is recorded; `None` for one that never is.
    pub of_stream: Arc<PlanOfStream>,
}

/// A folder that is written to.
#[derive(Clone, Debug, PartialEq)]
pub struct FolderPlan {
    /// Path of the folder, which is made if it does not exist.
    pub path: PathBuf,
    /// Longest time for which written footage may not be on the disk.
    pub sync: Duration,
    /// Most bytes of all files.
    pub bytes_max: Option<u64>,
    /// Bytes of the disk that stay free.
    pub free_min: u64,
}

/// How a stream is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamPlan {
    /// Folder of its files, one of those of the plan.
    pub folder: PathBuf,
    /// Whether the stream is recorded whenever it has a source; otherwise only when somebody says so.
    pub is_automatic: bool,
    /// Whether a source that comes on demand is kept running for the recording.
    pub is_demanded: bool,
    /// Length of files; they are cut at the next keyframe.
    pub file: Duration,
    /// Layers that are recorded.
    pub layers: Layers,
    /// How long recordings are kept.
    pub keep: Keep,
}

/// The recorded layers of a stream with several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Layers {
    /// The best layer at each time, as viewers get it.
    #[default]
    Best,
    /// Each layer, in files of its own.
    All,
    /// The one with this name.
    Named(String),
}

/// How long the recordings of a stream are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Age at which a file is deleted; `None` for no age.
    pub age: Option<Duration>,
    /// Age at which a file with something of a mark is deleted, if that is later.
    pub marked_age: Option<Duration>,
    /// Whether a file stays until it has a copy in object storage, while there is space.
    pub is_copied: bool,
    /// Age at which a copy is deleted whose file is gone; `None` for no age.
    pub copy_age: Option<Duration>,
}

impl Plan {
    /// Returns the plan that records nothing.
    pub fn nothing() -> Self {
        Self {
            folders: Vec::new(),
            of_stream: Arc::new(|_| None),
        }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("folders", &self.folders)
            .finish_non_exhaustive()
    }
}
