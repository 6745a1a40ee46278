//! Distributions as quantile functions, so that evenly spread points give evenly spread
//! parameters.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

/// A parameter's distribution. In TOML it is a plain number, or a table of one key:
///
/// ```toml
/// a = 20
/// b = { uniform = [5, 10] }
/// c = { log_uniform = [0.001, 1] }
/// d = { log_normal = { median = 9, sigma = 0.8, min = 0.5, max = 80 } }
/// e = { mixture = [{ share = 0.7, of = 0 }, { share = 0.3, of = { uniform = [1, 2] } }] }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Distribution {
    /// Always the same value.
    Constant(f64),
    /// Uniform between the two values.
    Uniform([f64; 2]),
    /// Uniform in the logarithm between the two values.
    LogUniform([f64; 2]),
    /// Normal in the logarithm.
    LogNormal(LogNormal),
    /// One of several distributions, by their shares.
    Mixture(Vec<Component>),
}

/// A log-normal distribution; values outside the limits are moved to them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LogNormal {
    /// Median of the values.
    median: f64,
    /// Standard deviation of the natural logarithm.
    sigma: f64,
    /// Smallest value that is drawn.
    #[serde(default)]
    min: f64,
    /// Largest value that is drawn.
    #[serde(default = "unlimited")]
    max: f64,
}

/// A component of a mixture.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Component {
    /// Probability of the component, 0..=1.
    share: f64,
    /// Distribution of the component.
    of: Distribution,
}

/// Returns the default of `max`.
fn unlimited() -> f64 {
    f64::INFINITY
}

impl Distribution {
    /// Returns the value below which the share `at` (0..1) of all values lies. For a
    /// mixture, returns the value of the component that `at` falls to: its components are
    /// not sorted.
    pub(super) fn quantile(&self, at: f64) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Uniform([low, high]) => low + (high - low) * at,
            Self::LogUniform([low, high]) => low * (high / low).powf(at),
            Self::LogNormal(LogNormal {
                median,
                sigma,
                min,
                max,
            }) => (median * (sigma * normal_quantile(at)).exp()).clamp(*min, *max),
            Self::Mixture(components) => {
                let mut before = 0.0;
                let last = components.len().saturating_sub(1);
                for (index, Component { share, of }) in components.iter().enumerate() {
                    if at < before + share || index == last {
                        return of.quantile(((at - before) / share).clamp(LEAST, 1.0 - LEAST));
                    }
                    before += share;
                }
                0.0
            }
        }
    }

    /// Returns the smallest and the largest value, or why the distribution is invalid.
    pub(super) fn range(&self) -> Result<[f64; 2], &'static str> {
        match self {
            Self::Constant(value) if value.is_finite() => Ok([*value; 2]),
            Self::Constant(_) => Err("is not a finite number"),
            Self::Uniform([low, high]) | Self::LogUniform([low, high]) => {
                if !low.is_finite() || !high.is_finite() || low > high {
                    return Err("needs two finite numbers, the lower one first");
                }
                if matches!(self, Self::LogUniform(_)) && *low <= 0.0 {
                    return Err("log_uniform needs numbers above 0");
                }
                Ok([*low, *high])
            }
            Self::LogNormal(LogNormal {
                median,
                sigma,
                min,
                max,
            }) => {
                if !median.is_finite() || *median <= 0.0 {
                    return Err("log_normal needs a median above 0");
                }
                if !sigma.is_finite() || *sigma < 0.0 {
                    return Err("log_normal needs a sigma of at least 0");
                }
                if min.is_nan() || max.is_nan() || min > max {
                    return Err("log_normal needs its min below its max");
                }
                Ok([self.quantile(LEAST), self.quantile(1.0 - LEAST)])
            }
            Self::Mixture(components) => {
                let shares: f64 = components.iter().map(|component| component.share).sum();
                if components
                    .iter()
                    .any(|part| part.share.is_nan() || part.share <= 0.0)
                {
                    return Err("mixture needs shares above 0");
                }
                if (shares - 1.0).abs() > 1e-6 {
                    return Err("mixture needs shares that add up to 1");
                }
                let mut range = [f64::INFINITY, f64::NEG_INFINITY];
                for component in components {
                    let [low, high] = component.of.range()?;
                    range = [range[0].min(low), range[1].max(high)];
                }
                Ok(range)
            }
        }
    }
}

/// Smallest quantile that is ever used, and its distance from 1 the largest: half of what
/// 32 bits resolve.
pub(super) const LEAST: f64 = 1.0 / (1u64 << 33) as f64;

impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrTable)
    }
}

/// Reads a number, or a table of one key.
struct NumberOrTable;

/// The tables that describe a distribution.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Table {
    Uniform([f64; 2]),
    LogUniform([f64; 2]),
    LogNormal(LogNormal),
    Mixture(Vec<Component>),
}

impl<'de> Visitor<'de> for NumberOrTable {
    type Value = Distribution;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or one of uniform, log_uniform, log_normal, mixture")
    }

    fn visit_f64<E>(self, value: f64) -> Result<Distribution, E> {
        Ok(Distribution::Constant(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Distribution, E> {
        Ok(Distribution::Constant(value as f64))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Distribution, A::Error> {
        let table = Table::deserialize(MapAccessDeserializer::new(map))?;
        Ok(match table {
            Table::Uniform(limits) => Distribution::Uniform(limits),
            Table::LogUniform(limits) => Distribution::LogUniform(limits),
            Table::LogNormal(log_normal) => Distribution::LogNormal(log_normal),
            Table::Mixture(components) => Distribution::Mixture(components),
        })
    }
}

/// Returns the quantile of the standard normal distribution at `at` (0..1), to seven
/// digits: routine PPND7 of Wichura, "Algorithm AS 241", Applied Statistics 37 (1988).
fn normal_quantile(at: f64) -> f64 {
    let from_middle = at - 0.5;
    if from_middle.abs() <= 0.425 {
        let r = 0.180_625 - from_middle * from_middle;
        let above = ((59.109_374_720 * r + 159.291_132_02) * r + 50.434_271_938) * r;
        let below = ((67.187_563_600 * r + 78.757_757_664) * r + 17.895_169_469) * r;
        return from_middle * (above + 3.387_132_717_9) / (below + 1.0);
    }
    let tail = (-at.min(1.0 - at).ln()).sqrt();
    let distance = if tail <= 5.0 {
        let r = tail - 1.6;
        let above = ((0.170_238_211_03 * r + 1.306_728_481_6) * r + 2.756_815_390_0) * r;
        let below = (0.120_211_329_75 * r + 0.737_001_642_50) * r;
        (above + 1.423_437_277_7) / (below + 1.0)
    } else {
        let r = tail - 5.0;
        let above = ((0.017_337_203_997 * r + 0.428_682_943_37) * r + 3.081_226_386_0) * r;
        let below = (0.012_258_202_635 * r + 0.241_978_942_25) * r;
        (above + 6.657_905_115_0) / (below + 1.0)
    };
    distance.copysign(from_middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File {
        value: Distribution,
    }

    fn read(toml: &str) -> Result<Distribution, String> {
        let file: File =
            toml::from_str(&format!("value = {toml}")).map_err(|error| error.to_string())?;
        file.value.range()?;
        Ok(file.value)
    }

    #[test]
    fn the_normal_quantile_agrees_with_the_tables() {
        for (at, expected) in [
            (0.5, 0.0),
            (0.9, 1.281_551_6),
            (0.975, 1.959_964_0),
            (0.001, -3.090_232_3),
            (1e-6, -4.753_424_3),
            (1e-12, -7.034_484_0),
        ] {
            let found = normal_quantile(at);
            assert!((found - expected).abs() < 2e-6, "{at}: {found}");
        }
    }

    #[test]
    fn quantiles_are_what_the_names_say() {
        for (toml, quartiles) in [
            ("20", [20.0; 3]),
            ("0.5", [0.5; 3]),
            ("{ uniform = [4, 8] }", [5.0, 6.0, 7.0]),
            ("{ log_uniform = [1, 16] }", [2.0, 4.0, 8.0]),
            ("{ uniform = [5, 5] }", [5.0; 3]),
            (
                "{ log_normal = { median = 9, sigma = 0.8, min = 7, max = 7 } }",
                [7.0; 3],
            ),
            (
                "{ log_normal = { median = 9, sigma = 0.8, min = 6, max = 12 } }",
                [6.0, 9.0, 12.0],
            ),
            (
                "{ mixture = [{ share = 0.5, of = 1 }, { share = 0.5, of = { uniform = [2, 4] } }] }",
                [1.0, 2.0, 3.0],
            ),
        ] {
            let distribution = read(toml).expect(toml);
            let found = [0.25, 0.5, 0.75].map(|at| distribution.quantile(at));
            for (found, expected) in found.iter().zip(quartiles) {
                assert!((found - expected).abs() < 1e-6, "{toml}: {found}");
            }
        }
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        for (toml, reason) in [
            ("'fast'", "a number or one of uniform, log_uniform"),
            ("{ normal = [1, 2] }", "unknown variant `normal`"),
            ("{ uniform = [2, 1] }", "the lower one first"),
            ("{ uniform = [2, inf] }", "two finite numbers"),
            ("nan", "not a finite number"),
            ("{ log_uniform = [0, 1] }", "numbers above 0"),
            (
                "{ log_normal = { median = 0, sigma = 1 } }",
                "a median above 0",
            ),
            (
                "{ log_normal = { median = 1, sigma = -1 } }",
                "a sigma of at least 0",
            ),
            (
                "{ log_normal = { median = 1, sigma = 1, min = 3, max = 2 } }",
                "min below its max",
            ),
            (
                "{ log_normal = { median = 1, sigma = 1, mean = 2 } }",
                "unknown field `mean`",
            ),
            ("{ mixture = [{ share = 0.5, of = 1 }] }", "add up to 1"),
            (
                "{ mixture = [{ share = -1, of = 1 }, { share = 2, of = 1 }] }",
                "shares above 0",
            ),
            ("{ mixture = [] }", "add up to 1"),
        ] {
            let error = read(toml).expect_err(toml);
            assert!(error.contains(reason), "{toml}: {error}");
        }
    }
}
