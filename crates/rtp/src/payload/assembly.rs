//! What each payload format says of putting its units together again.

use std::fmt;

use glassline_media::Codec;

/// How the payloads of one frame go together, in one format.
pub(super) trait FrameFormat: fmt::Debug + Send {
    /// After a gap: this payload surely begins its frame.
    fn begins(&self, payload: &[u8]) -> bool;

    /// A frame begins; nothing of the one before counts any more.
    fn reset(&mut self) {}

    /// Adds a payload, never empty, to `frame`. It is the first one or follows
    /// the last without a gap.
    fn take(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), Fault>;

    /// There is no more of `frame`, which is not empty: whether a decoder can
    /// start with it. `after_gap`: packets before its first are missing.
    fn finish(&mut self, frame: &mut Vec<u8>, after_gap: bool) -> Result<bool, Fault>;

    /// Bytes of the frame that are kept beside it.
    fn pending_bytes(&self) -> usize {
        0
    }
}

/// How one format's payloads come apart into units.
pub(super) trait AudioFormat: fmt::Debug + Send {
    /// Takes a payload, never empty; appends what became whole by it to `units`,
    /// each with its distance from `timestamp` in ticks.
    fn take(
        &mut self,
        payload: &[u8],
        timestamp: u32,
        marker: bool,
        units: &mut Vec<(u32, Vec<u8>)>,
    ) -> Result<(), Fault>;

    /// A decoder can start at this unit.
    fn is_keyframe(&self, unit: &[u8]) -> bool {
        let _ = unit;
        true
    }

    /// What is under way will not be whole, since packets are missing; whether
    /// there was anything.
    fn lose(&mut self) -> bool {
        false
    }

    /// Bytes kept of what is under way.
    fn pending_bytes(&self) -> usize {
        0
    }
}

/// One payload, one unit.
#[derive(Debug)]
pub(super) struct Whole;

impl AudioFormat for Whole {
    fn take(
        &mut self,
        payload: &[u8],
        _: u32,
        _: bool,
        units: &mut Vec<(u32, Vec<u8>)>,
    ) -> Result<(), Fault> {
        units.push((0, payload.to_vec()));
        Ok(())
    }
}

/// Why a unit is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Packets of it are missing.
    Loss,
    /// A payload is not what its format says, or does not follow the one before.
    Malformed,
    /// A payload of a kind that this format has, but nobody here reads.
    Unsupported,
    /// It grew beyond the bound.
    Oversized,
}

/// A track whose packets cannot be put together. Its sender's choice, which its
/// session description tells before anything is set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreceivable {
    /// Nobody can receive this format here.
    #[error("{0} cannot be received over RTP")]
    NoFormat(Codec),
    /// The format is known, but not in this mode.
    #[error("{codec} with {parameter} is not supported: {advice}")]
    Mode {
        /// The format.
        codec: Codec,
        /// What of the format parameters is in the way.
        parameter: String,
        /// What the sender should do instead.
        advice: &'static str,
    },
}
