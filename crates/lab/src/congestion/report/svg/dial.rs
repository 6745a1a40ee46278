//! Chart of Copa's delta: goodput against queueing delay, over the whole range.

use super::{LEFT, RIGHT, of_arm};
use crate::congestion::outcome::Outcome;
use crate::congestion::statistics::Ranked;
use crate::plot::{Axis, Frame, INK, Plot, Point};

const HEIGHT: f64 = 220.0;

/// Delta of an arm called `copa:DELTA`.
pub(super) fn delta(arm: &str) -> Option<f64> {
    arm.strip_prefix("copa:")?.parse().ok()
}

/// Draws the arms of `dialled` as a curve and the others as points; returns the chart and its
/// height. Empty without dialled arms.
pub(super) fn draw(
    outcomes: &[Outcome],
    dialled: &[&str],
    arms: &[(&str, &str)],
    top: f64,
) -> (String, f64) {
    let mut curve: Vec<(f64, (f64, f64))> = dialled
        .iter()
        .filter_map(|arm| Some((delta(arm)?, place(outcomes, arm)?)))
        .collect();
    if curve.is_empty() {
        return (String::new(), 0.0);
    }
    curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    let points: Vec<_> = arms
        .iter()
        .filter_map(|(arm, color)| Some(((*arm, *color), place(outcomes, arm)?)))
        .collect();
    let all = || {
        curve
            .iter()
            .map(|it| it.1)
            .chain(points.iter().map(|it| it.1))
    };
    let span = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, 0.0_f64), |(min, max), value| {
            (min.min(value), max.max(value))
        })
    };
    let (queue_min, queue_max) = span(&mut all().map(|it| it.0));
    let (goodput_min, goodput_max) = span(&mut all().map(|it| it.1));
    let frame = Frame {
        left: LEFT,
        top: top + 30.0,
        width: RIGHT - LEFT,
        height: HEIGHT,
    };
    let title = "Copa's delta: mean goodput, Mbit/s, over wait in the queue (Copa at each delta)";
    let mut plot = Plot::new(
        frame,
        title,
        Axis::logarithmic(queue_min.max(0.1), queue_max),
        Axis::linear(goodput_min * 0.98, goodput_max * 1.02),
    );
    plot.below("95th percentile of the wait in the queue, ms, median over sessions");
    let line: Vec<(f64, f64)> = curve.iter().map(|it| it.1).collect();
    plot.line(&line, INK, 1.6);
    for (delta, (queue_ms, goodput)) in &curve {
        let at = Point::new(*queue_ms, *goodput);
        let style = format!(r#"fill="{INK}""#);
        plot.dot(at, 3.2, &style, &format!("copa, delta {delta}"));
        plot.label(at, &delta.to_string(), INK);
    }
    for ((arm, color), (queue_ms, goodput)) in &points {
        let at = Point::new(*queue_ms, *goodput);
        plot.dot(at, 5.0, &format!(r#"fill="{color}""#), arm);
        plot.label(at, arm, color);
    }
    (plot.finish(), HEIGHT + 96.0)
}

/// Queueing delay and goodput of an arm; `None` without sessions.
fn place(outcomes: &[Outcome], arm: &str) -> Option<(f64, f64)> {
    let of_it = of_arm(outcomes, arm);
    if of_it.is_empty() {
        return None;
    }
    let weights = vec![1.0; of_it.len()];
    let ranked = |of: fn(&Outcome) -> f64| Ranked::new(of_it.iter().map(|it| of(it)).collect());
    let mut median = Vec::new();
    ranked(|it| it.queue_p95_ms).percentiles(&weights, &[0.5], &mut median);
    let goodput = ranked(|it| it.goodput_mbps).mean(&weights);
    Some((median[0].max(0.1), goodput))
}
