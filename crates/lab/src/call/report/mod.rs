//! A call's tables and waterfall as text, CSV, JSON and, in [`svg`], as charts.

use std::fmt::Write as _;

use glassline_voice::DuplicateReason;
use serde::{Serialize, Serializer};

use super::frame::Frame;
use super::stage::Stage;
use super::table::{Delays, Row, Table};

pub mod svg;
#[cfg(test)]
mod tests;

/// Where the milliseconds of a call went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Of what: a call, or the logs that were read.
    pub source: String,
    /// Which of a call's two; `None` where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// With whom, in a room; as that one wants to be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The tables of the stages that were seen, in the order of the way.
    pub stages: Vec<Table>,
    /// The frames that both ends know, in the mean: the steps add up to the mean
    /// mouth-to-ear. Empty where only intervals and operations are known.
    pub waterfall: Vec<Waterfall>,
    /// What came more than once, or too late.
    pub copies: Vec<Copies>,
    /// Frames of the call, evenly spread.
    pub frames: Vec<Frame>,
    /// Lines or events that were not understood.
    pub malformed: u64,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// Which way voices go, for the end whose report it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From here to the other end.
    Said,
    /// From the other end to here.
    Heard,
}

impl Direction {
    /// The name in JSON and CSV.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Said => "said",
            Self::Heard => "heard",
        }
    }
}

/// A step of the waterfall.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Waterfall {
    /// Which.
    pub stage: Stage,
    /// How far the mean may be off, where two clocks took part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_ms: Option<f64>,
    /// The mean of all frames.
    pub mean_ms: f64,
    /// Five of 100 are no longer; of the frames that are kept.
    pub p5_ms: f64,
    /// 95 of 100 are no longer.
    pub p95_ms: f64,
}

/// Packets whose number came once more: rows below the packets that came first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Copies {
    /// Why.
    #[serde(serialize_with = "name")]
    pub kind: DuplicateReason,
    /// How many.
    pub count: u64,
    /// After the first one, half of them; `None` if nothing tells.
    pub after_p50_ms: Option<f64>,
    /// The longest.
    pub after_max_ms: Option<f64>,
}

impl Copies {
    pub(super) fn new(kind: DuplicateReason, after: &Delays) -> Self {
        let ms = |us: i64| us as f64 / 1e3;
        Self {
            kind,
            count: after.count(),
            after_p50_ms: after.quantile_us(0.5).map(ms),
            after_max_ms: after.quantile_us(1.0).map(ms),
        }
    }
}

/// A kind by its name.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "what serde calls is given a reference"
)]
fn name<S: Serializer>(kind: &DuplicateReason, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.as_str())
}

/// The names of [`Report::to_csv`]'s columns.
pub(super) const CSV_HEAD: &str = "stage,unit,value,count,fraction,unmatched,lost,p50_ms,p95_ms,p99_ms,max_ms,error_ms,direction\n";

/// Characters of the longest bar.
const BAR_CHARS: f64 = 32.0;

impl Report {
    /// The table of `stage`, if there is one.
    pub fn table(&self, stage: Stage) -> Option<&Table> {
        self.stages.iter().find(|it| it.stage == stage)
    }

    /// For tools: indented, with a newline at the end.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("plain data becomes JSON");
        text + "\n"
    }

    /// A line for each stage, whose value is empty, then one for each of its rows; at the
    /// end, one for each kind of copies.
    pub fn to_csv(&self) -> String {
        CSV_HEAD.to_owned() + &self.csv_lines()
    }

    /// `said`, or with somebody in a room `said to Ann`.
    fn csv_direction(&self) -> String {
        let direction = self.direction.map_or("", Direction::as_str);
        let Some(peer) = &self.peer else {
            return direction.to_owned();
        };
        let word = match self.direction {
            Some(Direction::Heard) => "from",
            _ => "to",
        };
        // What separates cells and lines is in no cell, so that nothing need be quoted.
        format!("{direction} {word} {peer}").replace([',', '"', '\n', '\r'], "_")
    }

    pub(super) fn csv_lines(&self) -> String {
        let mut out = String::new();
        let direction = self.csv_direction();
        let cell = |ms: Option<f64>| ms.map_or_else(String::new, |ms| format!("{ms:.3}"));
        for table in &self.stages {
            let (stage, unit) = (table.stage, table.unit.as_str());
            writeln!(
                out,
                "{stage},{unit},,{},,{},{},{},{},{},{},{},{direction}",
                table.count,
                table.unmatched,
                table.lost,
                cell(table.p50_ms),
                cell(table.p95_ms),
                cell(table.p99_ms),
                cell(table.max_ms),
                cell(table.error_ms)
            )
            .expect("a string takes everything");
            for (place, row) in table.rows.iter().enumerate() {
                let error = cell(table.row_error_ms(place));
                let Row(value, count, fraction) = row;
                writeln!(
                    out,
                    "{stage},{unit},{value},{count},{fraction:.6},,,,,,,{error},{direction}"
                )
                .expect("a string takes everything");
            }
        }
        for copies in &self.copies {
            let (kind, count) = (copies.kind.as_str(), copies.count);
            let [p50, max] = [copies.after_p50_ms, copies.after_max_ms].map(cell);
            writeln!(
                out,
                "network_{kind},ms,,{count},,,,{p50},,,{max},,{direction}"
            )
            .expect("a string takes everything");
        }
        out
    }

    /// For people: each table with its rows, then the waterfall; with ANSI colours if
    /// `colour`.
    pub fn to_text(&self, colour: bool) -> String {
        let (bold, blue, plain) = match colour {
            true => ("\x1b[1m", "\x1b[34m", "\x1b[0m"),
            false => ("", "", ""),
        };
        let mut out = format!("{bold}{}{plain}\n", self.source);
        for table in &self.stages {
            let (title, unit) = (table.stage.title(), table.unit.label());
            write!(
                out,
                "\n{bold}{title}{plain}, {unit} ({})\n{}{}\n",
                table.stage,
                table.to_rows(),
                table.figures()
            )
            .expect("a string takes everything");
        }
        if let Some(steps) = self.steps() {
            write!(
                out,
                "\n{bold}Mean way of a frame{plain}, ms\n{:<20} {:>8} {:>8} {:>8}\n",
                "stage", "mean", "p5", "p95"
            )
            .expect("a string takes everything");
            for (step, bar) in steps {
                let error = step.error_ms;
                let error = error.map_or_else(String::new, |ms| format!(" ± {ms:.2}"));
                writeln!(
                    out,
                    "{:<20} {:>8.2} {:>8.2} {:>8.2}  {blue}{bar}{plain}{error}",
                    step.stage.as_str(),
                    step.mean_ms,
                    step.p5_ms,
                    step.p95_ms
                )
                .expect("a string takes everything");
            }
            writeln!(out, "{:<20} {:>8.2}", "all", self.mean_ms())
                .expect("a string takes everything");
        }
        out + &self.remarks()
    }

    /// Copies and notes.
    fn remarks(&self) -> String {
        let mut out = String::new();
        for copies in &self.copies {
            let after = match (copies.after_p50_ms, copies.after_max_ms) {
                (Some(p50), Some(max)) => format!(", p50 {p50:.1}, max {max:.1} ms after"),
                _ => String::new(),
            };
            writeln!(out, "{} {}{after}", copies.count, copies.kind.as_str())
                .expect("a string takes everything");
        }
        for note in &self.notes {
            writeln!(out, "note: {note}").expect("a string takes everything");
        }
        match out.is_empty() {
            true => out,
            false => format!("\n{out}"),
        }
    }

    /// What the steps come to.
    pub fn mean_ms(&self) -> f64 {
        self.waterfall.iter().map(|it| it.mean_ms).sum()
    }

    /// Each step and its bar, which begins where the one before ends.
    fn steps(&self) -> Option<impl Iterator<Item = (&Waterfall, String)>> {
        let whole = self.mean_ms();
        let chars = move |ms: f64| (ms / whole * BAR_CHARS).round().clamp(0.0, BAR_CHARS) as usize;
        let mut before = 0.0;
        (whole > 0.0).then(|| {
            self.waterfall.iter().map(move |step| {
                let (from, to) = (chars(before), chars(before + step.mean_ms));
                before += step.mean_ms;
                let bar = match to.saturating_sub(from) {
                    0 => "▏".to_owned(),
                    length => "█".repeat(length),
                };
                (step, " ".repeat(from) + &bar)
            })
        })
    }
}
