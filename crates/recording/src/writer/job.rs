use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::layer_recording::LayerRecording;
use crate::catalogue::RecordedTrack;
use crate::file_header::FileHeader;

/// Something to be written.
#[derive(Debug)]
pub(crate) enum Job {
    /// Begins a file of a layer recording.
    Begin(Box<NewFile>),
    /// Adds a fragment to the layer recording's file.
    Append(Fragment),
    /// Ends the layer recording's file.
    Finish(FileEnd),
}

/// A file that begins.
#[derive(Debug)]
pub(crate) struct NewFile {
    pub(crate) layer_recording: Arc<LayerRecording>,
    pub(crate) header: FileHeader,
    pub(crate) tracks: Vec<RecordedTrack>,
    /// Everything before the first fragment.
    pub(crate) pieces: Vec<Bytes>,
}

/// About a second of all tracks.
#[derive(Debug)]
pub(crate) struct Fragment {
    pub(crate) layer_recording: Arc<LayerRecording>,
    pub(crate) pieces: Vec<Bytes>,
    /// Time from the first frame of the file to the end of this fragment.
    pub(crate) end: Duration,
    /// Wall-clock time of the end, since 1970.
    pub(crate) wall_end: Duration,
    /// Instant at which the hub published the newest frame.
    pub(crate) published: Instant,
}

/// The end of a file.
#[derive(Debug)]
pub(crate) struct FileEnd {
    pub(crate) layer_recording: Arc<LayerRecording>,
    /// Everything behind the last fragment.
    pub(crate) pieces: Vec<Bytes>,
    /// A change of the file's beginning once everything else is on the disk.
    pub(crate) patch: Option<Patch>,
}

/// Bytes that are written over others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    pub(crate) offset: u64,
    pub(crate) bytes: Bytes,
}

impl Job {
    /// Returns the layer recording of the job.
    pub(crate) fn layer_recording(&self) -> &Arc<LayerRecording> {
        match self {
            Self::Begin(it) => &it.layer_recording,
            Self::Append(it) => &it.layer_recording,
            Self::Finish(it) => &it.layer_recording,
        }
    }

    /// Returns how many bytes are written.
    pub(crate) fn bytes(&self) -> usize {
        let pieces = match self {
            Self::Begin(it) => &it.pieces,
            Self::Append(it) => &it.pieces,
            Self::Finish(it) => &it.pieces,
        };
        pieces.iter().map(Bytes::len).sum()
    }
}
