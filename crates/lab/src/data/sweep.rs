//! Runs of the same test with different settings.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::plan::Plan;
use super::report::Report;
use glassline_client::impairment::Impairment;

/// Settings with the values that each takes, as on the command line:
/// `message-size=16K,64K,256K,window=256K,4M,rtt=0,20ms`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    axes: Vec<(Setting, Vec<String>)>,
}

/// A setting that can be swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Bytes of a message: `message-size`.
    MessageSize,
    /// Bytes in a channel's queue at which its sender pauses: `high-water`.
    HighWater,
    /// Bytes in a channel's queue at which its sender resumes: `low-water`.
    LowWater,
    /// SCTP receive window in bytes: `window`.
    Window,
    /// Buffers of UDP sockets: `udp-buffer`.
    UdpBuffer,
    /// Number of channels: `channels`.
    Channels,
    /// Round-trip time, which is twice the impairment's delay: `rtt`.
    Rtt,
    /// Loss of the impairment: `loss`.
    Loss,
    /// Rate of the impairment: `rate`.
    Rate,
}

impl Setting {
    const ALL: [(&'static str, Self); 9] = [
        ("message-size", Self::MessageSize),
        ("high-water", Self::HighWater),
        ("low-water", Self::LowWater),
        ("window", Self::Window),
        ("udp-buffer", Self::UdpBuffer),
        ("channels", Self::Channels),
        ("rtt", Self::Rtt),
        ("loss", Self::Loss),
        ("rate", Self::Rate),
    ];

    fn name(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|(_, it)| *it == self).map_or("", |(name, _)| name)
    }
}

/// Most runs of a sweep; more would take days.
const POINTS_MAX: usize = 500;

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut axes: Vec<(Setting, Vec<String>)> = Vec::new();
        for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
            let value = match word.split_once('=') {
                None => word,
                Some((name, value)) => {
                    let known = Setting::ALL.iter().find(|(it, _)| *it == name);
                    let names = Setting::ALL.map(|(name, _)| name).join(", ");
                    let (_, setting) =
                        known.ok_or_else(|| format!("{name:?} is none of {names}"))?;
                    if axes.iter().any(|(it, _)| it == setting) {
                        return Err(format!("{name} comes twice"));
                    }
                    axes.push((*setting, Vec::new()));
                    value
                }
            };
            let (setting, values) = axes
                .last_mut()
                .ok_or_else(|| format!("{word:?} is not NAME=VALUE,VALUE,…"))?;
            apply(
                *setting,
                value,
                &mut Plan::default(),
                &mut Impairment::default(),
            )?;
            values.push(value.to_owned());
        }
        let points: usize = axes.iter().map(|(_, values)| values.len()).product();
        match (axes.is_empty(), points <= POINTS_MAX) {
            (true, _) => Err("give NAME=VALUE,VALUE,… to sweep".to_owned()),
            (_, false) => Err(format!("{points} runs; {POINTS_MAX} are the most")),
            _ => Ok(Self { axes }),
        }
    }
}

/// Sets `setting` to a value; returns the value as a number.
fn apply(
    setting: Setting,
    text: &str,
    plan: &mut Plan,
    impairment: &mut Impairment,
) -> Result<f64, String> {
    let wrong = || format!("{}={text} is not a value of it", setting.name());
    let bytes = || size(text).ok_or_else(wrong);
    match setting {
        Setting::MessageSize => plan.message_size = bytes()?,
        Setting::HighWater => {
            plan.high_water = bytes()?;
            plan.low_water = plan.low_water.min(plan.high_water / 4);
        }
        Setting::LowWater => plan.low_water = bytes()?,
        Setting::Window => plan.window = Some(u32::try_from(bytes()?).map_err(|_| wrong())?),
        Setting::UdpBuffer => plan.udp_buffer = Some(bytes()?),
        Setting::Channels => {
            plan.channels = text.parse().map_err(|_| wrong())?;
            return Ok(plan.channels.into());
        }
        Setting::Rtt => {
            let parsed: Impairment = format!("rtt={text}").parse()?;
            impairment.delay = parsed.delay;
            return Ok(parsed.delay.as_secs_f64() * 2e3);
        }
        Setting::Loss => {
            let parsed: Impairment = format!("loss={text}").parse()?;
            impairment.loss = parsed.loss;
            return Ok(parsed.loss * 100.0);
        }
        Setting::Rate => {
            let parsed: Impairment = format!("rate={text}").parse()?;
            impairment.rate = parsed.rate;
            return Ok(parsed.rate.unwrap_or_default() as f64 / 1e6);
        }
    }
    Ok(bytes()? as f64)
}

/// Parses a size like `16K`, `1M`, `4MiB` or `65536`; units are powers of 1024.
pub fn size(text: &str) -> Option<usize> {
    let text = text.strip_suffix("iB").unwrap_or(text);
    let endings = [("K", 10), ("k", 10), ("M", 20), ("G", 30), ("", 0)];
    let (number, shift) = endings
        .iter()
        .find_map(|(ending, shift)| Some((text.strip_suffix(ending)?, shift)))?;
    let number: usize = number.parse().ok()?;
    number.checked_mul(1 << shift)
}

/// Results of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Swept {
    /// Names of the settings that were swept.
    pub axes: Vec<String>,
    /// One run for each combination.
    pub points: Vec<Point>,
}

/// One run of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, derive_more::Display)]
#[display("{}", self.names.join(" "))]
pub struct Point {
    /// Values of the settings in the order of [`Swept::axes`]: bytes, ms, percent or Mbit/s.
    pub values: Vec<f64>,
    /// The settings with their values as text, like `window=4M`.
    pub names: Vec<String>,
    /// Report of the run.
    pub report: Report,
}

impl Point {
    /// Name of the curve: the settings other than the one on axis `axis`.
    pub fn name_without(&self, axis: usize) -> String {
        let others = self
            .names
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != axis);
        let others: Vec<&str> = others.map(|(_, name)| name.as_str()).collect();
        others.join(" ")
    }
}

impl Swept {
    /// The sweep as CSV: a row for each run.
    pub fn to_csv(&self) -> String {
        let mut out = self.axes.join(",") + "," + RUN_HEADER;
        for point in &self.points {
            let values: Vec<String> = point.values.iter().map(f64::to_string).collect();
            out += &format!("{},{}", values.join(","), run_row(&point.report));
        }
        out
    }
}

/// Column names of [`run_row`].
pub(super) const RUN_HEADER: &str = "goodput_mbps,rtt_ms,window_bound_mbps,retransmitted_bytes,\
timeouts,sender_cpu_s_per_gbit,receiver_cpu_s_per_gbit,bound\n";

/// A run as a CSV row.
pub(super) fn run_row(report: &Report) -> String {
    let text = |value: Option<f64>| value.map(|value| format!("{value:.4}")).unwrap_or_default();
    let bound = serde_json::to_value(report.bound).expect("plain data");
    format!(
        "{:.3},{},{},{},{},{},{},{}\n",
        report.goodput_mbps,
        text(report.rtt_ms),
        text(report.window_bound_mbps),
        report.retransmitted_bytes,
        report.timeouts,
        text(report.cpu_s_per_gbit.sender),
        text(report.cpu_s_per_gbit.receiver),
        bound.as_str().unwrap_or_default(),
    )
}

impl Sweep {
    /// Returns the number of runs of the sweep.
    pub fn runs(&self) -> usize {
        self.axes.iter().map(|(_, values)| values.len()).product()
    }

    /// Runs each combination, with the last axis changing fastest, until a run fails.
    ///
    /// # Errors A combination that is no valid plan, or the error of `run`.
    pub fn run<E: From<String>>(
        &self,
        plan: &Plan,
        impairment: Option<&Impairment>,
        mut run: impl FnMut(&Plan, Option<&Impairment>, &str) -> Result<Option<Report>, E>,
    ) -> Result<Swept, E> {
        let mut swept = Swept {
            axes: self
                .axes
                .iter()
                .map(|(it, _)| it.name().to_owned())
                .collect(),
            points: Vec::new(),
        };
        for index in 0..self.runs() {
            let (mut plan, mut left) = (plan.clone(), index);
            let mut between = impairment.cloned().unwrap_or_default();
            let mut point = (Vec::new(), Vec::new());
            for (setting, values) in self.axes.iter().rev() {
                let text = &values[left % values.len()];
                left /= values.len();
                let value = apply(*setting, text, &mut plan, &mut between)?;
                point.0.insert(0, value);
                point.1.insert(0, format!("{}={text}", setting.name()));
            }
            plan.check()?;
            let is_impaired = impairment.is_some() || between != Impairment::default();
            let between = is_impaired.then_some(&between);
            let Some(report) = run(&plan, between, &point.1.join(" "))? else {
                break;
            };
            swept.points.push(Point {
                values: point.0,
                names: point.1,
                report,
            });
        }
        Ok(swept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::plan::Direction;
    use crate::data::report::tests::report;

    #[test]
    fn each_combination_is_run_once() {
        let sweep: Sweep = "message-size=16K,64K,window=256K,4M,rtt=0,20ms"
            .parse()
            .expect("known");
        assert_eq!(sweep.runs(), 8);
        let mut seen = Vec::new();
        let swept = sweep.run::<String>(&Plan::default(), None, |plan, between, name| {
            let delay = between.map(|it| it.delay.as_millis());
            seen.push((plan.message_size, plan.window, delay));
            assert!(name.starts_with("message-size="), "{name}");
            Ok(Some(report(Direction::Up)))
        });
        let swept = swept.expect("all run");
        assert_eq!(seen[0], (16 << 10, Some(256 << 10), None));
        assert_eq!(seen[7], (64 << 10, Some(4 << 20), Some(10)));
        assert_eq!(swept.points[7].values, [65_536.0, 4_194_304.0, 20.0]);
        assert_eq!(swept.points[7].name_without(0), "window=4M rtt=20ms");
        let chart = crate::data::report::svg::draw_sweep(&swept);
        assert!(chart.contains("window=4M rtt=20ms") && !chart.contains("NaN"));
    }

    #[test]
    fn what_cannot_be_swept_is_said() {
        for (text, wanted) in [
            ("", "NAME=VALUE"),
            ("16K", "NAME=VALUE"),
            ("speed=1", "none of message-size"),
            ("window=x", "not a value"),
            ("window=1M,window=2M", "twice"),
            ("rtt=1h", "a time"),
        ] {
            let error = text.parse::<Sweep>().expect_err(text);
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_are_powers_of_two() {
        assert_eq!(size("16K"), Some(16_384));
        assert_eq!(size("4MiB"), Some(4 << 20));
        assert_eq!(size("1200"), Some(1200));
        assert_eq!(size("1.5M"), None);
        assert_eq!(size("99999999999G"), None);
    }
}
