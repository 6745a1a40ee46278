//! Recordings: streams written to disk as CMAF files, kept for as long as rules say, and found again.
//!
//! Writers have threads of their own and bounded queues, so that a slow disk delays no viewer. The files
//! are the truth; the catalogue is an index of them and can be made anew.

// This crate is outside the sans-IO cores: it writes files and reads the clock.
#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock for the cores"
)]

mod catalogue;
mod disk;
mod file_header;
mod folder;
mod recorder;
mod recorders;
mod retention;
#[cfg(test)]
mod scratch;
mod utc;
mod writer;

pub use catalogue::{
    Catalogue, CatalogueError, Copies, CopiesWaiting, CopyState, Findings, HeldFile, Mark, NewMark,
    OpenRecording, RecordedFile, RecordedStream, RecordedTrack, Span, StageMinute, TimeRange,
    check,
};
pub use file_header::{Beginning, FileHeader};
pub use folder::{Folder, FolderError, FolderId};
pub use glassline_hub::StreamName;
pub use recorders::{
    DeletedSum, FolderPlan, FolderStatus, Keep, Layers, Loss, NotRecorded, Plan, PlanOfStream,
    RecorderEvent, RecorderEventKind, RecorderParts, Recorders, RecordingState, RecordingStatus,
    StreamPlan,
};
pub use retention::{Deleted, Retention};
