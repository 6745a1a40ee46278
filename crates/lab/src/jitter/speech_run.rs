//! Jitter buffers with audio: the same packets of speech, and what each buffer plays of them.

use bytes::Bytes;
use glassline_voice::Decoder;

use super::Outcome;

/// Encoded speech, and a way to decode it.
pub struct EncodedSpeech<D> {
    /// Payload of each packet of the stream.
    pub payloads: Vec<Bytes>,
    /// Makes a new decoder for one channel.
    pub make: Box<dyn Fn() -> D>,
    /// Sample rate, in Hz.
    pub rate: u32,
    /// Whether each packet also carries the one before (RFC 2198).
    pub repeats: bool,
}

/// The speech that one buffer played.
#[derive(Clone, Debug, Default)]
pub struct PlayedSpeech {
    /// Figures, as of a run without audio.
    pub outcome: Outcome,
    /// All samples that were played, from the first packet's arrival on.
    pub samples: Vec<f32>,
}

impl<D: Decoder> EncodedSpeech<D> {
    /// Number of samples in `ms` milliseconds.
    pub(super) fn samples(&self, ms: f64) -> usize {
        (f64::from(self.rate) * ms / 1e3).round() as usize
    }
}
