//! Report of jitter buffers on the same delays: figures, table, CSV rows, chart.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::outcome::{Moment, Outcome, Wait};

pub mod quality;
pub mod svg;

/// Report that `glassline bench jitter --json` writes. The figures at the top level are those of
/// our buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the trace: its file, or family and seed.
    pub trace: String,
    /// Begin of the run in UTC (RFC 3339).
    pub started: String,
    /// Version of Glassline that made the report.
    pub version: String,
    /// Number of packets that were sent.
    pub packets: u64,
    /// Time between two packets, in ms.
    pub interval_ms: f64,
    /// Time between two calls of the device for our buffer, in ms.
    pub pull_ms: f64,
    /// How far our buffer changes its delay while somebody speaks: swift, even or steady.
    pub pace: String,
    /// Largest share of the time that our buffer may conceal because packets were late, 0–1.
    pub late_share: f64,
    /// Figures of our buffer.
    #[serde(flatten)]
    pub glassline: Figures,
    /// Figures of every buffer; ours is the first.
    pub contenders: Vec<Named>,
    /// Curves of waiting against concealment, one for each buffer; empty unless they were asked
    /// for.
    pub curves: Vec<Curve>,
}

/// Figures of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Distribution of the packets' waits, in ms.
    pub wait_ms: Wait,
    /// Share of the time that was concealed, 0–1.
    pub concealed_ratio: f64,
    /// Share of the time that stretching left out or played twice, 0–1.
    pub stretched_ratio: f64,
    /// Packets that arrived too late to be played.
    pub late: u64,
    /// Packets that never arrived.
    pub lost: u64,
}

/// Figures of a buffer with its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Named {
    /// Name of the row in tables.
    pub name: String,
    /// Figures of the buffer.
    #[serde(flatten)]
    pub figures: Figures,
}

/// One buffer at several settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Name of the row in tables.
    pub name: String,
    /// Points in order of the setting.
    pub points: Vec<Point>,
}

/// One setting of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Value of the contender's setting.
    pub setting: f64,
    /// Mean wait of the packets, in ms.
    pub wait_ms: f64,
    /// Share of the time that was concealed, 0–1.
    pub concealed_ratio: f64,
}

/// Waits of a buffer over time, for the chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// Name of the row in tables.
    pub name: String,
    /// Played packets of the drawn minute.
    pub moments: Vec<Moment>,
}

impl From<&Outcome> for Figures {
    fn from(outcome: &Outcome) -> Self {
        Self {
            wait_ms: outcome.wait(),
            concealed_ratio: outcome.concealed_ratio,
            stretched_ratio: outcome.stretched_ratio,
            late: outcome.late,
            lost: outcome.lost,
        }
    }
}

impl Point {
    /// The point of `outcome` at `setting`.
    pub fn new(setting: f64, outcome: &Outcome) -> Self {
        Self {
            setting,
            wait_ms: outcome.wait().mean,
            concealed_ratio: outcome.concealed_ratio,
        }
    }
}

impl Report {
    /// The report as indented JSON with a newline at the end.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("plain data becomes JSON");
        text + "\n"
    }

    /// The report as CSV: a head, then a line for each buffer.
    pub fn to_csv(&self) -> String {
        let mut out = "contender,wait_mean_ms,wait_p50_ms,wait_p95_ms,wait_p99_ms,wait_max_ms,\
                       concealed_ratio,stretched_ratio,late,lost\n"
            .to_owned();
        for Named { name, figures } in &self.contenders {
            let wait = figures.wait_ms;
            writeln!(
                out,
                "\"{name}\",{:.3},{:.3},{:.3},{:.3},{:.3},{:.6},{:.6},{},{}",
                wait.mean,
                wait.p50,
                wait.p95,
                wait.p99,
                wait.max,
                figures.concealed_ratio,
                figures.stretched_ratio,
                figures.late,
                figures.lost
            )
            .expect("a string takes everything");
        }
        out
    }

    /// The report as a table of fewer than a hundred columns. `color` adds ANSI colors.
    pub fn to_table(&self, color: bool) -> String {
        let (bold, dim, plain) = match color {
            true => ("\x1b[1m", "\x1b[2m", "\x1b[0m"),
            false => ("", "", ""),
        };
        let seconds = self.packets as f64 * self.interval_ms / 1e3;
        let mut out = format!(
            "{}: {} packets of {} ms, {seconds:.0} s, {} lost\n\n{dim}{:<22}{:>8}{:>7}{:>7}{:>7}{:>7}{:>12}{:>12}{:>7}{plain}\n",
            self.trace,
            self.packets,
            self.interval_ms,
            self.glassline.lost,
            "wait, ms",
            "mean",
            "p50",
            "p95",
            "p99",
            "max",
            "concealed %",
            "stretched %",
            "late"
        );
        for (place, Named { name, figures }) in self.contenders.iter().enumerate() {
            let wait = figures.wait_ms;
            let begin = if place == 0 { bold } else { "" };
            writeln!(
                out,
                "{begin}{name:<22}{:>8.1}{:>7.1}{:>7.1}{:>7.1}{:>7.1}{:>12.3}{:>12.2}{:>7}{plain}",
                wait.mean,
                wait.p50,
                wait.p95,
                wait.p99,
                wait.max,
                figures.concealed_ratio * 100.0,
                figures.stretched_ratio * 100.0,
                figures.late
            )
            .expect("a string takes everything");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    pub(super) fn report() -> Report {
        let figures = Figures {
            wait_ms: Wait {
                mean: 18.6,
                p50: 14.0,
                p95: 46.0,
                p99: 79.0,
                max: 210.0,
            },
            concealed_ratio: 0.000_5,
            stretched_ratio: 0.046,
            late: 1,
            lost: 2,
        };
        let named = |name: &str| Named {
            name: name.to_owned(),
            figures,
        };
        let point = |setting, wait_ms, concealed_ratio| Point {
            setting,
            wait_ms,
            concealed_ratio,
        };
        Report {
            trace: "ar98:<7>".to_owned(),
            started: "2026-11-21T13:00:00Z".to_owned(),
            version: "0.1.0".to_owned(),
            packets: 30_000,
            interval_ms: 20.0,
            pull_ms: 2.5,
            pace: "even".to_owned(),
            late_share: 0.000_8,
            glassline: figures,
            contenders: vec![named("glassline"), named("NetEq M98 (model)")],
            curves: vec![Curve {
                name: "glassline".to_owned(),
                points: vec![point(0.001, 20.0, 0.001), point(0.01, 10.0, 0.01)],
            }],
        }
    }

    /// Tools read these names.
    #[test]
    fn the_names_of_the_json_stay() {
        let json: Value = serde_json::from_str(&report().to_json()).expect("JSON");
        for path in [
            "/packets",
            "/wait_ms/mean",
            "/wait_ms/p50",
            "/wait_ms/p95",
            "/wait_ms/p99",
            "/wait_ms/max",
            "/concealed_ratio",
            "/stretched_ratio",
            "/late",
            "/lost",
            "/contenders/1/wait_ms/mean",
            "/contenders/1/concealed_ratio",
            "/curves/0/points/0/wait_ms",
        ] {
            let value = json.pointer(path).and_then(Value::as_f64);
            assert!(value.is_some(), "{path} is missing in {json:#}");
        }
        let name = json.pointer("/contenders/0/name").and_then(Value::as_str);
        assert_eq!(name, Some("glassline"));
        let again: Report = serde_json::from_value(json).expect("its own names");
        assert_eq!(again, report());
    }

    #[test]
    fn rows_and_table_have_everybody() {
        let report = report();
        let csv = report.to_csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 3);
        let columns = |line: &str| line.split(',').count();
        assert!(lines.iter().all(|line| columns(line) == columns(lines[0])));
        let table = report.to_table(false);
        assert!(table.contains("NetEq M98 (model)") && !table.contains('\x1b'));
        assert!(table.lines().all(|line| line.len() < 100), "{table}");
        assert!(report.to_table(true).contains("\x1b[1mglassline"));
    }
}
