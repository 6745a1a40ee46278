//! The timeline as a chart: delivery of each group, memory and processor time, above the actions.

use super::{Report, Second};
use crate::plot::{self, Axis, COLORS, Frame, Plot, SOFT, page, text};

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 64.0;
const HEIGHT: f64 = 130.0;
const BETWEEN: f64 = 56.0;
const TOP: f64 = 116.0;

/// Height of the strip with the names of the actions.
const STRIP: f64 = 110.0;

/// Function that returns a figure of a second; not finite where it is unknown.
type Figure = fn(&Second) -> f64;

/// Figures below the groups' delivery, from top to bottom.
const FIGURES: [(&str, Figure); 3] = [
    ("Resident memory of the server, MiB", |it| {
        it.memory_bytes
            .map_or(f64::NAN, |bytes| bytes as f64 / 1048576.0)
    }),
    ("File descriptors of the server", |it| {
        it.descriptors.map_or(f64::NAN, |count| count as f64)
    }),
    ("Processor time of the server, % of a core", |it| {
        it.server_cpu_percent.unwrap_or(f64::NAN)
    }),
];

/// Draws the timeline of a run.
pub fn draw(report: &Report) -> String {
    let plots = FIGURES.len() + 1;
    let height = TOP + STRIP + plots as f64 * (HEIGHT + BETWEEN);
    let title = format!("Chaos, seed {}: what good viewers received", report.seed);
    let mut out = page(WIDTH, height, &title);
    out += &plot::title(&title);
    let mut x = 24.0;
    for (group, color) in report.groups.iter().zip(COLORS) {
        out += &format!(
            r#"<circle cx="{:.1}" cy="61.5" r="5" fill="{color}"/>"#,
            x + 5.0
        );
        out += &text(x + 15.0, 66.0, &group.name, &format!(r#"fill="{SOFT}""#));
        x += 32.0 + 7.6 * group.name.chars().count() as f64;
    }
    let end = report.timeline.iter().map(|it| it.at_s).fold(1.0, f64::max);
    let begin = report.timeline.iter().map(|it| it.at_s).fold(0.0, f64::min);
    let frame = |place: usize| Frame {
        left: LEFT,
        top: TOP + place as f64 * (HEIGHT + BETWEEN),
        width: WIDTH - LEFT - 24.0,
        height: HEIGHT,
    };
    let time = Axis::linear(begin, end);
    let mut plot = Plot::new(
        frame(0),
        "Frames received, share",
        time,
        Axis::linear(0.0, 1.05),
    );
    shade(&mut plot, report, 1.05);
    for (index, color) in (0..report.groups.len()).zip(COLORS) {
        let value = |it: &Second| {
            it.delivered
                .get(index)
                .copied()
                .flatten()
                .unwrap_or(f64::NAN)
        };
        let points: Vec<_> = report
            .timeline
            .iter()
            .map(|it| (it.at_s, value(it)))
            .collect();
        plot.line(&points, color, 1.4);
    }
    out += &plot.finish();
    for (place, (name, of)) in FIGURES.into_iter().enumerate() {
        let values = report
            .timeline
            .iter()
            .map(of)
            .filter(|value| value.is_finite());
        let most = values.fold(1.0, f64::max) * 1.05;
        let mut plot = Plot::new(frame(place + 1), name, time, Axis::linear(0.0, most));
        shade(&mut plot, report, most);
        let points: Vec<_> = report.timeline.iter().map(|it| (it.at_s, of(it))).collect();
        plot.line(&points, COLORS[0], 1.4);
        if place + 1 == FIGURES.len() {
            plot.below("seconds");
        }
        out += &plot.finish();
    }
    out += &names(report, begin, end, TOP + plots as f64 * (HEIGHT + BETWEEN));
    out + "</svg>\n"
}

/// Shades the time of each action.
fn shade(plot: &mut Plot, report: &Report, most: f64) {
    for action in &report.actions {
        let is_planned = !action.outcome.interruptions.is_empty();
        let style = match is_planned {
            true => r##"fill="#d9680b" opacity="0.14""##,
            false => r##"fill="#1d5fd1" opacity="0.08""##,
        };
        plot.block(action.from_s..action.to_s, 0.0..most, style);
    }
}

/// Names of the actions below the charts, turned so that they do not overlap.
fn names(report: &Report, begin: f64, end: f64, top: f64) -> String {
    let mut out = String::new();
    let scale = (WIDTH - LEFT - 24.0) / (end - begin).max(1.0);
    for action in &report.actions {
        let x = LEFT + (action.from_s - begin) * scale;
        let style =
            format!(r#"font-size="10" fill="{SOFT}" transform="rotate(60 {x:.1} {top:.1})""#);
        out += &text(x, top, &action.name, &style);
    }
    out
}
