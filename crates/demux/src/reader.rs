//! The interface of file formats to a [`Demuxer`](crate::Demuxer).

use std::ops::Range;

use bytes::Bytes;
use glassline_media::{Track, TrackIndex};

use crate::FrameRate;
use crate::error::Fault;
use crate::length::Length;

/// A reader of one file's tracks in decoding order.
///
/// Opening the file has read all of it, so errors in the file were reported then. Later reads
/// fail only if the file changes or the disk fails. Times are in ns since the start of the
/// pass.
pub(crate) trait Reader: Send {
    /// Returns the tracks: at least one, and at most one of each kind.
    fn tracks(&self) -> &[Track];

    /// Returns the exact length of one pass, which may not be a whole number of ns: that of its
    /// video, if the file has video.
    fn length(&self) -> Length;

    /// Returns the frames per second, if the rate is constant.
    fn frame_rate(&self) -> Option<FrameRate> {
        None
    }

    /// Returns the next unit of any track; `None` after the last.
    fn next_unit(&mut self) -> Result<Option<Unit>, Fault>;

    /// Continues at `to_ns`: with the last keyframe at or before it; on tracks without
    /// keyframes, with the unit that is presented at that time. 0 is the start, including what
    /// lies before time zero.
    fn seek(&mut self, to_ns: i64) -> Result<(), Fault>;

    /// Returns when the last keyframe at or before `at_ns` is presented; `None` without video.
    fn keyframe_at_or_before(&self, _at_ns: i64) -> Option<i64> {
        None
    }

    /// Returns when the first keyframe after `at_ns` is presented.
    fn keyframe_after(&self, _at_ns: i64) -> Option<i64> {
        None
    }

    /// Returns another reader of the file, at its start. It shares the index.
    fn fork(&self) -> Box<dyn Reader>;
}

/// An access unit and its times on the track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Index of the track in [`Reader::tracks`].
    pub(crate) track: TrackIndex,
    /// Presentation time in ns. It is below zero for audio of which a part is skipped.
    pub(crate) start_ns: i64,
    /// End of the presentation in ns.
    pub(crate) end_ns: i64,
    /// End of the decoded unit in ns: later than `end_ns` if its end is trimmed, else equal.
    pub(crate) busy_ns: i64,
    /// Decoding time in ns, at which the unit is sent. It never falls within a track, and
    /// equals `start_ns` where units are presented in decoding order.
    pub(crate) decode_ns: i64,
    /// Whether a decoder can start here.
    pub(crate) keyframe: bool,
    /// Coded data, as [`Frame::data`](crate::Frame) describes for the codec.
    pub(crate) data: Bytes,
}

impl Unit {
    /// Creates a unit of a file's only track, which is presented in decoding order and not
    /// trimmed.
    pub(crate) fn in_turn(span_ns: Range<i64>, keyframe: bool, data: Vec<u8>) -> Self {
        Self {
            track: TrackIndex(0),
            start_ns: span_ns.start,
            end_ns: span_ns.end,
            busy_ns: span_ns.end,
            decode_ns: span_ns.start,
            keyframe,
            data: Bytes::from(data),
        }
    }
}
