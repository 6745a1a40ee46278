use std::fmt;

use crate::length::Length;

/// Frames per second as an exact ratio, so that times of 29.97 do not drift within an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRate {
    numerator: u32,
    denominator: u32,
}

/// Highest frame rate of a file.
const FPS_MAX: u32 = 1000;

impl FrameRate {
    /// Rate that is assumed if neither the bitstream nor the user states one.
    pub const DEFAULT: Self = Self {
        numerator: 30,
        denominator: 1,
    };

    /// Creates the rate of `numerator` frames in `denominator` seconds; `None` unless it is
    /// from 0.1 to 1000.
    pub fn new(numerator: u64, denominator: u64) -> Option<Self> {
        let divisor = gcd(numerator, denominator);
        let numerator = u32::try_from(numerator.checked_div(divisor)?).ok()?;
        let denominator = u32::try_from(denominator / divisor).ok()?;
        let fast = u64::from(numerator) > u64::from(FPS_MAX) * u64::from(denominator);
        let slow = u64::from(numerator) * 10 < u64::from(denominator);
        (denominator > 0 && !fast && !slow).then_some(Self {
            numerator,
            denominator,
        })
    }

    /// Returns the ratio that a decimal stands for: 29.97 means 30000/1001, as in television.
    /// `None` unless it is from 0.1 to 1000.
    pub fn from_decimal(fps: f64) -> Option<Self> {
        if !fps.is_finite() || fps <= 0.0 || fps > f64::from(FPS_MAX) {
            return None;
        }
        let whole = fps.round();
        let television = whole * 1000.0 / 1001.0;
        if (fps - whole).abs() > 1e-9 && (fps - television).abs() < 0.006 {
            Self::new(whole as u64 * 1000, 1001)
        } else {
            Self::new((fps * 1e6).round() as u64, 1_000_000)
        }
    }

    /// Returns the frames per second.
    pub fn fps(self) -> f64 {
        f64::from(self.numerator) / f64::from(self.denominator)
    }

    /// Returns the exact length of `halves` field periods.
    pub(crate) fn length(self, halves: u64) -> Length {
        let ticks = u128::from(halves) * u128::from(self.denominator);
        match (i64::try_from(ticks), self.numerator.checked_mul(2)) {
            (Ok(ticks), Some(rate)) => Length::from_ticks(ticks, rate),
            _ => Length::from_nanos(self.nanos(halves)),
        }
    }

    /// Returns the time of `halves` field periods in ns, rounded.
    ///
    /// The unit is half a frame, because a field of interlaced video lasts half a frame.
    pub(crate) fn nanos(self, halves: u64) -> i64 {
        let numerator = u128::from(self.numerator) * 2;
        let scaled = u128::from(halves) * u128::from(self.denominator) * 1_000_000_000;
        i64::try_from((scaled + numerator / 2) / numerator).unwrap_or(i64::MAX)
    }
}

impl fmt::Display for FrameRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = format!("{:.3}", self.fps());
        f.write_str(rounded.trim_end_matches('0').trim_end_matches('.'))
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_television_are_exact() {
        let ntsc = FrameRate::new(30_000, 1001);
        assert_eq!(FrameRate::from_decimal(29.97), ntsc);
        assert_eq!(FrameRate::from_decimal(29.970_03), ntsc);
        assert_eq!(
            FrameRate::from_decimal(23.976),
            FrameRate::new(24_000, 1001)
        );
        assert_eq!(FrameRate::from_decimal(30.0), FrameRate::new(30, 1));
        assert_eq!(FrameRate::from_decimal(12.5), FrameRate::new(25, 2));
        assert_eq!(ntsc.map(|rate| rate.to_string()).as_deref(), Some("29.97"));
    }

    #[test]
    fn senseless_rates_are_none() {
        for fps in [0.0, -1.0, f64::NAN, f64::INFINITY, 1000.5, 0.01] {
            assert_eq!(FrameRate::from_decimal(fps), None, "{fps}");
        }
        assert_eq!(FrameRate::new(1, 0), None);
        assert_eq!(FrameRate::new(0, 0), None);
        assert_eq!(FrameRate::new(0, 1), None);
        assert_eq!(FrameRate::new(u64::from(u32::MAX), 2), None);
    }

    #[test]
    fn an_hour_of_television_does_not_drift() {
        let rate = FrameRate::new(30_000, 1001).expect("a rate");
        // 107,892 frames are 3,599.9964 s.
        assert_eq!(rate.nanos(2 * 107_892), 3_599_996_400_000);
        assert_eq!(rate.nanos(2), 33_366_667);
        assert_eq!(rate.nanos(1), 16_683_333);
    }
}
