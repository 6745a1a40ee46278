//! What a session plays that is no live stream.

use std::time::Duration;

use glassline_rtsp::range::{Npt, Range};

use super::file_playback::FilePlayback;
use super::own_reading::OwnReading;
use super::past_playback::PastPlayback;

/// A session's part in what is played from a disk.
#[derive(Debug)]
pub(super) enum Recorded {
    /// A file of the media folder.
    File(FilePlayback),
    /// The recordings of a stream.
    Past(PastPlayback),
}

impl Recorded {
    /// Returns the name of the file or stream.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::File(file) => file.media_file.name(),
            Self::Past(past) => past.stream().as_str(),
        }
    }

    /// Returns whether the session has a reading of its own.
    pub(super) fn is_private(&self) -> bool {
        match self {
            Self::File(file) => file.is_private(),
            Self::Past(_) => true,
        }
    }

    pub(super) fn own_mut(&mut self) -> Option<&mut OwnReading> {
        match self {
            Self::File(file) => file.own_mut(),
            Self::Past(past) => Some(past.own_mut()),
        }
    }

    /// Pauses the session's own reading, and returns the range that is left of it.
    pub(super) fn pause(&self) -> Option<Range> {
        match self {
            Self::File(file) => file.pause(),
            Self::Past(past) => Some(past.pause()),
        }
    }

    /// Returns a range of positions as the client counts.
    pub(super) fn range(&self, from: Duration, until: Option<Duration>) -> Range {
        match self {
            Self::File(_) => Range::Npt {
                start: Some(Npt::At(from)),
                end: until.map(Npt::At),
            },
            Self::Past(past) => past.range(from, until),
        }
    }
}
