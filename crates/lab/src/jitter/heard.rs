//! Jitter buffers by ear: the same packets of speech, and what each makes of them.

use bytes::Bytes;
use glassline_voice::Decoder;

use super::Outcome;

/// Speech in packets, and how to decode it.
pub struct Spoken<D> {
    /// One for each packet of the stream.
    pub payloads: Vec<Bytes>,
    /// A decoder that has heard nothing yet, of one channel.
    pub make: Box<dyn Fn() -> D>,
    /// Its rate, in Hz.
    pub rate: u32,
    /// Each packet repeats the one before (RFC 2198).
    pub repeats: bool,
}

/// What one contender made of it.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// As without audio.
    pub outcome: Outcome,
    /// All that was played, from the first packet's arrival on.
    pub samples: Vec<f32>,
}

impl<D: Decoder> Spoken<D> {
    /// Samples in `ms` milliseconds.
    pub(super) fn samples(&self, ms: f64) -> usize {
        (f64::from(self.rate) * ms / 1e3).round() as usize
    }
}
