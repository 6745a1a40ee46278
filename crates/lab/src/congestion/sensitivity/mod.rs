//! How much each constant of Glide matters: the study once more for each of them, with half of
//! its value and with half as much again.
//!
//! ```text
//! Constants ─► arms: cubic, glide, glide:CONSTANT=VALUE … ─► experiment ─► Report ─► Sensitivity
//! ```
//!
//! Every arm runs the same sessions. A figure that hardly moves says that the constant may be
//! anything near its value on these networks, not that the constant has no use on others.

mod svg;

use std::fmt::Write as _;

use glassline_congestion::glide;
use glassline_congestion::glide::constants::Value;

use super::arm::{ArmError, arm};
use super::outcome::Metric;
use super::report::{BASE, Change, Report};
use super::session::Arm;

pub use svg::draw;

/// Factors of each constant.
pub const FACTORS: [f64; 2] = [0.5, 1.5];

/// Name of the queue that Glide aims at, which is a setting and no constant.
const TARGET: &str = "target_queue";

/// A figure of the table: a percentile of a metric, as a ratio to CUBIC's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Metric of the figure.
    pub metric: Metric,
    /// Percentile over sessions.
    pub percentile: u32,
    /// Name in the table's head.
    pub name: &'static str,
}

/// The figures of the table, in its order.
pub const FIGURES: [Figure; 9] = [
    Figure::new(Metric::AppRtt, 50, "app P50"),
    Figure::new(Metric::AppRtt, 90, "app P90"),
    Figure::new(Metric::AppRtt, 95, "app P95"),
    Figure::new(Metric::TransportRtt, 75, "transp. P75"),
    Figure::new(Metric::TransportRtt, 95, "transp. P95"),
    Figure::new(Metric::Goodput, 10, "goodput P10"),
    Figure::new(Metric::Goodput, 50, "goodput P50"),
    Figure::new(Metric::RtxOverhead, 75, "RTX P75"),
    Figure::new(Metric::RtxOverhead, 95, "RTX P95"),
];

/// A constant with one value, to be run as an arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Name of the constant.
    pub constant: String,
    /// Value that Glide uses.
    pub default: String,
    /// Value of this variant.
    pub value: String,
    /// Factor that was asked for; a count is rounded.
    pub factor: f64,
    /// Name of the arm.
    pub arm: String,
}

/// Sensitivity of an arm to each of its constants.
#[derive(Clone, Debug, PartialEq)]
pub struct Sensitivity {
    /// The arm whose constants were varied.
    pub base: Row,
    /// A row for each constant and factor, in the order of the law.
    pub rows: Vec<Row>,
}

/// Figures of one arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The variant of the arm; `None` for the arm as it is.
    pub variant: Option<Variant>,
    /// Ratios to CUBIC's figures, in the order of [`FIGURES`]; `None` where CUBIC's is zero.
    pub ratios: [Option<Ratio>; FIGURES.len()],
}

/// A ratio to CUBIC's figure, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The ratio itself.
    pub value: f64,
    /// Interval by paired bootstrap over sessions.
    pub ci95: (f64, f64),
}

impl Figure {
    const fn new(metric: Metric, percentile: u32, name: &'static str) -> Self {
        Self {
            metric,
            percentile,
            name,
        }
    }
}

/// Returns every constant of the arm `of` (glide or glide-coupled), times each of [`FACTORS`].
pub fn variants(of: &str) -> Vec<Variant> {
    let config = glide::Config::default();
    let queue = (TARGET.to_owned(), Value::Time(config.target_queue));
    let all = std::iter::once(queue).chain(config.constants.values());
    let variants = all.flat_map(|(constant, value)| {
        FACTORS.map(|factor| {
            let scaled = value.scaled(factor).to_string();
            let setting = match constant.as_str() {
                TARGET => scaled.clone(),
                name => format!("{name}={scaled}"),
            };
            Variant {
                constant: constant.clone(),
                default: value.to_string(),
                value: scaled,
                factor,
                arm: format!("{of}:{setting}"),
            }
        })
    });
    variants.collect()
}

/// Returns the arms of a sensitivity study of the arm `of`: CUBIC, the arm itself, and each of
/// its variants.
///
/// # Errors
///
/// `of` is no arm that takes constants.
pub fn arms(of: &str) -> Result<Vec<Arm>, ArmError> {
    let variants = variants(of);
    let names = variants.iter().map(|it| it.arm.as_str());
    let names = [BASE, of].into_iter().chain(names);
    names.map(|name| arm(name, None)).collect()
}

impl Sensitivity {
    /// Reads the sensitivity of the arm `of` from a report of all [`arms`]. Arms that the report
    /// does not have are left out.
    pub fn new(report: &Report, of: &str) -> Self {
        let has = |it: &Variant| report.versus_cubic.contains_key(&it.arm);
        let rows = variants(of).into_iter().filter(has);
        Self {
            base: Row {
                variant: None,
                ratios: ratios(report, of),
            },
            rows: rows
                .map(|variant| Row {
                    ratios: ratios(report, &variant.arm),
                    variant: Some(variant),
                })
                .collect(),
        }
    }

    /// Returns the rows by constant, each as (half, half as much again).
    pub fn by_constant(&self) -> Vec<(&Variant, Vec<&Row>)> {
        let mut constants: Vec<(&Variant, Vec<&Row>)> = Vec::new();
        for row in &self.rows {
            let Some(variant) = &row.variant else {
                continue;
            };
            match constants.last_mut() {
                Some((last, rows)) if last.constant == variant.constant => rows.push(row),
                _ => constants.push((variant, vec![row])),
            }
        }
        constants
    }

    /// The table as Markdown: a row for each constant, in each cell the ratio to CUBIC's figure
    /// with half of the value and with half as much again. A line for the arm as it is comes
    /// first.
    pub fn table(&self) -> String {
        let mut out = String::from("| constant |");
        for figure in FIGURES {
            write!(out, " {} |", figure.name).expect("a string");
        }
        out += "\n|---|";
        out += &"---|".repeat(FIGURES.len());
        out += "\n| as it is |";
        for ratio in self.base.ratios {
            write!(out, " {} |", shown(ratio)).expect("a string");
        }
        for (variant, rows) in self.by_constant() {
            write!(out, "\n| {} {} |", variant.constant, variant.default).expect("a string");
            for place in 0..FIGURES.len() {
                let cells: Vec<String> = rows.iter().map(|row| shown(row.ratios[place])).collect();
                write!(out, " {} |", cells.join(", ")).expect("a string");
            }
        }
        out + "\n"
    }

    /// The table as CSV: a line for each constant and factor, with intervals.
    pub fn csv(&self) -> String {
        let mut out = String::from("constant,default,value,factor");
        for figure in FIGURES {
            let (metric, percentile) = (figure.metric.name(), figure.percentile);
            write!(
                out,
                ",{metric}_P{percentile},{metric}_P{percentile}_low,{metric}_P{percentile}_high"
            )
            .expect("a string");
        }
        out.push('\n');
        for row in std::iter::once(&self.base).chain(&self.rows) {
            match &row.variant {
                Some(it) => write!(
                    out,
                    "{},{},{},{}",
                    it.constant, it.default, it.value, it.factor
                )
                .expect("a string"),
                None => out += ",,,1",
            }
            for ratio in row.ratios {
                match ratio {
                    Some(Ratio { value, ci95 }) => {
                        write!(out, ",{value:.4},{:.4},{:.4}", ci95.0, ci95.1).expect("a string");
                    }
                    None => out += ",,,",
                }
            }
            out.push('\n');
        }
        out
    }
}

fn ratios(report: &Report, arm: &str) -> [Option<Ratio>; FIGURES.len()] {
    FIGURES.map(|figure| {
        let percentiles = report.versus_cubic.get(arm)?.get(figure.metric.name())?;
        let Change { ratio, ci95, .. } = percentiles.get(&format!("P{}", figure.percentile))?;
        Some(Ratio {
            value: (*ratio)?,
            ci95: (*ci95)?,
        })
    })
}

fn shown(ratio: Option<Ratio>) -> String {
    ratio.map_or_else(|| "–".to_owned(), |it| format!("{:.2}", it.value))
}

#[cfg(test)]
mod tests;
