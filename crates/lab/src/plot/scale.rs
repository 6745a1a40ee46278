//! Scales: positions of values on an axis, and round values for its ticks.

/// An axis from `low` to `high`, drawn between two positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    /// Positions of `low` and `high`.
    places: (f64, f64),
    is_logarithmic: bool,
    /// Distance of the ticks of a linear axis.
    step: f64,
}

/// Approximate number of ticks of an axis.
const TICKS: f64 = 5.0;

/// Approximate number of ticks of a long axis.
const TICKS_WIDE: f64 = 12.0;

impl Scale {
    /// A linear axis; `min` and `max` are widened to whole ticks.
    pub(crate) fn linear(min: f64, max: f64, from: f64, to: f64) -> Self {
        let (min, max) = if min.is_finite() && max > min {
            (min, max)
        } else {
            (0.0, 1.0)
        };
        Self::even(min, max, step(max - min, TICKS), from, to)
    }

    /// A long linear axis from 0 to at least `max`, with more ticks.
    pub(crate) fn wide(max: f64, from: f64, to: f64) -> Self {
        let max = if max > 0.0 { max } else { 1.0 };
        Self::even(0.0, max, step(max, TICKS_WIDE), from, to)
    }

    fn even(min: f64, max: f64, step: f64, from: f64, to: f64) -> Self {
        Self {
            low: (min / step + 1e-9).floor() * step,
            high: (max / step - 1e-9).ceil() * step,
            places: (from, to),
            is_logarithmic: false,
            step,
        }
    }

    /// A logarithmic axis; `min` is above 0.
    pub(crate) fn logarithmic(min: f64, max: f64, from: f64, to: f64) -> Self {
        let min = if min > 0.0 { min } else { 1.0 };
        let ticks = || (-30..60).map(decade_third);
        Self {
            low: ticks().rev().find(|tick| *tick <= min).unwrap_or(min),
            high: ticks().find(|tick| *tick >= max).unwrap_or(max),
            places: (from, to),
            is_logarithmic: true,
            step: 0.0,
        }
    }

    /// Position of `value`, limited to the ends of the axis.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let share = if self.is_logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln().max(1e-9)
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.places.0 + share.clamp(0.0, 1.0) * (self.places.1 - self.places.0)
    }

    /// Round values with their labels.
    pub(crate) fn ticks(&self) -> Vec<(f64, String)> {
        let (low, high) = (self.low, self.high);
        let within = |value: &f64| *value >= low * 0.999 && *value <= high * 1.001;
        let values: Vec<f64> = if self.is_logarithmic {
            (-30..60).map(decade_third).filter(within).collect()
        } else {
            let count = ((high - low) / self.step).round() as usize;
            let tick = |tick| low + tick as f64 * self.step;
            (0..=count).map(tick).collect()
        };
        values
            .into_iter()
            .map(|value| (value, number(value)))
            .collect()
    }
}

/// The sequence 1, 2, 5, 10, 20, 50 …
fn decade_third(index: i32) -> f64 {
    let leading = [1.0, 2.0, 5.0][index.rem_euclid(3) as usize];
    leading * 10f64.powi(index.div_euclid(3))
}

/// A step of 1, 2, 2.5 or 5 times a power of ten, so that `span` has at most about `ticks` of
/// them.
fn step(span: f64, ticks: f64) -> f64 {
    let rough = span / ticks;
    let decade = 10f64.powf(rough.log10().floor());
    let leading = [1.0, 2.0, 2.5, 5.0, 10.0];
    let fitting = leading
        .into_iter()
        .find(|leading| leading * decade >= rough * 0.999);
    fitting.unwrap_or(10.0) * decade
}

/// The number as text with as many digits as it needs, at most four behind the point.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text {
        "-0" | "" => "0".to_owned(),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_numbers_that_hold_all_values() {
        let cases: [(f64, f64, &[&str]); 4] = [
            (0.0, 300.0, &["0", "100", "200", "300"]),
            (0.0, 87.0, &["0", "20", "40", "60", "80", "100"]),
            (0.98, 1.0, &["0.98", "0.985", "0.99", "0.995", "1"]),
            (0.43, 1.0, &["0.4", "0.6", "0.8", "1"]),
        ];
        for (min, max, wanted) in cases {
            let scale = Scale::linear(min, max, 0.0, 100.0);
            assert_eq!(labels(&scale), wanted, "{min}..{max}");
            assert!(scale.place(min) >= 0.0 && scale.place(max) <= 100.0);
        }
        let wide = labels(&Scale::wide(300.0, 0.0, 100.0));
        assert_eq!(
            wide,
            [
                "0", "25", "50", "75", "100", "125", "150", "175", "200", "225", "250", "275",
                "300"
            ]
        );
        let scale = Scale::logarithmic(35.0, 900.0, 100.0, 0.0);
        assert_eq!(labels(&scale), ["20", "50", "100", "200", "500", "1000"]);
        assert!((scale.place(20.0) - 100.0).abs() < 1e-9);
        assert!(scale.place(1000.0).abs() < 1e-9);
    }

    proptest::proptest! {
        #[test]
        fn any_span_has_few_ticks_and_finite_places(
            min in -1e6f64..1e6, span in 0.0f64..1e6, value in -1e9f64..1e9
        ) {
            for scale in [
                Scale::linear(min, min + span, 0.0, 500.0),
                Scale::logarithmic(min, min + span, 0.0, 500.0),
            ] {
                proptest::prop_assert!(scale.place(value).is_finite());
                proptest::prop_assert!(scale.ticks().len() <= 60);
            }
        }
    }
}
