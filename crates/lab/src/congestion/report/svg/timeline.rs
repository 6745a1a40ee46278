//! Chart of one session over time, under each arm.

use super::{COLORS, LEFT, RIGHT, SOFT, WIDTH, text};
use crate::congestion::session::Sample;
use crate::plot::{self, Axis, Frame, Plot, page};

const HEIGHT: f64 = 150.0;
const BETWEEN: f64 = 62.0;
const TOP: f64 = 116.0;

/// Function that returns a figure of a sample.
type Figure = fn(&Sample) -> f64;

/// Figures of the chart, from top to bottom.
const FIGURES: [(&str, Figure); 4] = [
    ("Goodput, Mbit/s", |it| it.goodput_mbps),
    ("Bitrate of the encoder, Mbit/s", |it| it.bitrate_mbps),
    ("Congestion window, kB", |it| it.window_bytes as f64 / 1e3),
    ("Wait in the bottleneck's queue, ms", |it| it.queue_ms),
];

/// Draws one session over time, for each arm. `title` is the chart's title.
pub fn timeline(title: &str, arms: &[(String, Vec<Sample>)]) -> String {
    let height = TOP + FIGURES.len() as f64 * (HEIGHT + BETWEEN);
    let mut out = page(WIDTH, height, title);
    out += &plot::title(title);
    let mut x = 24.0;
    for ((arm, _), color) in arms.iter().zip(COLORS.into_iter().cycle()) {
        out += &format!(
            r#"<circle cx="{:.1}" cy="61.5" r="5" fill="{color}"/>"#,
            x + 5.0
        );
        out += &text(x + 15.0, 66.0, arm, &format!(r#"fill="{SOFT}""#));
        x += 32.0 + 7.6 * arm.chars().count() as f64;
    }
    let all = || arms.iter().flat_map(|(_, samples)| samples);
    let end = all().map(|it| it.at_s).fold(1.0, f64::max);
    for (place, (name, of)) in FIGURES.into_iter().enumerate() {
        let frame = Frame {
            left: LEFT,
            top: TOP + place as f64 * (HEIGHT + BETWEEN),
            width: RIGHT - LEFT,
            height: HEIGHT,
        };
        // The unbounded window at the start would flatten the rest of the curve.
        let mut values: Vec<f64> = all().map(of).collect();
        values.sort_unstable_by(f64::total_cmp);
        let most = values.get(values.len().saturating_sub(1) * 99 / 100);
        let most = most.copied().unwrap_or(1.0).max(0.1) * 1.05;
        let axes = (Axis::linear(0.0, end), Axis::linear(0.0, most));
        let mut plot = Plot::new(frame, name, axes.0, axes.1);
        if place + 1 == FIGURES.len() {
            plot.below("seconds");
        }
        for ((_, samples), color) in arms.iter().zip(COLORS.into_iter().cycle()) {
            let points = samples.iter().map(|it| (it.at_s, of(it).min(most)));
            plot.line(&points.collect::<Vec<_>>(), color, 1.4);
        }
        out += &plot.finish();
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arm_has_a_line_in_each_figure() {
        let samples: Vec<Sample> = (0..50u32)
            .map(|step| Sample {
                at_s: f64::from(step) / 10.0,
                goodput_mbps: f64::from(step % 7),
                ..Sample::default()
            })
            .collect();
        let arms = [
            ("cubic".to_owned(), samples.clone()),
            ("a<b".to_owned(), samples),
        ];
        let drawn = timeline("policed 3", &arms);
        let lines = drawn.matches("stroke-linejoin").count();
        assert_eq!(lines, 2 * FIGURES.len());
        assert!(
            drawn.contains("a&lt;b") && drawn.ends_with("</svg>\n"),
            "{drawn}"
        );
        assert!(timeline("none", &[]).contains("</svg>"));
    }
}
