/// How loud audio is, as RTP tells it (RFC 6464): dB below full scale.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    level: f32,
}

/// What the meter loses in a second, as a factor, so that it can be read.
const FALL: f32 = 0.05;

/// Nothing is to be heard.
pub(crate) const SILENT: u8 = 127;

impl Meter {
    /// Takes samples that last `seconds`.
    pub(crate) fn hear(&mut self, samples: &[f32], seconds: f32) {
        let level = crate::pitch::level(samples);
        let level = if level.is_finite() { level } else { 0.0 };
        self.level = level.max(self.level * FALL.powf(seconds));
    }

    /// Root mean square, falling slowly.
    pub(crate) const fn level(self) -> f32 {
        self.level
    }

    /// The same in −dBov, 0 (loudest) to 127 (silence).
    pub(crate) fn dbov(self) -> u8 {
        dbov(self.level)
    }
}

/// The level of `samples` in −dBov.
pub(crate) fn dbov(level: f32) -> u8 {
    match level > 0.0 {
        true => (-20.0 * level.log10())
            .round()
            .clamp(0.0, f32::from(SILENT)) as u8,
        false => SILENT,
    }
}
