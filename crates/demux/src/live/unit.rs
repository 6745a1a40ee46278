//! What comes out of a pipe: access units, what was left out, and why there is no more.

use bytes::Bytes;

/// Bytes of one access unit; level 6.2 at its highest rate stays below 7 MB.
pub(super) const UNIT_BYTES_MAX: usize = 16 << 20;

/// Bytes that may pass before the first start code.
pub(super) const LEADING_BYTES_MAX: usize = 1 << 20;

/// More than the fields of a slice header that tell frames apart can take.
pub(super) const HEAD_BYTES: usize = 128;

/// An access unit of a live stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Annex-B bytes, with parameter sets if it is a keyframe.
    pub data: Bytes,
    /// A decoder can start here.
    pub keyframe: bool,
    /// One field of an interlaced frame, which lasts half as long.
    pub field: bool,
}

/// What a splitter left out or found odd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Frames before the first keyframe.
    pub before_keyframe: u64,
    /// Parameter sets that could not be read.
    pub damaged_sets: u64,
    /// Slices that could not be read, or whose parameter sets are missing.
    pub damaged_slices: u64,
    /// Frames that are shown before one that was sent earlier (B-frames).
    pub reordered: u64,
}

/// Why a pipe's bytes are no video that can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither H.264 nor H.265.
    #[error(
        "no start code (00 00 01) in the first {} KiB; pipe H.264 or H.265 in Annex-B form \
         (ffmpeg … -f h264 - or -f hevc -) or y4m (-f yuv4mpegpipe -)",
        LEADING_BYTES_MAX >> 10
    )]
    NoStartCode,
    /// It never ends.
    #[error("a frame of more than {} MiB; is this H.264 or H.265?", UNIT_BYTES_MAX >> 20)]
    Endless,
    /// No decoder could start.
    #[error("no keyframe with its parameter sets came before the end")]
    NoKeyframe,
}
