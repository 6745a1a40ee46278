//! What recordings do at the moment, for the API and metrics.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use glassline_hub::StreamName;

/// The status of the recording of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingState {
    /// Everything that is published is written.
    Recording,
    /// The stream has no source now.
    Waiting,
    /// Frames are lost.
    Losing,
    /// Nobody wants the stream recorded.
    Off,
}

impl RecordingState {
    /// Returns the name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recording => "recording",
            Self::Waiting => "waiting",
            Self::Losing => "losing",
            Self::Off => "off",
        }
    }
}

/// The recording of a stream.
#[derive(Clone, Debug)]
pub struct RecordingStatus {
    /// Name of the stream.
    pub stream: StreamName,
    /// The state of the recording.
    pub state: RecordingState,
    /// The reason why frames are lost.
    pub reason: Option<String>,
    /// Since when the source is recorded.
    pub since: Option<SystemTime>,
    /// Whether the stream is recorded by the configuration, and not because somebody said so.
    pub is_automatic: bool,
    /// Bytes that were written since the server began.
    pub bytes: u64,
    /// Fragments that were written since the server began.
    pub fragments: u64,
    /// The file that is written, below its folder.
    pub file: Option<PathBuf>,
    /// Folder of the recording that goes on.
    pub folder: Option<PathBuf>,
    /// Time from the publication of the newest frame of a fragment until the fragment was written.
    pub lag: Duration,
    /// The losses since the server began, by reason.
    pub losses: Vec<Loss>,
}

/// The losses of a recording for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Reason: `slow_disk`, `disk_full`, `read_only`, `disk_away`, `disk_error` or `late`.
    pub reason: &'static str,
    /// Number of times that frames were lost for the reason.
    pub count: u64,
    /// Sum of the times for which frames are missing.
    pub time: Duration,
}

/// A folder of recordings.
#[derive(Clone, Debug)]
pub struct FolderStatus {
    /// Path of the folder.
    pub path: PathBuf,
    /// The reason why the folder cannot be written to; `None` if it can.
    pub problem: Option<String>,
    /// Part of the last ten seconds, of 1, in which the disk worked for recordings.
    pub disk_share: f64,
    /// Sum of the time for which writes waited for the disk.
    pub write_time: Duration,
    /// Sum of the time for which syncs waited for the disk.
    pub sync_time: Duration,
    /// Time for which the oldest job has waited.
    pub lag: Duration,
}

/// Files that were deleted because they are not to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletedSum {
    /// Number of files that were deleted.
    pub files: u64,
    /// Size of the files.
    pub bytes: u64,
    /// Number of files that should have been copied before, and were not.
    pub uncopied_files: u64,
}

/// An event of recordings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecorderEvent {
    /// The kind of the event.
    pub kind: RecorderEventKind,
    /// The stream, or the folder.
    pub subject: String,
    /// The reason why it happened, if that is known.
    pub reason: Option<String>,
}

/// Kind of an event of recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecorderEventKind {
    /// A stream is recorded from now on.
    Started,
    /// A stream is not recorded any more.
    Stopped,
    /// A recording loses frames.
    Losing,
    /// A recording that lost frames goes on.
    GoesOn,
    /// A disk takes most of its time.
    DiskBusy,
    /// A disk has time again.
    DiskCalm,
    /// A folder cannot be written to.
    FolderFailed,
    /// A folder that failed is written to again.
    FolderBack,
    /// Another folder than before is at a path.
    FolderSwapped,
}
