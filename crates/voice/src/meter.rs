/// Audio level meter with a slow fall, as RTP reports levels (RFC 6464).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    level: f32,
}

/// Factor by which the displayed level falls in a second.
const FALL: f32 = 0.05;

/// Level of silence, in −dBov.
pub(crate) const SILENT: u8 = 127;

impl Meter {
    /// Updates the meter with samples that last `seconds`.
    pub(crate) fn update(&mut self, samples: &[f32], seconds: f32) {
        let level = crate::pitch::level(samples);
        let level = if level.is_finite() { level } else { 0.0 };
        self.level = level.max(self.level * FALL.powf(seconds));
    }

    /// Root mean square of the level, 0 to 1; falls slowly.
    pub(crate) const fn level(self) -> f32 {
        self.level
    }

    /// The level in −dBov, 0 (loudest) to 127 (silence).
    pub(crate) fn dbov(self) -> u8 {
        dbov(self.level)
    }
}

/// Converts a root mean square `level` to −dBov, 0 (loudest) to 127 (silence).
pub(crate) fn dbov(level: f32) -> u8 {
    match level > 0.0 {
        true => (-20.0 * level.log10())
            .round()
            .clamp(0.0, f32::from(SILENT)) as u8,
        false => SILENT,
    }
}
