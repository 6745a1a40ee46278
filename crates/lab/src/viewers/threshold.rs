//! `--fail-if`: conditions on a run's figures, as in `loss>0.1%`.

use std::fmt;
use std::str::FromStr;

use crate::viewers::step::Step;
use Unit::{Bytes, Microseconds, Milliseconds, Number, Percent, Ratio};

/// A condition that must not be met by any step.
#[derive(Clone, Debug)]
pub struct Threshold {
    metric: &'static Metric,
    comparison: Comparison,
    limit: f64,
}

/// Error for a text that is no condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text has no comparison.
    #[error("'{0}' compares nothing: give NAME<VALUE or NAME>VALUE, like loss>0.1%")]
    Shape(String),
    /// There is no such figure.
    #[error("there is no figure '{name}'; there are {known}")]
    Name {
        /// Name in the condition.
        name: String,
        /// Names of all figures.
        known: String,
    },
    /// The right side is no value of the figure's unit.
    #[error("'{value}' is no limit for {name}; give {unit}")]
    Value {
        /// Value in the condition.
        value: String,
        /// Name of the figure.
        name: &'static str,
        /// Unit of the figure.
        unit: &'static str,
    },
}

/// A condition that was met by a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Miss {
    /// Text of the condition.
    pub threshold: String,
    /// Viewers of the step.
    pub viewers: usize,
    /// Figure of the step; `None` if the step has no such figure, which counts as met.
    pub value: Option<f64>,
    unit: Unit,
}

impl Threshold {
    /// Steps that meet the condition, or that have no such figure.
    pub fn misses(&self, steps: &[Step]) -> Vec<Miss> {
        let value = |step| self.metric.of(step);
        let missed = steps.iter().filter(|step| {
            value(step).is_none_or(|value| self.comparison.holds(value, self.limit))
        });
        missed
            .map(|step| Miss {
                threshold: self.to_string(),
                viewers: step.viewers,
                value: value(step),
                unit: self.metric.unit,
            })
            .collect()
    }

    /// Whether the figure requires measuring the server's process.
    pub fn needs_server(&self) -> bool {
        self.metric.name.starts_with("server_")
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.metric.unit.shown(self.limit);
        write!(f, "{}{}{limit}", self.metric.name, self.comparison.sign())
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            threshold, viewers, ..
        } = self;
        match self.value {
            Some(value) => {
                let value = self.unit.shown(value);
                write!(f, "{threshold}: {value} at {viewers} viewers")
            }
            None => write!(f, "{threshold}: not measured at {viewers} viewers"),
        }
    }
}

impl FromStr for Threshold {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let shape = || Error::Shape(text.to_owned());
        let sign = text.find(['<', '>']).ok_or_else(shape)?;
        let (name, rest) = text.split_at(sign);
        let (comparison, value) = Comparison::parse(rest).ok_or_else(shape)?;
        let (name, value) = (name.trim(), value.trim());
        let metric = METRICS
            .iter()
            .find(|metric| metric.name == name || metric.short == name && !name.is_empty())
            .ok_or_else(|| Error::Name {
                name: name.to_owned(),
                known: known(),
            })?;
        let limit = metric.unit.parse(value).ok_or_else(|| Error::Value {
            value: value.to_owned(),
            name: metric.name,
            unit: metric.unit.expected(),
        })?;
        Ok(Self {
            metric,
            comparison,
            limit,
        })
    }
}

fn known() -> String {
    let names = METRICS.iter().map(|metric| match metric.short {
        "" => metric.name.to_owned(),
        short => format!("{short} ({})", metric.name),
    });
    names.collect::<Vec<_>>().join(", ")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Below,
    AtMost,
    Above,
    AtLeast,
}

impl Comparison {
    fn parse(text: &str) -> Option<(Self, &str)> {
        let signs = [Self::AtMost, Self::AtLeast, Self::Below, Self::Above];
        signs
            .into_iter()
            .find_map(|comparison| Some((comparison, text.strip_prefix(comparison.sign())?)))
    }

    const fn sign(self) -> &'static str {
        match self {
            Self::Below => "<",
            Self::AtMost => "<=",
            Self::Above => ">",
            Self::AtLeast => ">=",
        }
    }

    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Below => value < limit,
            Self::AtMost => value <= limit,
            Self::Above => value > limit,
            Self::AtLeast => value >= limit,
        }
    }
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Ratio,
    Percent,
    Milliseconds,
    Microseconds,
    Bytes,
    Number,
}

impl Unit {
    /// Suffixes with their factors; the empty suffix comes last.
    const fn endings(self) -> &'static [(&'static str, f64)] {
        match self {
            Self::Ratio => &[("%", 0.01), ("", 1.0)],
            Self::Percent => &[("%", 1.0), ("", 1.0)],
            Self::Milliseconds => &[("ms", 1.0), ("s", 1e3), ("", 1.0)],
            Self::Microseconds => &[("us", 1.0), ("µs", 1.0), ("ns", 1e-3), ("", 1.0)],
            Self::Bytes => &[("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("B", 1.0), ("", 1.0)],
            Self::Number => &[("", 1.0)],
        }
    }

    const fn expected(self) -> &'static str {
        match self {
            Self::Ratio => "a share like 0.999 or 99.9%",
            Self::Percent => "a percentage like 35%",
            Self::Milliseconds => "a time like 50ms",
            Self::Microseconds => "a time like 2.1us",
            Self::Bytes => "bytes like 100kB",
            Self::Number => "a number",
        }
    }

    fn parse(self, text: &str) -> Option<f64> {
        let (number, worth) = self
            .endings()
            .iter()
            .find_map(|(ending, worth)| Some((text.strip_suffix(ending)?, worth)))?;
        let number: f64 = number.trim().parse().ok()?;
        number.is_finite().then_some(number * worth)
    }

    fn shown(self, value: f64) -> String {
        match self {
            Self::Ratio => format!("{value:.4}"),
            Self::Percent => format!("{value:.1}%"),
            Self::Milliseconds => format!("{value:.1}ms"),
            Self::Microseconds => format!("{value:.2}us"),
            Self::Bytes => format!("{:.0}kB", value / 1e3),
            Self::Number => format!("{value}"),
        }
    }
}

/// A figure of a step.
#[derive(Debug)]
struct Metric {
    /// Name in the JSON, with a dot between levels.
    name: &'static str,
    /// Other name for the command line; empty where the first is short enough.
    short: &'static str,
    unit: Unit,
}

impl Metric {
    /// Returns the figure of a step; `None` where the step has none.
    fn of(&self, step: &Step) -> Option<f64> {
        let json = serde_json::to_value(step).ok()?;
        let pointer = format!("/{}", self.name.replace('.', "/"));
        json.pointer(&pointer)?.as_f64()
    }
}

const fn figure(name: &'static str, short: &'static str, unit: Unit) -> Metric {
    Metric { name, short, unit }
}

const METRICS: &[Metric] = &[
    figure("delivered_ratio", "delivered", Ratio),
    figure("slowest_viewer_ratio", "slowest", Ratio),
    figure("loss_ratio", "loss", Ratio),
    figure("gap_ms.p99", "gap_p99", Milliseconds),
    figure("gap_ms.max", "gap_max", Milliseconds),
    figure("hol.extra_gap_ms.max", "hol_extra", Milliseconds),
    figure("describe_ms.p99", "describe_p99", Milliseconds),
    figure("join_ms.p50", "join_p50", Milliseconds),
    figure("join_ms.p95", "join_p95", Milliseconds),
    figure("delay_ms.p50", "delay_p50", Milliseconds),
    figure("delay_ms.p95", "delay_p95", Milliseconds),
    figure("delay_ms.p99", "delay_p99", Milliseconds),
    figure("hls.stalls", "stalls", Number),
    figure("hls.latency_p95_ms", "latency_p95", Milliseconds),
    figure("connected", "", Number),
    figure("failed", "", Number),
    figure("frames_damaged", "damaged", Number),
    figure("server_cpu_percent", "cpu", Percent),
    figure("server_cpu_us_per_packet", "us_per_packet", Microseconds),
    figure(
        "server_cpu_ms_per_viewer_second",
        "ms_per_viewer_second",
        Milliseconds,
    ),
    figure("server_rss_bytes", "rss", Bytes),
    figure("server_rss_bytes_per_viewer", "rss_per_viewer", Bytes),
    figure("server_cpu_to_floor_ratio", "to_floor", Number),
    figure("generator_cpu_percent", "", Percent),
    figure("machine_cpu_percent", "", Percent),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viewers::step::example;
    use crate::viewers::timing::Delay;

    fn parse(text: &str) -> Threshold {
        text.parse().expect(text)
    }

    #[test]
    fn limits_take_the_units_of_their_figures() {
        for (text, limit) in [
            ("loss>0.1%", 0.001),
            ("loss_ratio > 0.001", 0.001),
            ("delivered<99.9%", 0.999),
            ("gap_p99>=50ms", 50.0),
            ("gap_ms.p99>0.05s", 50.0),
            ("join_p95>50", 50.0),
            ("cpu>35%", 35.0),
            ("us_per_packet>2.1us", 2.1),
            ("rss_per_viewer>100kB", 1e5),
            ("rss>1GB", 1e9),
            ("connected<100", 100.0),
        ] {
            let error = (parse(text).limit - limit).abs();
            assert!(error < limit * 1e-9, "{text}: {}", parse(text).limit);
        }
    }

    #[test]
    fn what_is_no_condition_says_why() {
        for (text, wanted) in [
            ("loss", "compares nothing"),
            ("", "compares nothing"),
            ("loss=1", "compares nothing"),
            ("speed>1", "there is no figure 'speed'"),
            ("speed>1", "gap_p99 (gap_ms.p99)"),
            ("loss>x", "0.999 or 99.9%"),
            ("loss>", "is no limit"),
            ("loss>nan", "is no limit"),
            ("gap_p99>5%", "50ms"),
            ("connected<5ms", "a number"),
        ] {
            let error = text.parse::<Threshold>().expect_err(text).to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn a_met_condition_names_step_and_figure() {
        let steps = [example(25), example(50)];
        assert!(parse("loss>0.1%").misses(&steps).is_empty());
        assert_eq!(parse("delivered<2").misses(&steps).len(), 2);
        let misses = parse("connected>=50").misses(&steps);
        assert_eq!(misses.len(), 1);
        assert_eq!(misses[0].to_string(), "connected>=50: 50 at 50 viewers");
        assert!(parse("connected>50").misses(&steps).is_empty());
        assert_eq!(parse("connected<=25").misses(&steps).len(), 1);
        let misses = parse("gap_p99>30").misses(&steps[..1]);
        assert_eq!(
            misses[0].to_string(),
            "gap_ms.p99>30.0ms: 41.0ms at 25 viewers"
        );
    }

    #[test]
    fn a_figure_that_is_missing_keeps_no_promise() {
        let mut step = example(25);
        assert_eq!(
            parse("delay_p95>100ms").misses(&[step.clone()])[0].value,
            None
        );
        step.delay_ms = Some(Delay {
            p50: 1.0,
            p95: 2.0,
            p99: 3.0,
        });
        assert!(parse("delay_p95>100ms").misses(&[step]).is_empty());
        assert!(parse("cpu>1").needs_server() && !parse("loss>1").needs_server());
    }

    #[test]
    fn every_figure_is_called_as_in_json() {
        let step = Step {
            hol: Some(crate::viewers::trouble::Hol::default()),
            ..example(1)
        };
        let json = serde_json::to_value(step).expect("plain data");
        for metric in METRICS {
            let pointer = format!("/{}", metric.name.replace('.', "/"));
            let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
            let known = json.pointer(&pointer).is_some()
                || json.pointer(parent).is_some_and(serde_json::Value::is_null);
            assert!(known, "{}", metric.name);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            if let Ok(threshold) = text.parse::<Threshold>() {
                let again = threshold.to_string().parse::<Threshold>();
                proptest::prop_assert!(again.is_ok());
            }
        }
    }
}
