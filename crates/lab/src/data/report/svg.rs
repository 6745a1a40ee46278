//! Charts of one run over time, and of several runs.

use std::fmt::Write as _;

use super::Report;
use super::bound::{bytes, mbps};
use crate::data::staircase::Staircase;
use crate::data::sweep::Swept;
use crate::plot::{self, Axis, COLORS, GRID, SOFT, page, text};

const WIDTH: f64 = 880.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 856.0;
const PANEL: f64 = 150.0;
const BETWEEN: f64 = 46.0;

/// A curve of the chart, and its name in the legend.
struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
}

struct Panel {
    title: &'static str,
    lines: Vec<Curve>,
}

/// Draws goodput, round-trip time, windows and processor time over a run.
pub fn draw(report: &Report) -> String {
    let of = |up: bool, name: &str, value: &dyn Fn(&super::Interval) -> Option<f64>| Curve {
        name: name.to_owned(),
        points: report
            .intervals
            .iter()
            .filter(|it| it.up == up)
            .filter_map(|it| Some((it.end_s, value(it)?)))
            .collect(),
    };
    let both = |value: &dyn Fn(&super::Interval) -> Option<f64>| {
        vec![of(true, "up", value), of(false, "down", value)]
    };
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let panels = [
        Panel {
            title: "Goodput, Mbit/s",
            lines: both(&|it| Some(it.goodput_mbps)),
        },
        Panel {
            title: "Round trip, ms",
            lines: both(&|it| it.rtt_ms),
        },
        Panel {
            title: "Congestion window and bytes in flight, MiB",
            lines: vec![
                of(report.plan.direction.is_up(), "cwnd", &|it| {
                    Some(mib(it.cwnd_bytes))
                }),
                of(report.plan.direction.is_up(), "in flight", &|it| {
                    Some(mib(it.in_flight_bytes))
                }),
            ],
        },
        Panel {
            title: "Processor time, s per Gbit",
            lines: vec![
                of(report.plan.direction.is_up(), "sender", &|it| {
                    it.cpu_s_per_gbit.sender
                }),
                of(report.plan.direction.is_up(), "receiver", &|it| {
                    it.cpu_s_per_gbit.receiver
                }),
            ],
        },
    ];
    let title = format!("Data channel: {}", report.label);
    let x_max = report
        .intervals
        .iter()
        .map(|it| it.end_s)
        .fold(1.0, f64::max);
    let horizontal = Axis::linear(0.0, x_max);
    chart(&title, &report.verdict, &panels, horizontal, "s")
}

/// Draws a sweep: a curve for each combination of the settings that are not on the horizontal
/// axis.
pub fn draw_sweep(swept: &Swept) -> String {
    let Some(axis) = swept.axes.first() else {
        return String::new();
    };
    let mut names: Vec<String> = Vec::new();
    for point in &swept.points {
        let name = point.name_without(0);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let lines = |value: &dyn Fn(&Report) -> Option<f64>| -> Vec<Curve> {
        let line = |name: &String| Curve {
            name: name.clone(),
            points: swept
                .points
                .iter()
                .filter(|it| it.name_without(0) == *name)
                .filter_map(|it| Some((it.values[0], value(&it.report)?)))
                .collect(),
        };
        names.iter().map(line).collect()
    };
    let panels = [
        Panel {
            title: "Goodput, Mbit/s",
            lines: lines(&|it| Some(it.goodput_mbps)),
        },
        Panel {
            title: "Sender's processor time, s per Gbit",
            lines: lines(&|it| it.cpu_s_per_gbit.sender),
        },
        Panel {
            title: "Receiver's processor time, s per Gbit",
            lines: lines(&|it| it.cpu_s_per_gbit.receiver),
        },
    ];
    let values = || swept.points.iter().map(|it| it.values[0]);
    let min = values().fold(f64::INFINITY, f64::min);
    let max = values().fold(0.0, f64::max);
    let horizontal = match min > 0.0 && max / min >= 8.0 {
        true => Axis::logarithmic(min, max),
        false => Axis::linear(min, max),
    };
    let title = format!("Data channel over {axis}");
    chart(&title, "", &panels, horizontal, axis)
}

/// Draws a staircase: a bar for each step.
pub fn draw_staircase(staircase: &Staircase) -> String {
    const ROW: f64 = 30.0;
    const TOP: f64 = 92.0;
    const NAMES: f64 = 330.0;
    let rows = staircase.steps.len();
    let height = TOP + ROW * rows as f64 + 30.0;
    let largest = staircase
        .steps
        .iter()
        .map(|it| it.report.goodput_mbps)
        .fold(1e-9, f64::max);
    let mut out = open(
        height,
        "From the defaults to the best settings, step by step",
        "",
    );
    for (index, step) in staircase.steps.iter().enumerate() {
        let y = TOP + ROW * index as f64;
        out += &text(NAMES - 10.0, y + 15.0, &step.name, r#"text-anchor="end""#);
        let width = (RIGHT - 180.0 - NAMES) * step.report.goodput_mbps / largest;
        let color = COLORS[usize::from(!step.is_kept)];
        write!(
            out,
            r#"<rect x="{NAMES}" y="{y:.1}" width="{width:.1}" height="20" rx="3" fill="{color}"/>"#
        )
        .expect("a string takes everything");
        let gained = step
            .gained
            .map_or_else(String::new, |it| format!(" ({it:+.0} %)"));
        let label = format!("{}{gained}", mbps(step.report.goodput_mbps));
        out += &text(NAMES + width + 8.0, y + 15.0, &label, "");
    }
    out + "</svg>\n"
}

fn open(height: f64, title: &str, about: &str) -> String {
    let mut out = page(WIDTH, height, title);
    out += &plot::title(title);
    out + &plot::subtitle(57.0, about)
}

/// Draws panels below each other over a shared horizontal axis.
fn chart(title: &str, about: &str, panels: &[Panel], horizontal: Axis, unit: &str) -> String {
    let height = 96.0 + panels.len() as f64 * (PANEL + BETWEEN) + 20.0;
    let mut out = open(height, title, about);
    let scale = |value: f64| {
        if horizontal.is_logarithmic {
            value.max(1e-9).log2()
        } else {
            value
        }
    };
    let (from, to) = (scale(horizontal.min), scale(horizontal.max));
    let x = |value: f64| LEFT + (RIGHT - LEFT) * (scale(value) - from) / (to - from).max(1e-9);
    for (index, panel) in panels.iter().enumerate() {
        let top = 96.0 + index as f64 * (PANEL + BETWEEN);
        out += &panel.draw(top, &x);
    }
    let soft = format!(r#"text-anchor="middle" font-size="12" fill="{SOFT}""#);
    for step in 0..=4 {
        let at = from + (to - from) * f64::from(step) / 4.0;
        let value = if horizontal.is_logarithmic {
            at.exp2()
        } else {
            at
        };
        let label = match unit {
            "message-size" | "window" | "high-water" | "low-water" | "udp-buffer" => {
                bytes(value as u64)
            }
            "s" => format!("{value:.1} s"),
            _ => format!("{value:.3}")
                .trim_end_matches('0')
                .trim_end_matches('.')
                .to_owned(),
        };
        out += &text(x(value), height - 30.0, &label, &soft);
    }
    out + "</svg>\n"
}

impl Panel {
    fn draw(&self, top: f64, x: &dyn Fn(f64) -> f64) -> String {
        let values = || {
            self.lines
                .iter()
                .flat_map(|line| &line.points)
                .map(|it| it.1)
        };
        let max = nice(values().fold(0.0, f64::max));
        let y = |value: f64| top + PANEL * (1.0 - value / max);
        let mut out = text(24.0, top - 10.0, self.title, r#"font-weight="600""#);
        let soft = format!(r#"text-anchor="end" font-size="12" fill="{SOFT}""#);
        for step in 0..=4 {
            let value = max * f64::from(step) / 4.0;
            let at = y(value);
            write!(
                out,
                r#"<line x1="{LEFT}" x2="{RIGHT}" y1="{at:.1}" y2="{at:.1}" stroke="{GRID}"/>"#
            )
            .expect("a string takes everything");
            let label = format!("{value:.3}");
            let label = label.trim_end_matches('0').trim_end_matches('.');
            out += &text(LEFT - 8.0, at + 4.0, label, &soft);
        }
        let mut legend = RIGHT;
        let drawn = self.lines.iter().filter(|it| !it.points.is_empty());
        for (line, color) in drawn.zip(COLORS.iter().cycle()) {
            let points: Vec<String> = line
                .points
                .iter()
                .map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value)))
                .collect();
            write!(
                out,
                r#"<polyline points="{}" fill="none" stroke="{color}" stroke-width="2.2"/>"#,
                points.join(" ")
            )
            .expect("a string takes everything");
            for (at, value) in line.points.iter().filter(|_| line.points.len() <= 24) {
                write!(
                    out,
                    r#"<circle cx="{:.1}" cy="{:.1}" r="3" fill="{color}"/>"#,
                    x(*at),
                    y(*value)
                )
                .expect("a string takes everything");
            }
            let style = format!(r#"text-anchor="end" font-size="12" fill="{color}""#);
            out += &text(legend, top - 10.0, &line.name, &style);
            legend -= 7.0 * line.name.chars().count() as f64 + 18.0;
        }
        out
    }
}

/// The next larger number of 1, 2, 2.5, 4, 5 and 8 times a power of ten.
fn nice(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 2.5, 4.0, 5.0, 8.0, 10.0]
        .into_iter()
        .map(|it| it * power)
        .find(|it| *it >= value * 0.9999)
        .unwrap_or(10.0 * power)
}
