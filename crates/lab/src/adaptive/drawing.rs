//! Pictures of a case: rates, layer, estimate, queue and frames over time, a column for each arm.

use std::fmt::Write as _;

use super::arm::Arm;
use super::case::Case;
use super::ledger::Sample;
use super::outcome::Run;
use crate::plot::{Axis, COLORS, Frame, Plot, SOFT, page, subtitle, text, title};

/// Width of a column, and what stands left of its axis.
const COLUMN: f64 = 400.0;
const LEFT: f64 = 60.0;
const INNER: f64 = 310.0;
/// Tops and heights of the three rows.
const ROWS: [(f64, f64); 3] = [(130.0, 210.0), (400.0, 110.0), (570.0, 110.0)];
const HEIGHT: f64 = 740.0;
/// Least width, which title and legend need.
const WIDTH_MIN: f64 = 820.0;

const CAPACITY: &str = r##"fill="#e8edf4""##;
const SENT: &str = COLORS[1];
const ESTIMATE: &str = COLORS[3];
const LAYER: &str = COLORS[0];
const QUEUE: &str = COLORS[4];
const FRAMES: &str = COLORS[2];

/// Draws the first seed of `case` with each arm.
pub fn draw(case: &Case, arms: &[(Arm, &Run)]) -> String {
    let width = LEFT.mul_add(0.5, COLUMN * arms.len().max(1) as f64);
    let mut out = page(width.max(WIDTH_MIN), HEIGHT, case.name);
    out += &title(&format!("{}: {}", case.name, case.about));
    out += &subtitle(
        56.0,
        "Rates in Mbit/s over s; queue of the bottleneck in ms; frames decoded in the last second.",
    );
    out += &legend();
    let rate_max = rate_max(arms);
    let queue_max = most(arms, |sample| sample.queue_ms).max(50.0);
    let fps_max = most(arms, |sample| sample.fps).max(10.0);
    let time = Axis::linear(0.0, case.duration.as_secs_f64());
    for (place, (arm, run)) in arms.iter().enumerate() {
        let frame = |row: usize| Frame {
            left: LEFT + COLUMN * place as f64,
            top: ROWS[row].0,
            width: INNER,
            height: ROWS[row].1,
        };
        let rates = Axis::linear(0.0, rate_max);
        let mut plot = Plot::new(frame(0), arm.as_str(), time, rates);
        draw_rates(&mut plot, run, rate_max);
        out += &plot.finish();
        let mut plot = Plot::new(frame(1), "queue, ms", time, Axis::linear(0.0, queue_max));
        if let Some(viewer) = run.viewers.first() {
            plot.line(&line(&viewer.samples, |it| it.queue_ms), QUEUE, 1.2);
        }
        out += &plot.finish();
        let mut plot = Plot::new(frame(2), "frames/s", time, Axis::linear(0.0, fps_max));
        for (place, viewer) in run.viewers.iter().enumerate() {
            let width = if place == 0 { 1.4 } else { 0.7 };
            plot.line(&line(&viewer.samples, |it| it.fps), FRAMES, width);
        }
        plot.below("s");
        out += &plot.finish();
    }
    out + "</svg>\n"
}

fn draw_rates(plot: &mut Plot, run: &Run, rate_max: f64) {
    let step = super::ledger::SAMPLE.as_secs_f64();
    if let Some(first) = run.viewers.first() {
        // One block for each time of constant capacity.
        let mut samples = first.samples.iter().peekable();
        while let Some(sample) = samples.next() {
            let mut end = sample.at_s + step;
            while let Some(next) = samples.next_if(|it| it.capacity_mbps == sample.capacity_mbps) {
                end = next.at_s + step;
            }
            let rate = sample.capacity_mbps.unwrap_or(rate_max).min(rate_max);
            plot.block(sample.at_s..end, 0.0..rate, CAPACITY);
        }
    }
    for (place, viewer) in run.viewers.iter().enumerate() {
        let samples = &viewer.samples;
        let is_first = place == 0;
        if is_first {
            plot.line(&smoothed(samples, |it| it.sent_mbps), SENT, 1.0);
            let estimate = |it: &Sample| it.estimate_mbps.unwrap_or(f64::NAN);
            plot.line(&line(samples, estimate), ESTIMATE, 1.2);
        }
        let layer = |it: &Sample| it.layer_mbps.unwrap_or(f64::NAN);
        plot.line(
            &line(samples, layer),
            LAYER,
            if is_first { 2.4 } else { 1.0 },
        );
    }
}

/// Names of the lines.
fn legend() -> String {
    let entries = [
        ("#c3cedb", "capacity"),
        (LAYER, "layer shown (thin: other viewers)"),
        (SENT, "sent, mean of 0.5 s"),
        (ESTIMATE, "estimate"),
    ];
    let mut out = String::new();
    let mut left = 24.0;
    for (color, words) in entries {
        write!(
            out,
            r#"<rect x="{left:.0}" y="70" width="18" height="9" fill="{color}"/>"#
        )
        .expect("a string takes everything");
        out += &text(
            left + 24.0,
            79.0,
            words,
            &format!(r#"font-size="12" fill="{SOFT}""#),
        );
        left += 50.0 + 6.8 * words.len() as f64;
    }
    out
}

/// Returns the top of the axis of rates: what is sent and carried, and not an estimate far above.
fn rate_max(arms: &[(Arm, &Run)]) -> f64 {
    let layer = most(arms, |it| it.layer_mbps.unwrap_or_default());
    let capacity = most(arms, |it| it.capacity_mbps.unwrap_or_default());
    let sent = arms.iter().flat_map(|(_, run)| run.viewers.first());
    let sent = sent.flat_map(|viewer| smoothed(&viewer.samples, |it| it.sent_mbps));
    let sent = sent.map(|(_, rate)| rate).fold(0.0, f64::max);
    f64::max(layer * 1.6, sent.min(4.0 * layer)).max(capacity.min(layer * 2.5))
}

fn most(arms: &[(Arm, &Run)], of: impl Fn(&Sample) -> f64) -> f64 {
    let viewers = arms.iter().flat_map(|(_, run)| &run.viewers);
    let samples = viewers.flat_map(|viewer| &viewer.samples);
    samples.map(of).fold(0.0, f64::max)
}

fn line(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
    samples.iter().map(|it| (it.at_s, of(it))).collect()
}

/// Returns means over half a second, since frames come in bursts.
fn smoothed(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
    let windows = samples.windows(5);
    let mean = |window: &[Sample]| window.iter().map(&of).sum::<f64>() / window.len() as f64;
    windows
        .map(|it| (it[it.len() - 1].at_s, mean(it)))
        .collect()
}
