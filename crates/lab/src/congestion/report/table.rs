//! Table of an experiment, for terminals of a hundred columns.

use std::fmt::Write as _;

use super::{BASE, Change, Report, percentile_name};
use crate::congestion::outcome::Metric;

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

const NAME: usize = 18;
const CELL: usize = 13;

/// Changes with a p-value below this are marked.
const SIGNIFICANT: f64 = 0.05;

/// Draws the table of `report`. `color` adds ANSI colors.
pub fn draw(report: &Report, color: bool) -> String {
    let (bold, dim, plain) = match color {
        true => (BOLD, DIM, PLAIN),
        false => ("", "", ""),
    };
    let mut out = String::new();
    for metric in Metric::ALL {
        write!(out, "\n{bold}{:<28}{plain}", metric.title()).expect("a string");
        for (place, percentile) in metric.percentiles().into_iter().enumerate() {
            let width = if place == 0 { CELL + NAME - 28 } else { CELL };
            write!(out, "{dim}{:>width$}{plain}", percentile_name(percentile)).expect("a string");
        }
        out.push('\n');
        for arm in names(report) {
            write!(out, "  {arm:<width$}", width = NAME - 2).expect("a string");
            for percentile in metric.percentiles() {
                out += &cell(report, arm, metric, percentile);
            }
            out.push('\n');
        }
    }
    out += &strata(report, bold, dim, plain);
    out += &health(report);
    out
}

/// Names of the arms; the base comes first.
pub(super) fn names(report: &Report) -> Vec<&str> {
    let mut names: Vec<&str> = report.arms.keys().map(String::as_str).collect();
    names.sort_by_key(|name| (*name != BASE, *name));
    names
}

/// A metric's value for people: overheads in percent.
pub(super) fn shown(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Goodput => format!("{value:.2}"),
        Metric::RtxOverhead => format!("{:.2}", value * 100.0),
        _ => format!("{value:.0}"),
    }
}

fn cell(report: &Report, arm: &str, metric: Metric, percentile: u32) -> String {
    let name = percentile_name(percentile);
    let value = report.arms[arm][metric.name()][&name];
    let metrics = report.versus_cubic.get(arm);
    let change = metrics.and_then(|metrics| metrics.get(metric.name())?.get(&name));
    let change = change.map(changed).unwrap_or_default();
    format!("{:>6}{change:<7}", shown(metric, value))
}

/// A change like ` -27%*`. The star means that chance is no plausible explanation.
fn changed(change: &Change) -> String {
    let star = match change.p_holm {
        Some(p) if p < SIGNIFICANT => "*",
        _ => "",
    };
    match change.ratio {
        Some(ratio) if ratio >= 2.0 => format!(" x{ratio:.1}{star}"),
        Some(ratio) => format!(" {:+.0}%{star}", (ratio - 1.0) * 100.0),
        None => String::new(),
    }
}

fn strata(report: &Report, bold: &str, dim: &str, plain: &str) -> String {
    let mut out = format!(
        "\n{bold}{:<NAME$}{plain}{dim}{:>10}{:>12}{:>14}{:>12}{:>10}{plain}\n",
        "Networks", "goodput", "app RTT p50", "transp. p50", "queue p95", "RTX"
    );
    for (name, stratum) in &report.strata {
        writeln!(
            out,
            "{name}: {} sessions, {:.0} % of the population",
            stratum.sessions,
            stratum.share * 100.0
        )
        .expect("a string");
        for arm in names(report) {
            let Some(means) = stratum.arms.get(arm) else {
                continue;
            };
            writeln!(
                out,
                "  {arm:<16}{:>10.2}{:>12.0}{:>14.0}{:>12.0}{:>9.2}%",
                means.goodput_mbps,
                means.app_rtt_ms,
                means.transport_rtt_ms,
                means.queue_p95_ms,
                means.rtx_overhead * 100.0
            )
            .expect("a string");
        }
    }
    out
}

fn health(report: &Report) -> String {
    let mut out = String::new();
    for arm in names(report) {
        let health = &report.health[arm];
        let mut words = Vec::new();
        if health.died > 0 {
            words.push(format!("{} connections lost", health.died));
        }
        if let (Some(found), Some(prompt), Some(wrong)) = (
            health.policed_found_ratio,
            health.policed_found_3s_ratio,
            health.policed_false_ratio,
        ) {
            words.push(format!(
                "policers found {:.0} % (within 3 s {:.0} %), {:.1} % of the others falsely detected",
                found * 100.0,
                prompt * 100.0,
                wrong * 100.0
            ));
        }
        if !words.is_empty() {
            writeln!(out, "{arm}: {}", words.join("; ")).expect("a string");
        }
    }
    out
}
