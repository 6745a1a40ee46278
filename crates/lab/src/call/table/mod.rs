//! Delays of a stage: counted exactly, printed as rows of whole milliseconds, of microseconds, or
//! of the network's ranges.
//!
//! Every sample is in the table and in its denominator, however long. Frames that never became a
//! sample are counted beside it, as `unmatched` and `lost`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use serde::ser::Serializer;

use super::stage::Stage;
use super::unit::Unit;

#[cfg(test)]
mod tests;

/// Distribution of delays, as it is printed and serialized.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Stage of the table.
    pub stage: Stage,
    /// Unit of the values in `rows`.
    pub unit: Unit,
    /// Number of delays that were measured: the sum of the rows.
    pub count: u64,
    /// Frames that only one end saw, though the other should have seen them.
    pub unmatched: u64,
    /// Frames that entered the stage and never left it.
    pub lost: u64,
    /// Median delay; `None` if nothing was measured.
    pub p50_ms: Option<f64>,
    /// 95th percentile of the delays.
    pub p95_ms: Option<f64>,
    /// 99th percentile of the delays.
    pub p99_ms: Option<f64>,
    /// Longest delay, in ms.
    pub max_ms: Option<f64>,
    /// Mean delay, in ms.
    pub mean_ms: Option<f64>,
    /// Largest error of a delay, where two clocks took part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_ms: Option<f64>,
    /// Rows by value, ascending.
    pub rows: Vec<Row>,
    /// Largest error of each row, where two clocks took part; `null` for rows without delays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row_errors_ms: Option<Vec<Option<f64>>>,
    /// Counts by microsecond, for charts.
    #[serde(skip)]
    pub(super) exact: Vec<(i64, u64)>,
}

/// One line of a table; `[value, count, fraction]` in JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row(
    /// Delay of the row.
    pub Value,
    /// Number of frames with this delay.
    pub u64,
    /// Share of all frames, 0–1.
    pub f64,
);

/// Value of a row.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Value {
    /// A number in the table's unit.
    Number(i64),
    /// A range of milliseconds, without its lower end and with its upper one.
    Range(&'static str),
}

/// Upper ends of the network's ranges in µs, and their names. Delays below zero (the clocks of
/// two hosts disagree) have a range of their own, which is shown only if it is not empty.
const RANGES: [(i64, &str); 9] = [
    (-1, "(...-0)"),
    (5_000, "(0-5]"),
    (10_000, "(5-10]"),
    (15_000, "(10-15]"),
    (20_000, "(15-20]"),
    (35_000, "(20-35]"),
    (60_000, "(35-60]"),
    (100_000, "(60-100]"),
    (i64::MAX, "(100-...]"),
];

/// Counter of delays.
///
/// Exact to the microsecond below 131 ms, to 0.1 ms below 10 s, to 0.1 s below an hour; longer
/// delays count as an hour. So a log cannot make it grow beyond 20 MB.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delays {
    counts: BTreeMap<i64, u64>,
    count: u64,
    sum_us: i128,
    max_us: Option<i64>,
    unmatched: u64,
    lost: u64,
    error: Option<Duration>,
    /// Largest clock error of each range, in half milliseconds: see [`place`].
    errors: BTreeMap<i64, Duration>,
}

const HOUR_US: i64 = 3_600_000_000;

impl Delays {
    /// Adds one measured delay.
    pub fn record(&mut self, delay: Duration) {
        self.record_us(i64::try_from(delay.as_micros()).unwrap_or(i64::MAX));
    }

    /// Counts one delay in microseconds, which is negative where two clocks disagree.
    pub fn record_us(&mut self, us: i64) {
        self.record_many(us, 1);
    }

    /// Counts the same delay `times` times.
    pub fn record_many(&mut self, us: i64, times: u64) {
        if times == 0 {
            return;
        }
        let us = us.max(-HOUR_US);
        *self.counts.entry(kept(us)).or_default() += times;
        self.count += times;
        self.sum_us += i128::from(us) * i128::from(times);
        self.max_us = self.max_us.max(Some(us));
    }

    /// Counts a frame that only one end saw.
    pub fn record_unmatched(&mut self) {
        self.unmatched += 1;
    }

    /// Counts a frame that never left the stage.
    pub fn record_lost(&mut self) {
        self.lost += 1;
    }

    /// Counts one delay in microseconds whose clocks agree to within `error`. The table and each
    /// of its rows show their largest error.
    pub fn record_us_within(&mut self, us: i64, error: Duration) {
        self.record_us(us);
        self.error = self.error.max(Some(error));
        let largest = self.errors.entry(place(us)).or_default();
        *largest = error.max(*largest);
    }

    /// Adds all delays of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (us, count) in &other.counts {
            *self.counts.entry(*us).or_default() += count;
        }
        self.count += other.count;
        self.sum_us += other.sum_us;
        self.max_us = self.max_us.max(other.max_us);
        self.unmatched += other.unmatched;
        self.lost += other.lost;
        self.error = self.error.max(other.error);
        for (place, error) in &other.errors {
            let largest = self.errors.entry(*place).or_default();
            *largest = (*error).max(*largest);
        }
    }

    /// Number of delays that were measured.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Whether nothing was measured, lost or unmatched: the path has no such stage.
    pub const fn is_absent(&self) -> bool {
        self.count == 0 && self.unmatched == 0 && self.lost == 0
    }

    /// Largest error of the delays in ms, where two clocks took part.
    pub fn error_ms(&self) -> Option<f64> {
        self.error.map(|error| error.as_secs_f64() * 1e3)
    }

    /// The delay in µs that `share` (0–1) of all do not exceed, nearest rank.
    pub fn quantile_us(&self, share: f64) -> Option<i64> {
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let found = self.counts.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        found.map(|(us, _)| *us)
    }

    /// Mean delay in µs.
    pub fn mean_us(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_us as f64 / self.count as f64)
    }

    /// The delays as a table of `stage`, in its unit.
    pub fn table(&self, stage: Stage) -> Table {
        let ms = |us: i64| us as f64 / 1e3;
        let quantile = |share| self.quantile_us(share).map(ms);
        Table {
            stage,
            unit: stage.unit(),
            count: self.count,
            unmatched: self.unmatched,
            lost: self.lost,
            p50_ms: quantile(0.5),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
            max_ms: self.max_us.map(ms),
            mean_ms: self.mean_us().map(|us| us / 1e3),
            error_ms: self.error_ms(),
            rows: self.rows(stage.unit()),
            row_errors_ms: self.error.map(|_| self.row_errors(stage.unit())),
            exact: self
                .counts
                .iter()
                .map(|(us, count)| (*us, *count))
                .collect(),
        }
    }

    fn rows(&self, unit: Unit) -> Vec<Row> {
        let fraction = |count: u64| count as f64 / self.count as f64;
        let row = |(value, count)| Row(value, count, fraction(count));
        if self.count == 0 {
            return Vec::new();
        }
        if unit == Unit::Bins {
            return self.ranges().map(row).collect();
        }
        let scale = if unit == Unit::Us { 1000 } else { 1 };
        let mut rows: BTreeMap<i64, u64> = BTreeMap::new();
        for (us, count) in &self.counts {
            *rows.entry(us.div_euclid(1000)).or_default() += count;
        }
        let number = |(ms, count)| row((Value::Number(ms * scale), count));
        rows.into_iter().map(number).collect()
    }

    /// Largest error of each row.
    fn row_errors(&self, unit: Unit) -> Vec<Option<f64>> {
        let largest = |from: i64, to: i64| {
            let errors = self.errors.range(from..=to).map(|(_, error)| *error);
            errors.max().map(|error| error.as_secs_f64() * 1e3)
        };
        if unit == Unit::Bins {
            let mut below = i64::MIN;
            let all = RANGES.into_iter().map(|(upper, _)| {
                let last = place(upper);
                let error = largest(below, last);
                below = last.saturating_add(1);
                error
            });
            let all: Vec<_> = all.collect();
            let without = RANGES.len() - self.ranges().count();
            return all[without..].to_vec();
        }
        let mut rows: Vec<i64> = self.counts.keys().map(|us| us.div_euclid(1000)).collect();
        rows.dedup();
        rows.into_iter()
            .map(|ms| largest(2 * ms, 2 * ms + 1))
            .collect()
    }

    /// All ranges, since the study prints empty ones, too.
    fn ranges(&self) -> impl Iterator<Item = (Value, u64)> + '_ {
        let mut below = i64::MIN;
        let ranges = RANGES.into_iter().map(move |(upper, name)| {
            let count = self.counts.range(below..=upper).map(|(_, count)| count);
            below = upper.saturating_add(1);
            (Value::Range(name), count.sum())
        });
        let first = RANGES[0].1;
        ranges.filter(move |(value, count)| *count > 0 || *value != Value::Range(first))
    }
}

/// Twice the whole milliseconds of `us`, plus one if there is a remainder: rows of milliseconds
/// round down, ranges include their upper ends.
fn place(us: i64) -> i64 {
    let us = kept(us);
    2 * us.div_euclid(1000) + i64::from(us.rem_euclid(1000) > 0)
}

/// `us` with the precision that is kept, rounded down.
fn kept(us: i64) -> i64 {
    let us = us.clamp(-HOUR_US, HOUR_US);
    let step = match us.unsigned_abs() {
        0..131_072 => 1,
        131_072..10_000_000 => 100,
        _ => 100_000,
    };
    us - us.rem_euclid(step)
}

impl Table {
    /// The lines of the study: a head, then value, count and fraction of each row, then its error
    /// in ms where two clocks took part.
    pub fn to_rows(&self) -> String {
        let rule = "-".repeat(20);
        let [mut head, mut line] = [String::new(), format!("|{rule}|{rule}|{rule}|")];
        if self.row_errors_ms.is_some() {
            head = format!("{:<20}|", "Error, ms");
            line += &format!("{rule}|");
        }
        let mut out = format!(
            "|{:<20}|{:<20}|{:<20}|{head}\n{line}\n",
            "Delay", "Item Count", "The percentage"
        );
        for (place, Row(value, count, fraction)) in self.rows.iter().enumerate() {
            // Only strings are padded.
            let value = value.to_string();
            write!(out, "|{value:<20}|{count:<20}|{fraction:<20.6}|")
                .expect("a string takes everything");
            if self.row_errors_ms.is_some() {
                let error = self.row_error_ms(place);
                let error = error.map_or_else(String::new, |ms| format!("± {ms:.3}"));
                write!(out, "{error:<20}|").expect("a string takes everything");
            }
            out.push('\n');
        }
        out
    }

    /// Largest error of the delays in row `place`, in ms.
    pub fn row_error_ms(&self, place: usize) -> Option<f64> {
        *self.row_errors_ms.as_ref()?.get(place)?
    }

    /// The figures below the rows, in one line.
    pub fn figures(&self) -> String {
        let mut out = format!("{} items", self.count);
        let named = [
            ("p50", self.p50_ms),
            ("p95", self.p95_ms),
            ("p99", self.p99_ms),
            ("max", self.max_ms),
        ];
        let known = named.into_iter().filter_map(|(name, ms)| Some((name, ms?)));
        for (place, (name, ms)) in known.enumerate() {
            let begin = if place == 0 { ": " } else { ", " };
            write!(out, "{begin}{name} {ms:.3}").expect("a string takes everything");
        }
        if self.count > 0 {
            out += " ms";
        }
        if let Some(error) = self.error_ms {
            write!(out, " ± {error:.3}").expect("a string takes everything");
        }
        write!(out, "; {} unmatched, {} lost", self.unmatched, self.lost)
            .expect("a string takes everything");
        out
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Range(name) => serializer.serialize_str(name),
        }
    }
}
