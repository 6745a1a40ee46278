//! Charts of a call: waterfall, frames over time, and a histogram of every table.

use super::{Report, Waterfall};
use crate::call::frame::Frame as Way;
use crate::call::stage::{Role, Stage};
use crate::call::table::Table;
use crate::plot::{self, Axis, COLORS, Frame, GRID, Plot, SOFT, number, page, text};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 976.0;

/// Layout of the waterfall: where names end and bars begin, and the height of a row.
const NAMES: f64 = 244.0;
const BARS: f64 = 900.0;
const ROW: f64 = 21.0;

const OVER_TIME: f64 = 190.0;

/// Space between two reports.
const BETWEEN: f64 = 24.0;

/// Layout of the histograms: three in a row.
const COLUMNS: usize = 3;
const HISTOGRAM: f64 = 92.0;
const BELOW: f64 = 74.0;

/// Approximate number of bars of a histogram, at most.
const BARS_MAX: f64 = 48.0;

/// Groups of stages in the chart of frames over time.
const GROUPS: [&str; 8] = [
    "capture",
    "pre-processing",
    "encoding",
    "sending",
    "network",
    "jitter buffer",
    "decode, mix, resample",
    "playout",
];

/// Draws the charts of `report`. Without frames that both ends have stamped, there are histograms
/// only.
pub fn draw(report: &Report) -> String {
    drawn(report).0
}

/// Draws the charts of several reports, one below the other.
pub fn draw_all(reports: &[Report]) -> String {
    let drawn: Vec<_> = reports.iter().map(drawn).collect();
    if let [(one, _)] = drawn.as_slice() {
        return one.clone();
    }
    let height = drawn.iter().map(|it| it.1 + BETWEEN).sum();
    let sources: Vec<&str> = reports.iter().map(|it| it.source.as_str()).collect();
    let mut out = page(WIDTH, height, &sources.join("; "));
    let mut top = 0.0;
    for (one, height) in &drawn {
        out += &format!(r#"<svg y="{top:.0}" height="{height:.0}">"#);
        out += one;
        out += "</svg>\n";
        top += height + BETWEEN;
    }
    out + "</svg>\n"
}

/// The charts of one report, and their height.
fn drawn(report: &Report) -> (String, f64) {
    let falls = ROW * report.waterfall.len() as f64;
    let (fall_height, time_height) = match report.waterfall.is_empty() {
        true => (0.0, 0.0),
        false => (falls + 66.0, OVER_TIME + 116.0),
    };
    let drawn: Vec<&Table> = report.stages.iter().filter(|it| it.count > 0).collect();
    let rows = drawn.len().div_ceil(COLUMNS) as f64;
    let top = 78.0;
    let height = top + fall_height + time_height + rows * (HISTOGRAM + BELOW) + 34.0;
    let title = format!("Delays of a call: {}", report.source);
    let mut out = page(WIDTH, height, &title);
    out += &head(report, &title);
    if !report.waterfall.is_empty() {
        out += &waterfall(report, top + 24.0);
        out += &over_time(&report.frames, top + fall_height + 44.0);
    }
    let from = top + fall_height + time_height + 34.0;
    for (place, table) in drawn.into_iter().enumerate() {
        let width = (RIGHT - LEFT) / COLUMNS as f64;
        let frame = Frame {
            left: LEFT + (place % COLUMNS) as f64 * width,
            top: from + (place / COLUMNS) as f64 * (HISTOGRAM + BELOW),
            width: width - 46.0,
            height: HISTOGRAM,
        };
        out += &histogram(table, frame);
    }
    (out + "</svg>\n", height)
}

fn head(report: &Report, title: &str) -> String {
    let mut about = Vec::new();
    if let Some(whole) = report.table(Stage::MouthToEar) {
        about.push(format!("{} frames", whole.count));
        let named = [
            ("p50", whole.p50_ms),
            ("p95", whole.p95_ms),
            ("p99", whole.p99_ms),
        ];
        let known = named.into_iter().filter_map(|(name, ms)| Some((name, ms?)));
        about.extend(known.map(|(name, ms)| format!("mouth to ear {name} {ms:.1} ms")));
        about.extend(whole.error_ms.map(|ms| format!("± {ms:.2} ms")));
        about.push(format!("{} lost", whole.lost));
    }
    about.push("histograms: number of frames by ms, logarithmic".to_owned());
    if report.malformed > 0 {
        about.push(format!("{} malformed", report.malformed));
    }
    let mut out = plot::title(title);
    out += &plot::subtitle(57.0, &about.join(" · "));
    out
}

/// Each step begins where the step before ends; steps that only sampled frames show are hollow.
fn waterfall(report: &Report, top: f64) -> String {
    let whole = report.mean_ms();
    let title = format!(
        "Mean delays of a frame: {whole:.1} ms. Hollow: delay inside the audio, which no clock shows"
    );
    let mut out = text(24.0, top - 2.0, &title, r#"font-weight="600""#);
    let place = |ms: f64| NAMES + 10.0 + ms / whole.max(1e-9) * (BARS - NAMES - 10.0);
    let bottom = top + 14.0 + ROW * report.waterfall.len() as f64;
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let x = place(whole * share);
        out += &format!(
            r#"<line x1="{x:.1}" x2="{x:.1}" y1="{:.1}" y2="{bottom:.1}" stroke="{GRID}"/>"#,
            top + 10.0
        );
        let style = format!(r#"text-anchor="middle" font-size="11" fill="{SOFT}""#);
        out += &text(x, bottom + 15.0, &format!("{:.1}", whole * share), &style);
    }
    let mut before = 0.0;
    for (row, step) in report.waterfall.iter().enumerate() {
        let y = top + 14.0 + ROW * row as f64;
        out += &bar(step, place(before), place(before + step.mean_ms), y);
        before += step.mean_ms;
    }
    out + "\n"
}

fn bar(step: &Waterfall, from: f64, to: f64, y: f64) -> String {
    let color = COLORS[group(step.stage)];
    let style = match step.stage.role() {
        Role::Signal => format!(r##"fill="#ffffff" stroke="{color}" stroke-dasharray="3 2""##),
        _ => format!(r#"fill="{color}""#),
    };
    let names = r#"text-anchor="end" font-size="12""#;
    let mut out = text(NAMES, y + 13.0, step.stage.title(), names);
    out += &format!(
        r#"<rect x="{from:.1}" y="{:.1}" width="{:.1}" height="{:.1}" rx="1.5" {style}><title>p5 {:.3}, p95 {:.3} ms</title></rect>"#,
        y + 3.0,
        (to - from).max(0.8),
        ROW - 7.0,
        step.p5_ms,
        step.p95_ms
    );
    let mut ms = match step.mean_ms {
        ms if ms.abs() < 0.1 => format!("{ms:.3}"),
        ms => format!("{ms:.1}"),
    };
    if let Some(error) = step.error_ms {
        ms += &format!(" ± {error:.2}");
    }
    let soft = format!(r#"font-size="11" fill="{SOFT}""#);
    out + &text(to.max(from + 0.8) + 6.0, y + 13.0, &ms, &soft)
}

/// A column for each sampled frame, with its stages stacked.
fn over_time(frames: &[Way], top: f64) -> String {
    let most = frames
        .iter()
        .map(|it| it.mouth_to_ear_ms)
        .fold(10.0, f64::max);
    let last = frames.iter().map(|it| it.at_s).fold(1.0, f64::max);
    let frame = Frame {
        left: LEFT,
        top: top + 22.0,
        width: RIGHT - LEFT,
        height: OVER_TIME,
    };
    let x = Axis::linear(0.0, last);
    let mut plot = Plot::new(frame, "", x, Axis::linear(0.0, most));
    plot.below("seconds since the first frame");
    let width = last / frames.len().max(1) as f64;
    for way in frames {
        let mut before = 0.0;
        for (group, color) in COLORS.iter().enumerate() {
            let after = before + way.group_ms(group);
            let style = format!(r#"fill="{color}""#);
            plot.block(way.at_s..way.at_s + width, before..after, &style);
            before = after;
        }
    }
    let title = format!(
        "{} frames, evenly spread over the call: ms by stage",
        frames.len()
    );
    let mut out = text(24.0, top - 10.0, &title, r#"font-weight="600""#);
    let mut at = 24.0;
    for (name, color) in GROUPS.iter().zip(COLORS) {
        out += &format!(
            r#"<rect x="{at:.1}" y="{top:.1}" width="10" height="10" rx="2" fill="{color}"/>"#
        );
        out += &text(at + 15.0, top + 9.0, name, r#"font-size="12""#);
        at += 34.0 + 6.6 * name.chars().count() as f64;
    }
    out + &plot.finish()
}

impl Way {
    fn group_ms(&self, wanted: usize) -> f64 {
        let way = self.stages_ms.way();
        let ns = way.filter(|(stage, _)| group(*stage) == wanted);
        ns.map(|(_, ns)| ns as f64 / 1e6).sum::<f64>().max(0.0)
    }
}

/// Returns the index of a stage's group in [`GROUPS`].
const fn group(stage: Stage) -> usize {
    match stage {
        Stage::CaptureInterval | Stage::Capture | Stage::Reframe => 0,
        Stage::Preprocess | Stage::PreprocessSignal => 1,
        Stage::Encode | Stage::EncodeQueue | Stage::EncodeOperation | Stage::EncodeLookAhead => 2,
        Stage::Send
        | Stage::SendEnqueue
        | Stage::SendPace
        | Stage::SendHandOver
        | Stage::SendQueue
        | Stage::SendSocket => 3,
        Stage::Network => 4,
        Stage::Open | Stage::JitterBuffer => 5,
        Stage::Decode | Stage::Mix | Stage::Mixer | Stage::Resample | Stage::ResampleSignal => 6,
        Stage::PlayoutInterval | Stage::Playout | Stage::MouthToEar => 7,
    }
}

/// Frequency of each delay on a logarithmic axis, so that one in ten thousand is visible.
fn histogram(table: &Table, frame: Frame) -> String {
    let bars = bars(&table.exact);
    let most = bars.iter().map(|it| it.2).max().unwrap_or(1) as f64;
    let last = bars.last().map_or(1.0, |it| it.1);
    let first = bars.first().map_or(0.0, |it| it.0.min(0.0));
    let x = Axis::linear(first, last);
    // Even a bar of a single value must have a height.
    let y = Axis::logarithmic(0.5, most.max(1.0));
    let mut plot = Plot::new(frame, table.stage.title(), x, y);
    let style = format!(r#"fill="{}""#, COLORS[group(table.stage)]);
    for (from, to, count) in bars {
        plot.block(from..to, 0.5..count as f64, &style);
    }
    let cell = |ms: Option<f64>| ms.map_or_else(|| "–".to_owned(), number);
    let below = format!(
        "ms; p50 {}, p95 {}, p99 {}, max {}",
        cell(table.p50_ms),
        cell(table.p95_ms),
        cell(table.p99_ms),
        cell(table.max_ms)
    );
    let error = table.error_ms.map(|ms| format!(" ± {}", number(ms)));
    plot.below(&(below + &error.unwrap_or_default()));
    plot.finish()
}

/// Bars of equal width: from and to in ms, and the count. Delays that come in steps, as of a
/// clock, have bars of the same step.
fn bars(exact: &[(i64, u64)]) -> Vec<(f64, f64, u64)> {
    let (Some((first, _)), Some((last, _))) = (exact.first(), exact.last()) else {
        return Vec::new();
    };
    let step = exact
        .iter()
        .fold(0, |step, (us, _)| greatest_divisor(step, us.unsigned_abs()));
    // A single value has no step.
    let step = if exact.len() < 2 { 1 } else { step.max(1) };
    let step = i64::try_from(step).unwrap_or(1);
    let span = (last - first.min(&0)) as f64;
    let width = step * ((span / BARS_MAX / step as f64).ceil() as i64).max(1);
    let mut bars: Vec<(i64, u64)> = Vec::new();
    for (us, count) in exact {
        let place = us.div_euclid(width) * width;
        match bars.last_mut().filter(|it| it.0 == place) {
            Some(bar) => bar.1 += count,
            None => bars.push((place, *count)),
        }
    }
    let ms = |us: i64| us as f64 / 1e3;
    let bars = bars.into_iter();
    bars.map(|(from, count)| (ms(from), ms(from + width), count))
        .collect()
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => greatest_divisor(b, a % b),
    }
}
