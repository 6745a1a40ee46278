//! What every file format gives to a [`Source`](crate::Source).

use std::ops::Range;

use bytes::Bytes;
use glassline_media::Track;

use crate::FrameRate;
use crate::error::Fault;
use crate::length::Length;

/// One file's tracks, read in the order of decoding.
///
/// Opening it read the file through, so whatever is wrong with the file was said
/// then; what is read later fails only if the file changes or the disk does.
/// Times are nanoseconds from the start of the pass.
pub(crate) trait Reader: Send {
    /// What it holds: at least one track, at most one of each kind.
    fn tracks(&self) -> &[Track];

    /// Length of one pass: of its frames, if it has some.
    fn length_ns(&self) -> i64;

    /// The same, exactly, if it is no whole number of nanoseconds.
    fn length(&self) -> Length {
        Length::from_nanos(self.length_ns())
    }

    /// Frames per second, if they keep a steady rate.
    fn frame_rate(&self) -> Option<FrameRate> {
        None
    }

    /// The next unit of any track; `None` after the last.
    fn next_unit(&mut self) -> Result<Option<Unit>, Fault>;

    /// Goes on at `to_ns`: with the last keyframe at or before it, or, of tracks
    /// without keyframes, with the unit that is presented then. 0 is the start,
    /// with all that lies before time zero.
    fn seek(&mut self, to_ns: i64) -> Result<(), Fault>;

    /// When the last keyframe at or before `at_ns` is presented; `None` without
    /// frames.
    fn keyframe_at_or_before(&self, _at_ns: i64) -> Option<i64> {
        None
    }

    /// When the first keyframe after `at_ns` is presented.
    fn keyframe_after(&self, _at_ns: i64) -> Option<i64> {
        None
    }

    /// Another reader of the file, at its start, that shares what opening it found.
    fn fork(&self) -> Box<dyn Reader>;
}

/// One access unit as it lies on the track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Index into [`Reader::tracks`].
    pub(crate) track: usize,
    /// When it is presented; of audio, when it begins to be heard, which is below
    /// zero if a part of it is skipped.
    pub(crate) start_ns: i64,
    /// When its presentation ends.
    pub(crate) end_ns: i64,
    /// When what a decoder makes of it ends: later than `end_ns` if the end is
    /// trimmed, and `end_ns` otherwise.
    pub(crate) busy_ns: i64,
    /// When it must be decoded, and so is sent: never falls within a track, and is
    /// `start_ns` where units are presented in the order in which they lie.
    pub(crate) decode_ns: i64,
    /// A decoder can start here.
    pub(crate) keyframe: bool,
    /// As [`Frame::data`](crate::Frame) says for the codec.
    pub(crate) data: Bytes,
}

impl Unit {
    /// A unit of a file's only track that is presented as it lies, trimmed nowhere.
    pub(crate) fn in_turn(span_ns: Range<i64>, keyframe: bool, data: Vec<u8>) -> Self {
        Self {
            track: 0,
            start_ns: span_ns.start,
            end_ns: span_ns.end,
            busy_ns: span_ns.end,
            decode_ns: span_ns.start,
            keyframe,
            data: Bytes::from(data),
        }
    }
}
