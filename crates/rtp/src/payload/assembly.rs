//! What the depacketizers of the payload formats implement.

use std::fmt;

use glassline_media::Codec;

/// Reassembles the payloads of a frame, in one payload format.
pub(super) trait FrameFormat: fmt::Debug + Send {
    /// Returns whether this payload certainly begins a frame. Asked after a gap.
    fn begins(&self, payload: &[u8]) -> bool;

    /// Prepares for a new frame and forgets the previous one.
    fn reset(&mut self) {}

    /// Adds a payload, which is never empty, to `frame`. It is the first payload or follows the
    /// previous one without a gap.
    fn take(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), DropReason>;

    /// Completes `frame`, which is not empty. Returns whether a decoder can start with it.
    /// `after_gap`: packets before its first one are missing.
    fn finish(&mut self, frame: &mut Vec<u8>, after_gap: bool) -> Result<bool, DropReason>;

    /// Number of bytes of the frame that are kept outside of `frame`.
    fn pending_bytes(&self) -> usize {
        0
    }
}

/// Splits payloads into units, in one payload format.
pub(super) trait AudioFormat: fmt::Debug + Send {
    /// Takes a payload, which is never empty. Appends the units that it completes to `units`,
    /// each with its distance from `timestamp` in ticks.
    fn take(
        &mut self,
        payload: &[u8],
        timestamp: u32,
        marker: bool,
        units: &mut Vec<(u32, Vec<u8>)>,
    ) -> Result<(), DropReason>;

    /// Returns whether a decoder can start at this unit.
    fn is_keyframe(&self, unit: &[u8]) -> bool {
        let _ = unit;
        true
    }

    /// Drops an incomplete unit, since packets are missing. Returns whether there was one.
    fn on_loss(&mut self) -> bool {
        false
    }

    /// Number of bytes that are kept of an incomplete unit.
    fn pending_bytes(&self) -> usize {
        0
    }
}

/// Payload format in which each payload is one unit.
#[derive(Debug)]
pub(super) struct OneUnitPerPacket;

impl AudioFormat for OneUnitPerPacket {
    fn take(
        &mut self,
        payload: &[u8],
        _: u32,
        _: bool,
        units: &mut Vec<(u32, Vec<u8>)>,
    ) -> Result<(), DropReason> {
        units.push((0, payload.to_vec()));
        Ok(())
    }
}

/// Why a unit is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DropReason {
    /// Packets of the unit are missing.
    Loss,
    /// A payload violates its format, or does not follow the one before.
    Malformed,
    /// A payload is of a kind that the format specifies, but that is not implemented.
    Unsupported,
    /// The unit exceeds the size limit.
    Oversized,
}

/// The packets of a track cannot be depacketized. The sender chose the format; its session
/// description states it before anything is set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnsupportedFormat {
    /// Receiving this codec over RTP is not implemented.
    #[error("receiving {0} over RTP is not supported")]
    Codec(Codec),
    /// The codec is implemented, but not this mode of its format.
    #[error("{codec} with {parameter} is not supported: {advice}")]
    Mode {
        /// Codec of the track.
        codec: Codec,
        /// The format parameter that is not supported.
        parameter: String,
        /// What the sender should do instead.
        advice: &'static str,
    },
}
