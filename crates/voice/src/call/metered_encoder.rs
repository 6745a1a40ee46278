//! Encoder wrapper that measures the level of the samples that it encodes: only here is known
//! what gain control and noise suppression make of a voice.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::{Bitrate, Encoder, Unencodable};

/// Wraps `inner` and keeps the largest sample since the peak was last taken.
pub(crate) struct MeteredEncoder<E> {
    pub(super) inner: E,
    pub(super) peak: Rc<Cell<f32>>,
}

impl<E: Encoder> Encoder for MeteredEncoder<E> {
    fn frame_samples(&self) -> usize {
        self.inner.frame_samples()
    }

    fn encode(&mut self, samples: &[f32], payload: &mut Vec<u8>) -> Result<(), Unencodable> {
        let peak = samples.iter().fold(0.0f32, |most, it| most.max(it.abs()));
        self.peak.set(self.peak.get().max(peak));
        self.inner.encode(samples, payload)
    }

    fn look_ahead(&self) -> Duration {
        self.inner.look_ahead()
    }

    fn is_silence(&self, payload: &[u8]) -> bool {
        self.inner.is_silence(payload)
    }

    fn set_bitrate(&mut self, bitrate: Bitrate) {
        self.inner.set_bitrate(bitrate);
    }

    fn set_expected_loss(&mut self, ratio: f64) {
        self.inner.set_expected_loss(ratio);
    }
}
