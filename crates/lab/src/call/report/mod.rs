//! Report of a call: its tables and waterfall as text, CSV, JSON and, in [`svg`], as charts.

use std::fmt::Write as _;

use glassline_voice::DuplicateReason;
use serde::{Serialize, Serializer};

use super::frame::Frame;
use super::stage::Stage;
use super::table::{Delays, Row, Table};

pub mod svg;
#[cfg(test)]
mod tests;

/// Delay tables of one direction of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Description of the call, or of the logs that were read.
    pub source: String,
    /// Direction of the audio; `None` where the report has one direction only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// Name of the other participant, in a room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Tables of the stages that were seen, in the order of the path.
    pub stages: Vec<Table>,
    /// Mean delays of the frames that both ends have stamped; the steps add up to the mean
    /// mouth-to-ear delay. Empty where only intervals and operations are known.
    pub waterfall: Vec<Waterfall>,
    /// Packets that came more than once, or too late.
    pub copies: Vec<Copies>,
    /// Sample of the call's frames, spread evenly.
    pub frames: Vec<Frame>,
    /// Number of lines or events that were not understood.
    pub malformed: u64,
    /// Notes for the reader, as sentences.
    pub notes: Vec<String>,
}

/// Direction of audio, seen from the end whose report this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Direction {
    /// From this end to the other.
    #[serde(rename = "said")]
    Sent,
    /// From the other end to this one.
    #[serde(rename = "heard")]
    Received,
}

impl Direction {
    /// The name in JSON and CSV.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "said",
            Self::Received => "heard",
        }
    }
}

/// One step of the waterfall.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Waterfall {
    /// Stage of the step.
    pub stage: Stage,
    /// Largest error of the mean, in ms, where two clocks took part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_ms: Option<f64>,
    /// Mean delay of all frames, in ms.
    pub mean_ms: f64,
    /// 5th percentile of the sampled frames, in ms.
    pub p5_ms: f64,
    /// 95th percentile of the sampled frames, in ms.
    pub p95_ms: f64,
}

/// Packets whose sequence number came once more, by reason.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Copies {
    /// Reason of the copies.
    #[serde(serialize_with = "name")]
    pub kind: DuplicateReason,
    /// Number of copies that were counted.
    pub count: u64,
    /// Median delay behind the first packet, in ms; `None` if it is not known.
    pub after_p50_ms: Option<f64>,
    /// Longest delay behind the first packet, in ms.
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

/// Serializes a reason by its name.
fn name<S: Serializer>(kind: &DuplicateReason, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.as_str())
}

/// The names of [`Report::to_csv`]'s columns.
pub(super) const CSV_HEAD: &str = "stage,unit,value,count,fraction,unmatched,lost,p50_ms,p95_ms,p99_ms,max_ms,error_ms,direction\n";

/// Width of the longest bar, in characters.
const BAR_CHARS: f64 = 32.0;

impl Report {
    /// The table of `stage`, if the call has one.
    pub fn table(&self, stage: Stage) -> Option<&Table> {
        self.stages.iter().find(|it| it.stage == stage)
    }

    /// The report as indented JSON with a newline at the end.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("plain data becomes JSON");
        text + "\n"
    }

    /// The report as CSV: for each stage a line with an empty value, then a line for each of its
    /// rows; at the end a line for each kind of copies.
    pub fn to_csv(&self) -> String {
        CSV_HEAD.to_owned() + &self.csv_lines()
    }

    /// `said`, or in a room `said to Ann`.
    fn csv_direction(&self) -> String {
        let direction = self.direction.map_or("", Direction::as_str);
        let Some(peer) = &self.peer else {
            return direction.to_owned();
        };
        let word = match self.direction {
            Some(Direction::Received) => "from",
            _ => "to",
        };
        // Separators of cells and lines are replaced, so that no cell needs quotes.
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

    /// The report as text: each table with its rows, then the waterfall. `color` adds ANSI
    /// colors.
    pub fn to_text(&self, color: bool) -> String {
        let (bold, blue, plain) = match color {
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
                "\n{bold}Mean delays of a frame{plain}, ms\n{:<20} {:>8} {:>8} {:>8}\n",
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

    /// The lines on copies, then the notes.
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

    /// Sum of the waterfall's steps, in ms.
    pub fn mean_ms(&self) -> f64 {
        self.waterfall.iter().map(|it| it.mean_ms).sum()
    }

    /// Each step with its bar, which begins where the bar before ends.
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
