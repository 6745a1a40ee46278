//! Charts of waiting against concealment, and of waiting over time.

use super::{Report, Timeline};
use crate::plot::{self, Axis, Frame, Plot, Point, page, text};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 976.0;

/// Colors of the buffers, distinct for color-blind readers. The first one is ours.
const COLORS: [&str; 8] = [
    "#1d5fd1", "#d9680b", "#b0209a", "#6b7480", "#0b8a5e", "#7a5a00", "#0a8aa8", "#5b4bd6",
];

/// Least share of concealment that the axis shows.
const CONCEALED_LEAST: f64 = 0.001;

/// Length of the chart over time, in seconds.
pub const TIMELINE_S: f64 = 60.0;

/// Draws `report`, with `timelines` below.
pub fn draw(report: &Report, timelines: &[Timeline]) -> String {
    const HEIGHT: f64 = 300.0;
    const BELOW: f64 = 180.0;
    let top = 144.0;
    let height = top + HEIGHT + 96.0 + BELOW + 62.0;
    let title = format!("Jitter buffers on {}", report.trace);
    let mut out = page(WIDTH, height, &title);
    out += &head(report, &title);
    let frame = Frame {
        left: LEFT,
        top,
        width: RIGHT - LEFT,
        height: HEIGHT,
    };
    out += &trade(report, frame);
    let frame = Frame {
        top: top + HEIGHT + 96.0,
        height: BELOW,
        ..frame
    };
    out += &over_time(report, timelines, frame);
    out + "</svg>\n"
}

/// Title, circumstances and legend.
fn head(report: &Report, title: &str) -> String {
    let about = [
        format!("{} packets of {} ms", report.packets, report.interval_ms),
        format!("pulled every {} ms", report.pull_ms),
        format!("{} lost", report.glassline.lost),
        report.started.get(..10).unwrap_or_default().to_owned(),
    ];
    let mut out = plot::title(title);
    out += &plot::subtitle(56.0, &about.join(" · "));
    let (mut x, mut y) = (24.0, 82.0);
    for (contender, color) in report.contenders.iter().zip(COLORS) {
        let width = 32.0 + 7.0 * contender.name.chars().count() as f64;
        if x + width > RIGHT {
            (x, y) = (24.0, y + 20.0);
        }
        out += &format!(
            r#"<circle cx="{:.1}" cy="{:.1}" r="5" fill="{color}"/>"#,
            x + 5.0,
            y - 4.5
        );
        out += &text(x + 15.0, y, &contender.name, "");
        x += width;
    }
    out
}

/// Mean wait against concealment; lower and further left is better.
fn trade(report: &Report, frame: Frame) -> String {
    let percent = |ratio: f64| (ratio * 100.0).max(CONCEALED_LEAST);
    let points = || report.curves.iter().flat_map(|it| &it.points);
    let marks = || report.contenders.iter().map(|it| it.figures);
    let waits = points().map(|it| it.wait_ms);
    let most = waits.chain(marks().map(|it| it.wait_ms.mean));
    let most = most.fold(10.0, f64::max);
    let concealed = points().map(|it| it.concealed_ratio);
    let concealed = concealed.chain(marks().map(|it| it.concealed_ratio));
    let concealed: Vec<f64> = concealed.map(percent).collect();
    let high = concealed.iter().copied().fold(1.0, f64::max);
    let low = concealed.iter().copied().fold(0.01, f64::min);
    let x = Axis::logarithmic(low, high);
    let title = "Mean wait, ms, against concealment: lower and further left is better";
    let mut plot = Plot::new(frame, title, x, Axis::linear(0.0, most));
    plot.below("concealed, % of the time (at the left edge: none, or almost none)");
    for curve in &report.curves {
        let line = curve.points.iter();
        let line = line.map(|it| (percent(it.concealed_ratio), it.wait_ms));
        plot.line(&line.collect::<Vec<_>>(), color(report, &curve.name), 2.2);
        for point in &curve.points {
            let at = Point::new(percent(point.concealed_ratio), point.wait_ms);
            let style = format!(r#"fill="{}""#, color(report, &curve.name));
            let words = format!("{} at {}", curve.name, point.setting);
            plot.dot(at, 2.4, &style, &words);
        }
    }
    for contender in &report.contenders {
        let figures = contender.figures;
        let at = Point::new(percent(figures.concealed_ratio), figures.wait_ms.mean);
        let color = color(report, &contender.name);
        let words = format!(
            "{}: {:.1} ms, {:.3} %",
            contender.name,
            figures.wait_ms.mean,
            figures.concealed_ratio * 100.0
        );
        let style = format!(r##"fill="{color}" stroke="#ffffff" stroke-width="1.5""##);
        plot.dot(at, 6.0, &style, &words);
        plot.label(at, &format!("{:.1} ms", figures.wait_ms.mean), color);
    }
    plot.finish()
}

fn over_time(report: &Report, timelines: &[Timeline], frame: Frame) -> String {
    let moments = || timelines.iter().flat_map(|it| &it.moments);
    let most = moments().map(|it| it.wait_ms).fold(20.0, f64::max);
    let from = moments().map(|it| it.at_s).fold(f64::INFINITY, f64::min);
    let from = if from.is_finite() { from.floor() } else { 0.0 };
    let x = Axis::linear(from, from + TIMELINE_S);
    let title = "Each packet's wait, ms, over a minute";
    let mut plot = Plot::new(frame, title, x, Axis::linear(0.0, most));
    plot.below("seconds since the first packet was sent");
    for timeline in timelines.iter().rev() {
        let points = timeline.moments.iter().map(|it| (it.at_s, it.wait_ms));
        let points: Vec<(f64, f64)> = points.collect();
        plot.line(&points, color(report, &timeline.name), 1.3);
    }
    plot.finish()
}

fn color<'a>(report: &Report, name: &str) -> &'a str {
    let place = report.contenders.iter().position(|it| it.name == name);
    COLORS[place.unwrap_or(COLORS.len() - 1) % COLORS.len()]
}

#[cfg(test)]
mod tests {
    use super::super::Moment;
    use super::super::tests::report;
    use super::*;
    use crate::plot::assert_well_formed;

    #[test]
    fn everybody_has_a_mark_and_names_are_escaped() {
        let report = report();
        let moments = (0..100u32).map(|at| Moment {
            at_s: f64::from(at),
            wait_ms: f64::from(at % 7),
        });
        let timeline = Timeline {
            name: "glassline".to_owned(),
            moments: moments.collect(),
        };
        let drawn = draw(&report, &[timeline]);
        assert_well_formed(&drawn);
        assert_eq!(drawn.matches(r#"r="6""#).count(), 2);
        // The curve and the chart over time.
        assert_eq!(drawn.matches("stroke-linejoin").count(), 2);
        assert!(drawn.contains("ar98:&lt;7&gt;"));
        assert_well_formed(&draw(&report, &[]));
    }
}
