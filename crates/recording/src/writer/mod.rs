//! What is written to one folder: jobs of its recorders, in order, by a thread that may wait for the disk.
//!
//! ```text
//! StreamRecorder ─ Job ─► JobQueue, bounded ─► FolderWriter ─► Disk
//!       ▲                                        │ SyncJob ─► fdatasync on a thread of its own
//!       └──────── LayerRecording: failure, figures ◄───────┘
//! ```
//!
//! `kill -9` loses nothing that was written, because the system has it. A power failure loses what was
//! not synced: at most the sync interval. Syncs of many files are spread over the interval.

mod disk_meter;
mod folder_thread;
mod folder_writer;
mod job;
mod job_queue;
mod layer_recording;
mod sync_job;

pub(crate) use folder_thread::{FolderParts, FolderState, FolderThread};
#[cfg(test)]
pub(crate) use folder_writer::{FolderWriter, WriterOptions};
pub(crate) use job::{FileEnd, Fragment, Job, NewFile, Patch};
pub(crate) use job_queue::{JobQueue, QueueBound};
pub(crate) use layer_recording::{LayerRecording, LayerRecordingFigures};
