//! What the depacketizers of the payload formats implement.

use std::fmt;

use glassline_media::{Codec, Temporal};

/// Reassembles the payloads of a frame, in one payload format.
pub(super) trait FrameFormat: fmt::Debug + Send {
    /// Returns whether this payload certainly begins a frame. Asked after a gap.
    fn begins(&self, payload: &[u8]) -> bool;

    /// Returns whether this payload continues the frame that the packet before seemed to end. Both
    /// have the same timestamp, so that the marker between them is wrong then.
    fn continues(&self, payload: &[u8]) -> bool {
        !self.begins(payload)
    }

    /// Returns whether this payload certainly belongs to the frame behind the one under way, which
    /// has a picture, although both have the same timestamp.
    fn separates(&self, payload: &[u8]) -> bool {
        self.begins(payload)
    }

    /// Returns whether the last payload ends within a part of the frame, so that the frame cannot
    /// end there.
    fn is_open(&self) -> bool {
        false
    }

    /// Returns whether `frame` has a coded picture. Headers alone are no frame: they belong to the
    /// picture behind them, whose timestamp may be another one.
    fn has_picture(&self, frame: &[u8]) -> bool {
        !frame.is_empty()
    }

    /// Prepares for a new frame and forgets the previous one.
    fn reset(&mut self) {}

    /// Adds a payload, which is never empty, to `frame`. It is the first payload or follows the
    /// previous one without a gap.
    fn take(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), DropReason>;

    /// Completes `frame`, which is not empty. Returns how a decoder can start with it.
    /// `after_gap`: packets before its first one are missing.
    fn finish(&mut self, frame: &mut Vec<u8>, after_gap: bool) -> Result<Entry, DropReason>;

    /// Returns the place among the temporal layers of the frame that was completed last, as its payloads
    /// say it.
    fn temporal(&self) -> Temporal {
        Temporal::default()
    }

    /// Number of bytes of the frame that are kept outside of `frame`.
    fn pending_bytes(&self) -> usize {
        0
    }
}

/// How a decoder can start with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The unit needs earlier ones.
    None,
    /// The unit needs earlier ones, but the pictures of a decoder that starts here are right after
    /// some frames: H.264 or H.265 with a recovery point, and with intra refresh usually.
    Gradual,
    /// The unit needs earlier ones, and parameter sets are in front of it. Encoders with intra refresh
    /// that send no recovery points, such as x265, repeat their sets where a refresh begins.
    Described,
    /// The unit needs no earlier one. It is no IDR picture, so that later ones may need them.
    Intra,
    /// A keyframe, or a unit of audio.
    Keyframe,
}

impl From<bool> for Entry {
    fn from(is_keyframe: bool) -> Self {
        match is_keyframe {
            true => Self::Keyframe,
            false => Self::None,
        }
    }
}

/// Splits payloads into units, in one payload format.
pub(super) trait AudioFormat: fmt::Debug + Send {
    /// Takes a payload, which is never empty and has the same timestamp as an incomplete unit.
    /// Appends the units that it completes to `units`, each with its distance in ticks from the
    /// timestamp.
    fn take(&mut self, payload: &[u8], units: &mut Vec<(u32, Vec<u8>)>) -> Result<(), DropReason>;

    /// Returns whether a decoder can start at this unit.
    fn is_keyframe(&self, unit: &[u8]) -> bool {
        let _ = unit;
        true
    }

    /// Drops an incomplete unit, whose other packets do not come. Returns whether there was one.
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
    fn take(&mut self, payload: &[u8], units: &mut Vec<(u32, Vec<u8>)>) -> Result<(), DropReason> {
        units.push((0, payload.to_vec()));
        Ok(())
    }
}

/// The reason why a unit is dropped.
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
        /// The advice to the sender.
        advice: &'static str,
    },
}
