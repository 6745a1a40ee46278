//! Charts of an experiment: every figure of the study, by arm.

use super::table::{names, shown};
use super::{BASE, Change, Report, percentile_name};
use crate::congestion::outcome::{Metric, Outcome};
use crate::congestion::statistics::Ranked;
use crate::plot::{self, Axis, Frame, Plot, Point, SOFT, page, text};

mod dial;
mod study;
mod timeline;

pub use timeline::timeline;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 976.0;

/// Colors of the arms, distinct for color-blind readers and dark enough on white. CUBIC is gray,
/// because the others are compared with it.
const COLORS: [&str; 8] = [
    "#6b7480", "#1d5fd1", "#d9680b", "#0b8a5e", "#b0209a", "#0a8aa8", "#7a5a00", "#5b4bd6",
];
const POLICED: &str = "#c9252d";

/// Most dots of one scatter chart.
const DOTS_MAX: usize = 500;

/// Least overhead on a logarithmic axis; [`MS_LEAST`] is the least wait in ms.
const RTX_LEAST: f64 = 1e-4;
const MS_LEAST: f64 = 1.0;

/// Draws the charts of `report`, whose outcomes are `outcomes`.
pub fn draw(report: &Report, outcomes: &[Outcome]) -> String {
    let (dialled, named): (Vec<&str>, Vec<&str>) = names(report)
        .into_iter()
        .partition(|arm| dial::delta(arm).is_some());
    // A few deltas are drawn as arms; many of them become a curve.
    let (dialled, named) = match dialled.len() {
        0..=2 => (Vec::new(), names(report)),
        _ => (dialled, named),
    };
    let arms: Vec<(&str, &str)> = named.into_iter().zip(COLORS).collect();
    let mut sections = Vec::new();
    let mut y = 96.0;
    for section in [curves, changes, scatters] {
        let (drawn, height) = section(report, outcomes, &arms, y);
        sections.push(drawn);
        y += height;
    }
    let (drawn, height) = dial::draw(outcomes, &dialled, &arms, y);
    sections.push(drawn);
    y += height;
    let (drawn, height) = strata(report, &arms, y);
    sections.push(drawn);
    let height = y + height + 24.0;
    let title = format!("Congestion control on {}", report.population);
    let mut out = page(WIDTH, height, &title);
    out += &head(report, &arms, &title);
    out.extend(sections);
    out + "</svg>\n"
}

fn head(report: &Report, arms: &[(&str, &str)], title: &str) -> String {
    let mut about = vec![
        format!("version {}", report.population_version),
        format!("{} sessions × {:.0} s", report.sessions, report.duration_s),
        format!("seed {}", report.seed),
    ];
    if report.held_out {
        about.push("sessions that nothing was tuned on".to_owned());
    }
    about.extend(report.started.get(..10).map(str::to_owned));
    let mut out = plot::title(title);
    out += &plot::subtitle(56.0, &about.join(" · "));
    let mut x = 24.0;
    for (arm, color) in arms {
        out += &format!(
            r#"<circle cx="{:.1}" cy="73.5" r="5" fill="{color}"/>"#,
            x + 5.0
        );
        out += &text(x + 15.0, 78.0, arm, "");
        x += 32.0 + 7.6 * arm.chars().count() as f64;
    }
    out
}

fn of_arm<'a>(outcomes: &'a [Outcome], arm: &str) -> Vec<&'a Outcome> {
    outcomes.iter().filter(|it| it.arm == arm).collect()
}

/// Weight of a session, so that the sessions of a stratum together weigh as much as its share.
fn weight(report: &Report, outcome: &Outcome) -> f64 {
    let stratum = report.strata.get(&outcome.stratum);
    stratum.map_or(0.0, |it| it.share / it.sessions.max(1) as f64)
}

/// Chart of each metric over the percentiles of sessions.
fn curves(report: &Report, outcomes: &[Outcome], arms: &[(&str, &str)], top: f64) -> (String, f64) {
    const HEIGHT: f64 = 190.0;
    let width = (RIGHT - LEFT - 70.0) / 2.0;
    let shares: Vec<f64> = (1..=99).map(|percent| f64::from(percent) / 100.0).collect();
    let mut out = String::new();
    for (place, metric) in Metric::ALL.into_iter().enumerate() {
        let factor = if metric == Metric::RtxOverhead {
            100.0
        } else {
            1.0
        };
        let least = match metric {
            Metric::Goodput => 0.0,
            Metric::RtxOverhead => RTX_LEAST * factor,
            _ => MS_LEAST,
        };
        let mut lines = Vec::new();
        for (arm, color) in arms {
            let outcomes = of_arm(outcomes, arm);
            let weights: Vec<f64> = outcomes.iter().map(|it| weight(report, it)).collect();
            let ranked = Ranked::new(outcomes.iter().map(|it| metric.of(it)).collect());
            let mut values = Vec::new();
            ranked.percentiles(&weights, &shares, &mut values);
            let points = shares.iter().zip(values);
            let points = points.map(|(share, value)| (share * 100.0, (value * factor).max(least)));
            lines.push((points.collect::<Vec<_>>(), *color));
        }
        let values = || lines.iter().flat_map(|line| &line.0).map(|point| point.1);
        let max = values().fold(least, f64::max);
        let min = values().fold(f64::INFINITY, f64::min).max(least);
        let y = if metric == Metric::Goodput {
            Axis::linear(0.0, max)
        } else {
            Axis::logarithmic(min, max)
        };
        let frame = Frame {
            left: LEFT + (place % 2) as f64 * (width + 70.0),
            top: top + 30.0 + (place / 2) as f64 * (HEIGHT + 76.0),
            width,
            height: HEIGHT,
        };
        let mut plot = Plot::new(frame, metric.title(), Axis::linear(0.0, 100.0), y);
        plot.below("percentile of sessions");
        for (points, color) in lines.iter().rev() {
            plot.line(points, color, 2.2);
        }
        out += &plot.finish();
    }
    (out, 2.0 * (HEIGHT + 76.0) + 12.0)
}

/// Chart of the headlines against CUBIC with their intervals, beside the results of the study.
fn changes(report: &Report, _: &[Outcome], arms: &[(&str, &str)], top: f64) -> (String, f64) {
    const ROW: f64 = 46.0;
    let rows: Vec<(Metric, u32)> = Metric::ALL
        .into_iter()
        .flat_map(|metric| metric.headlines().iter().map(move |it| (metric, *it)))
        .collect();
    let count = rows.len() as f64;
    let frame = Frame {
        left: LEFT + 178.0,
        top: top + 44.0,
        width: RIGHT - LEFT - 178.0,
        height: ROW * count,
    };
    let title = "Against CUBIC: ratio of percentiles, 95 % interval (diamonds: the 2019 study)";
    let mut plot = Plot::new(
        frame,
        title,
        Axis::logarithmic(0.02, 10.0),
        Axis::linear(0.0, count),
    );
    plot.upright(1.0, &format!(r#"stroke="{SOFT}" stroke-dasharray="4 3""#));
    let mut labels = format!(
        r##"<rect x="{:.1}" y="{:.1}" width="176" height="{:.1}" fill="#ffffff"/>"##,
        LEFT - 2.0,
        frame.top - 8.0,
        frame.height + 16.0
    );
    let others = || arms.iter().filter(|(arm, _)| *arm != BASE);
    let between = (ROW - 12.0) / (others().count().max(1) as f64);
    for (row, (metric, percentile)) in rows.iter().enumerate() {
        let name = percentile_name(*percentile);
        let at = count - row as f64 - 0.5;
        let y = frame.top + ROW * (row as f64 + 0.5) + 4.0;
        let short = metric.title().split(',').next().unwrap_or_default();
        let style = r#"text-anchor="end" font-size="12""#;
        labels += &text(frame.left - 10.0, y, &format!("{short} {name}"), style);
        for (place, (arm, color)) in others().enumerate() {
            let shift = (place as f64 + 0.5) * between - (ROW - 12.0) / 2.0;
            if let Some(found) = study::ratio(arm, *metric, *percentile) {
                let words = format!("{arm} in the study: {found:.2}");
                plot.diamond(Point::new(found, at), shift, color, &words);
            }
            let changes = report.versus_cubic.get(*arm);
            let change = changes.and_then(|it| it.get(metric.name())?.get(&name));
            if let Some(Change {
                ratio: Some(ratio),
                ci95: Some((low, high)),
                ..
            }) = change
            {
                plot.whisker(*low, *high, at, shift, color);
                let words = format!("{arm}: {ratio:.3} ({low:.3} to {high:.3})");
                let style = format!(r#"fill="{color}""#);
                plot.dot_shifted(Point::new(*ratio, at), shift, &style, &words);
            }
        }
    }
    (plot.finish() + &labels, frame.height + 92.0)
}

/// A delay of a session, in ms.
type Delay = fn(&Outcome) -> f64;

/// Chart of delay against overhead for each session, which shows where both are low or high.
fn scatters(_: &Report, outcomes: &[Outcome], arms: &[(&str, &str)], top: f64) -> (String, f64) {
    const HEIGHT: f64 = 150.0;
    const BETWEEN: f64 = 48.0;
    let columns = arms.len().max(1) as f64;
    let width = (RIGHT - LEFT - BETWEEN * (columns - 1.0)) / columns;
    let rows: [(&str, Delay); 2] = [
        ("transport RTT, ms", |it| it.transport_rtt_ms),
        ("queue p95, ms", |it| it.queue_p95_ms),
    ];
    let soft = format!(r#"font-size="12" fill="{SOFT}""#);
    let mut out = text(
        LEFT,
        top + 14.0,
        "Delay against retransmission overhead, one dot per session; red: behind a policer",
        r#"font-weight="600""#,
    );
    let most = |of: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(of).fold(10.0, f64::max);
    let rtx_most = (most(&|it| it.rtx_overhead) * 100.0).max(1.0);
    for (row, (name, of)) in rows.into_iter().enumerate() {
        let above = top + 62.0 + row as f64 * (HEIGHT + 78.0);
        out += &text(LEFT, above - 26.0, name, &soft);
        for (column, (arm, color)) in arms.iter().enumerate() {
            let frame = Frame {
                left: LEFT + column as f64 * (width + BETWEEN),
                top: above,
                width,
                height: HEIGHT,
            };
            let x = Axis::logarithmic(RTX_LEAST * 100.0, rtx_most);
            let y = Axis::logarithmic(MS_LEAST, most(&of));
            let mut plot = Plot::new(frame, arm, x, y);
            plot.below("RTX, %");
            let outcomes = of_arm(outcomes, arm);
            let every = outcomes.len().div_ceil(DOTS_MAX).max(1);
            let kept = outcomes.iter().enumerate();
            for (_, it) in kept.filter(|(place, it)| it.has_policer || place % every == 0) {
                let (fill, radius) = if it.has_policer {
                    (POLICED, 2.2)
                } else {
                    (*color, 1.7)
                };
                let rtx = (it.rtx_overhead * 100.0).max(RTX_LEAST * 100.0);
                let style = format!(r#"fill="{fill}" opacity="0.5""#);
                let at = Point::new(rtx, of(it).max(MS_LEAST));
                plot.dot(at, radius, &style, "");
            }
            out += &plot.finish();
        }
    }
    (out, 2.0 * (HEIGHT + 78.0) + 48.0)
}

/// Table of the figures of each stratum.
fn strata(report: &Report, arms: &[(&str, &str)], top: f64) -> (String, f64) {
    const ROW: f64 = 17.0;
    let columns = [
        (LEFT + 130.0, "arm"),
        (LEFT + 340.0, "goodput, Mbit/s"),
        (LEFT + 470.0, "app RTT p50, ms"),
        (LEFT + 620.0, "transport RTT p50, ms"),
        (LEFT + 740.0, "queue p95, ms"),
        (LEFT + 860.0, "RTX, mean %"),
    ];
    let bold = r#"font-weight="600""#;
    let end = r#"text-anchor="end" font-size="12""#;
    let mut out = text(LEFT, top + 14.0, "Kinds of networks", bold);
    let mut y = top + 36.0;
    for (place, (x, head)) in columns.into_iter().enumerate() {
        let anchor = if place == 0 { "start" } else { "end" };
        let style = format!(r#"text-anchor="{anchor}" font-size="11" fill="{SOFT}""#);
        out += &text(x, y, head, &style);
    }
    for (name, stratum) in &report.strata {
        y += ROW + 6.0;
        let label = format!("{name} ({})", stratum.sessions);
        out += &text(LEFT, y, &label, r#"font-size="12" font-weight="600""#);
        for (arm, color) in arms {
            let Some(means) = stratum.arms.get(*arm) else {
                continue;
            };
            let style = format!(r#"font-size="12" fill="{color}""#);
            out += &text(columns[0].0, y, arm, &style);
            let figures = [
                shown(Metric::Goodput, means.goodput_mbps),
                shown(Metric::AppRtt, means.app_rtt_ms),
                shown(Metric::TransportRtt, means.transport_rtt_ms),
                shown(Metric::TransportRtt, means.queue_p95_ms),
                shown(Metric::RtxOverhead, means.rtx_overhead),
            ];
            for ((x, _), figure) in columns.iter().skip(1).zip(figures) {
                out += &text(*x, y, &figure, end);
            }
            y += ROW;
        }
        y -= ROW;
    }
    (out, y - top + 20.0)
}
