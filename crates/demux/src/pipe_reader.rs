//! The interface of formats to a [`PipeDemuxer`](crate::PipeDemuxer).

use std::collections::VecDeque;
use std::io::Read;

use bytes::Bytes;
use glassline_media::Track;

use crate::error::{Fault, Warnings};

/// A unit as the reader of a format finds it.
#[derive(Clone, Debug)]
pub(crate) struct PipeUnit {
    /// Place of the track in [`PipeReader::tracks`].
    pub(crate) track: usize,
    /// Presentation time in ns.
    pub(crate) start_ns: i64,
    /// Decoding time in ns; `None` if the format states none.
    pub(crate) decode_ns: Option<i64>,
    /// Duration in ns; `None` if it is unknown until the next unit.
    pub(crate) duration_ns: Option<i64>,
    pub(crate) keyframe: bool,
    /// Whether units of the track before this one were lost.
    pub(crate) after_loss: bool,
    pub(crate) data: Bytes,
}

/// A reader of one format, which gets its bytes from a pipe.
pub(crate) trait PipeReader: Send {
    /// Returns the tracks that are known so far. None is removed, and none changes its place.
    fn tracks(&mut self) -> Vec<Track>;

    /// Returns whether all tracks are known.
    fn has_all_tracks(&self) -> bool;

    /// Waits for the next bytes, and appends the units that they complete. Returns false at the end.
    fn read(&mut self, out: &mut VecDeque<PipeUnit>) -> Result<bool, Fault>;

    /// Takes the warnings so far.
    fn take_warnings(&mut self) -> Warnings;

    /// Returns the bytes behind the end, if another file follows in the pipe.
    fn into_rest(self: Box<Self>) -> Option<Box<dyn Read + Send>> {
        None
    }
}
