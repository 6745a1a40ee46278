//! Chart of a sensitivity study: constants over figures, colored by what changed.

use super::{FACTORS, FIGURES, Ratio, Row, Sensitivity};
use crate::congestion::report::Report;
use crate::plot::{self, SOFT, page, text};

const WIDTH: f64 = 1000.0;
/// Where the cells begin.
const LEFT: f64 = 300.0;
const CELL: f64 = 38.0;
const ROW: f64 = 17.0;
/// Top of the first row.
const TOP: f64 = 130.0;
/// Change that has the full color: a factor of 1.5.
const FULL: f64 = 1.5;
/// Color of an improvement.
const BETTER: &str = "#1d5fd1";
/// Color of a deterioration.
const WORSE: &str = "#d9680b";

/// Draws `sensitivity`, which is that of the arm `of`. A cell is the ratio to CUBIC's figure;
/// its color says how the figure changed against the arm as it is.
pub fn draw(sensitivity: &Sensitivity, report: &Report, of: &str) -> String {
    let constants = sensitivity.by_constant();
    let height = TOP + ROW * (constants.len() as f64 + 2.0) + 20.0;
    let title = format!("Every constant of {of}, halved and half as much again");
    let mut out = page(WIDTH, height, &title);
    out += &plot::title(&title);
    let held_out = if report.held_out { ", held out" } else { "" };
    let about = format!(
        "{} {} · {} sessions × {:.0} s · seed {}{held_out} · ratio to CUBIC's · blue: better than {of} as it is, orange: worse",
        report.population,
        report.population_version,
        report.sessions,
        report.duration_s,
        report.seed
    );
    out += &plot::subtitle(56.0, &about);
    for (place, figure) in FIGURES.into_iter().enumerate() {
        let x = column(place, 0) + CELL;
        let style = r#"text-anchor="middle" font-size="11" font-weight="600""#;
        out += &text(x, TOP - 34.0, figure.name, style);
        for (factor, name) in ["−50 %", "+50 %"].into_iter().enumerate() {
            let style = format!(r#"text-anchor="middle" font-size="10" fill="{SOFT}""#);
            out += &text(column(place, factor) + CELL / 2.0, TOP - 18.0, name, &style);
        }
    }
    out += &name(TOP, "as it is");
    for (place, ratio) in sensitivity.base.ratios.into_iter().enumerate() {
        let style = r#"text-anchor="middle" font-size="11""#;
        let x = column(place, 0) + CELL;
        out += &text(x, TOP, &super::shown(ratio), style);
    }
    for (number, (variant, rows)) in constants.iter().enumerate() {
        let y = TOP + ROW * (number as f64 + 1.5);
        out += &name(y, &format!("{} {}", variant.constant, variant.default));
        out.extend(rows.iter().map(|row| cells(row, &sensitivity.base, y)));
    }
    out + "</svg>\n"
}

/// Left edge of a cell.
fn column(figure: usize, factor: usize) -> f64 {
    LEFT + (figure * FACTORS.len() + factor) as f64 * CELL
}

fn name(y: f64, name: &str) -> String {
    let style = r#"text-anchor="end" font-size="11""#;
    text(LEFT - 10.0, y, name, style)
}

/// Cells of one constant and factor.
fn cells(row: &Row, base: &Row, y: f64) -> String {
    let factor = row.variant.as_ref().map_or(1.0, |it| it.factor);
    let factor = FACTORS.iter().position(|it| *it == factor).unwrap_or(0);
    let mut out = String::new();
    for (place, (ratio, base)) in row.ratios.into_iter().zip(base.ratios).enumerate() {
        let x = column(place, factor);
        let (color, opacity) = shade(ratio, base, FIGURES[place].metric.is_cost());
        out += &format!(
            r#"<rect x="{x:.1}" y="{:.1}" width="{CELL}" height="{ROW}" fill="{color}" fill-opacity="{opacity:.2}"/>"#,
            y - ROW + 5.0
        );
        let style = r#"text-anchor="middle" font-size="10""#;
        out += &text(x + CELL / 2.0, y, &super::shown(ratio), style);
    }
    out
}

/// Color and opacity of a cell, by its change against the arm as it is.
fn shade(ratio: Option<Ratio>, base: Option<Ratio>, is_cost: bool) -> (&'static str, f64) {
    let (Some(ratio), Some(base)) = (ratio, base) else {
        return (SOFT, 0.0);
    };
    let change = (ratio.value / base.value).ln() / FULL.ln();
    let worse = if is_cost { change } else { -change };
    // Ratios of zero have no logarithm: the change is as large as can be shown.
    let worse = if worse.is_nan() { 0.0 } else { worse };
    let color = if worse > 0.0 { WORSE } else { BETTER };
    (color, worse.abs().min(1.0) * 0.8)
}
