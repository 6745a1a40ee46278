//! Access units of a live stream, what was dropped, and why the stream ended.

use std::ops::Range;

use bytes::Bytes;

/// Longest access unit in bytes; level 6.2 at its highest bitrate stays below 7 MB.
pub(super) const UNIT_BYTES_MAX: usize = 16 << 20;

/// Most bytes before the first start code.
pub(super) const LEADING_BYTES_MAX: usize = 1 << 20;

/// Bytes of a NAL unit that are parsed: more than the fields of a slice header that distinguish
/// frames can take.
pub(super) const HEAD_BYTES: usize = 128;

/// An access unit of a live stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Bytes of Annex B, with parameter sets if the unit is a keyframe.
    pub data: Bytes,
    /// Whether a decoder can start here.
    pub keyframe: bool,
    /// Whether the unit is one field of an interlaced frame, which lasts half as long.
    pub field: bool,
    /// Bytes of the stream, counted from its start, that the unit was made of.
    pub span: Range<u64>,
    /// Whether `data` has parameter sets that the stream has elsewhere.
    pub has_inserted_sets: bool,
}

/// The counts of a splitter: dropped and damaged pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Number of frames before the first keyframe.
    pub before_keyframe: u64,
    /// Number of parameter sets that could not be read.
    pub damaged_sets: u64,
    /// Number of slices that could not be read, or whose parameter sets are missing.
    pub damaged_slices: u64,
    /// Number of frames that are presented before one that was decoded earlier (B-frames).
    pub reordered: u64,
}

/// The reason why the bytes of a pipe cannot be sent as video.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are neither H.264 nor H.265.
    #[error(
        "no start code (00 00 01) in the first {} KiB; pipe H.264 or H.265 in Annex-B form \
         (ffmpeg … -f h264 - or -f hevc -) or y4m (-f yuv4mpegpipe -)",
        LEADING_BYTES_MAX >> 10
    )]
    NoStartCode,
    /// An access unit is too long.
    #[error("a frame has more than {} MiB; is this H.264 or H.265?", UNIT_BYTES_MAX >> 20)]
    Endless,
    /// The stream had no frame at which a decoder could start.
    #[error("no keyframe with its parameter sets came before the end")]
    NoKeyframe,
}
