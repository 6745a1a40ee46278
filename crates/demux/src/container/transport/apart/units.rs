//! Units that were found in the elementary streams of a program.

use bytes::Bytes;

/// A unit and where it lies. Times are in ticks of 90 kHz.
#[derive(Debug)]
pub(super) struct FoundUnit {
    /// [`ByteLocation::code`](super::places::ByteLocation::code) of the first byte.
    pub(super) place: u64,
    /// Bytes of the elementary stream.
    pub(super) length: u64,
    pub(super) presented: i64,
    pub(super) decoded: i64,
    /// Samples of each channel, for audio.
    pub(super) samples: Option<u32>,
    pub(super) keyframe: bool,
    /// Whether units before this one were lost.
    pub(super) after_loss: bool,
    /// Whether `data` has parameter sets that the bytes at `place` have not.
    pub(super) bare: bool,
    /// The unit, for readers that cannot fetch it later.
    pub(super) data: Bytes,
}
