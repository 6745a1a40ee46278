use std::time::Duration;

use glassline_media::{Bitrate, MediaUnit, Temporal};

const LAYERS_MAX: usize = Temporal::LAYER_MAX as usize + 1;

/// Payload bitrates of an encoding with the temporal layers up to each one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TemporalRates {
    rates: [Bitrate; LAYERS_MAX],
    count: usize,
}

impl TemporalRates {
    /// Returns the bitrate up to each temporal layer, from the lowest one on. Empty for an encoding without
    /// several temporal layers.
    pub fn of_layers(&self) -> &[Bitrate] {
        match self.count {
            0 | 1 => &[],
            count => &self.rates[..count],
        }
    }
}

/// Bytes of each temporal layer.
#[derive(Debug, Default)]
pub(super) struct TemporalBytes {
    bytes: [u64; LAYERS_MAX],
    count: usize,
}

impl TemporalBytes {
    pub(super) fn add(&mut self, unit: &MediaUnit) {
        let layer = usize::from(unit.temporal.layer.min(Temporal::LAYER_MAX));
        self.bytes[layer] += unit.payload_bytes() as u64;
        self.count = self.count.max(layer + 1);
    }

    /// Returns the rates over `span`, which the unit `oldest` begins, whose bytes do not count.
    pub(super) fn over(mut self, oldest: &MediaUnit, span: Duration) -> TemporalRates {
        let layer = usize::from(oldest.temporal.layer.min(Temporal::LAYER_MAX));
        self.bytes[layer] = self.bytes[layer].saturating_sub(oldest.payload_bytes() as u64);
        let mut sum = 0;
        let rates = self.bytes.map(|bytes| {
            sum += bytes;
            Bitrate::over(sum, span)
        });
        TemporalRates {
            rates,
            count: self.count,
        }
    }
}
