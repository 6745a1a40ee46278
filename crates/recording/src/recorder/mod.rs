//! One recording of a stream: units of the hub in, files for its folder's writer out.
//!
//! ```text
//! hub ─ units ─► ReadingThread ─► StreamRecorder: fragments of a second, files cut at keyframes ─► JobQueue
//! ```
//!
//! No publisher or viewer waits for it: the hub's rings bound what a thread that is late has not read, the
//! queue bounds what a disk has not taken, and what is lost is a gap with its reason.

mod losing;
mod open_file;
mod reading_thread;
mod stream_recorder;

pub(crate) use reading_thread::{ReadingThread, RecordedSource};
pub(crate) use stream_recorder::RecorderOptions;
