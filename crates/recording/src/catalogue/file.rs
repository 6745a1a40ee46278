use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use glassline_hub::StreamName;
use glassline_media::{Kind, Track};
use serde::{Deserialize, Serialize};

use crate::file_header::{Beginning, FileHeader};

/// Times of the wall clock from `from` on, without `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// Instant at which it begins.
    pub from: SystemTime,
    /// First instant after the range.
    pub to: SystemTime,
}

impl TimeRange {
    /// Returns whether something from `start` on, for `duration`, has a part in the range.
    pub fn touches(&self, start: SystemTime, duration: Duration) -> bool {
        start < self.to && start + duration > self.from
    }
}

/// A recorded file as the catalogue knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Stream that the file is of.
    pub stream: StreamName,
    /// Layer of the video, by its name; empty for the best one of each time.
    pub layer: String,
    /// Number of the run: files of one run have one line of decode times.
    pub run: u64,
    /// Number of the file within its run, from 0.
    pub number: u32,
    /// Wall-clock time of the first frame.
    pub start: SystemTime,
    /// Time from the first frame to the end of the last one that is in the file.
    pub duration: Duration,
    /// Bytes that were written so far.
    pub bytes: u64,
    /// Tracks, in the order of the file.
    pub tracks: Vec<RecordedTrack>,
    /// The reason why the file begins where it does, with a loss before it.
    pub beginning: Beginning,
    /// Whether nothing is written to the file any more. A file that is open has whole fragments, and
    /// grows.
    pub is_closed: bool,
    /// The copy of the file in object storage.
    pub copy: CopyState,
}

/// The copy of a file in object storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyState {
    /// There is no copy.
    #[default]
    None,
    /// There is no copy, and the file could not be read for one.
    Refused,
    /// The storage has confirmed the copy.
    Confirmed,
    /// The confirmed copy is all that is left: the file itself was deleted.
    Alone,
}

impl CopyState {
    /// Returns the name in lists.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Refused => "refused",
            Self::Confirmed => "copied",
            Self::Alone => "alone",
        }
    }

    /// Returns whether the storage has the file.
    pub const fn exists(self) -> bool {
        matches!(self, Self::Confirmed | Self::Alone)
    }
}

impl RecordedFile {
    /// Returns the note in the file.
    pub(super) fn header(&self) -> FileHeader {
        FileHeader {
            stream: self.stream.clone(),
            layer: self.layer.clone(),
            run: self.run,
            number: self.number,
            start: self.start,
            beginning: self.beginning.clone(),
        }
    }

    /// Returns the end of the last frame.
    pub fn end(&self) -> SystemTime {
        self.start + self.duration
    }
}

/// The files that wait for a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopiesWaiting {
    /// Number of the files.
    pub files: u64,
    /// Size of the files.
    pub bytes: u64,
    /// Beginning of the oldest one; `None` if no file waits.
    pub oldest: Option<SystemTime>,
    /// Number of files that could not be read, and are not tried again.
    pub refused: u64,
}

impl CopiesWaiting {
    /// Adds the counts of another stream.
    pub(super) fn join(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.oldest = [self.oldest, other.oldest].into_iter().flatten().min();
        self.refused += other.refused;
    }
}

/// A track of a recorded file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedTrack {
    /// Name of the codec, like `H264`.
    pub codec: String,
    /// Whether the track is video.
    pub is_video: bool,
    /// Width in pixels; 0 if unknown or none.
    pub width: u32,
    /// Height in pixels; 0 if unknown or none.
    pub height: u32,
    /// Number of audio channels; 1 for video.
    pub channels: u8,
}

impl RecordedTrack {
    /// Describes a track of the hub.
    pub fn of(track: &Track) -> Self {
        Self {
            codec: track.codec.to_string(),
            is_video: track.kind() == Kind::Video,
            width: track.video.width,
            height: track.video.height,
            channels: track.channels,
        }
    }
}

/// A stream that has recordings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedStream {
    /// Name of the stream.
    pub name: StreamName,
    /// Beginning of the oldest file.
    pub first: SystemTime,
    /// End of the newest file.
    pub last: SystemTime,
    /// Number of files of the stream.
    pub files: u64,
    /// Size of all files.
    pub bytes: u64,
}

impl RecordedStream {
    /// Adds the stream's files of another folder.
    pub(super) fn join(&mut self, other: &Self) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

/// State of a file in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileState {
    /// The file is written, or was when the server ended.
    Open = 0,
    /// The file has its whole content.
    Closed = 1,
    /// The file has its whole content, and a copy.
    Copied = 2,
    /// The file was deleted, and its copy is left.
    Remote = 3,
}
