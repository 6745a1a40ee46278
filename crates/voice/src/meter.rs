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
    // The logarithm of 0 is far below silence, and a NaN counts as 0.
    let dbov = -20.0 * level.max(0.0).log10();
    dbov.round().clamp(0.0, f32::from(SILENT)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_decibels_below_full_scale() {
        // 20 log10: a factor of 10 is 20 dB, a half 6.02 dB.
        let levels = [1.0, 2.0, 0.1, 0.5, 0.001, 1e-6, 1e-7, 0.0, f32::NAN];
        let expected = [0, 0, 20, 6, 60, 120, 127, 127, 127];
        assert_eq!(levels.map(dbov), expected);
    }

    #[test]
    fn a_meter_rises_at_once_and_falls_by_26_db_a_second() {
        let mut meter = Meter::default();
        assert_eq!(meter.dbov(), SILENT);
        // The root mean square of 3 and 4 fifths is the square root of a half.
        meter.update(&[0.6, 0.8], 0.01);
        assert!((meter.level() - 0.5f32.sqrt()).abs() < 1e-6);
        assert_eq!(meter.dbov(), 3);
        meter.update(&[0.0; 2], 0.5);
        let half_fallen = 0.5f32.sqrt() * 0.05f32.sqrt();
        assert!((meter.level() - half_fallen).abs() < 1e-6);
        meter.update(&[0.0; 2], 0.5);
        assert_eq!(meter.dbov(), 3 + 26);
        meter.update(&[f32::NAN], 0.0);
        assert_eq!(meter.dbov(), 3 + 26, "no number is no sound");
    }
}
