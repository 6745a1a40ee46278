//! The latency table as text and as CSV.

use std::fmt::Write as _;

use super::latency::{Latency, Publisher, Whole};

/// Width of the longest bar, in characters.
const BAR_CHARS: f64 = 24.0;

/// Most viewers that get a line of their own.
const VIEWERS_MAX: usize = 20;

const BOLD: &str = "\x1b[1m";
const BLUE: &str = "\x1b[34m";
const PLAIN: &str = "\x1b[0m";

/// An aligned table of the stages in order, then the whole path and the viewers that report. Each
/// bar begins where the bar before ends.
pub(super) fn text(latency: &Latency, color: bool) -> String {
    let style = |code: &'static str| if color { code } else { "" };
    let (bold, blue, plain) = (style(BOLD), style(BLUE), style(PLAIN));
    let mut out = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| {
        writeln!(out, "{}", text.to_string().trim_end()).expect("a string takes everything");
    };
    let reporting = match latency.viewers.len() {
        0 => "no viewer reports, so delays end at the server's socket".to_owned(),
        1 => "1 viewer reports".to_owned(),
        n if n < latency.total => format!("{n} of {} viewers are listed", latency.total),
        n => format!("{n} viewers report"),
    };
    line(format_args!(
        "{bold}{}{plain}, last {} s, {reporting}",
        latency.stream, latency.window_s
    ));
    if latency.stages.is_empty() {
        line(format_args!("no frame was delivered yet"));
        return out;
    }
    line(format_args!(
        "{bold}{:<14} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>9}{plain}",
        "stage", "p50 ms", "p95 ms", "p99 ms", "max ms", "frames", "lost", "unmatched"
    ));
    let whole: f64 = latency.stages.iter().map(|stage| stage.p50_ms).sum();
    let mut before = 0.0;
    for stage in &latency.stages {
        let bar = bar(before, stage.p50_ms, whole);
        before += stage.p50_ms;
        line(format_args!(
            "{:<14} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>8} {:>6} {:>9}  {blue}{bar}{plain}",
            stage.stage,
            stage.p50_ms,
            stage.p95_ms,
            stage.p99_ms,
            stage.max_ms,
            stage.count,
            stage.lost,
            stage.unmatched,
        ));
    }
    for (name, whole) in wholes(latency) {
        line(format_args!(
            "{bold}{name:<14} {:>8.2} {:>8.2}{plain} {:>17} {:>8}  ± {:.2} ms",
            whole.p50_ms, whole.p95_ms, "", whole.count, whole.error_ms
        ));
    }
    if let Some(publisher) = &latency.publisher {
        line(format_args!("publisher: {}", sending(publisher)));
    }
    for viewer in latency.viewers.iter().take(VIEWERS_MAX) {
        let delay = match (&viewer.glass_to_glass, &viewer.end_to_end) {
            (Some(whole), _) => format!("glass to glass {:.1} ms", whole.p50_ms),
            (None, Some(whole)) => format!("end to end {:.1} ms", whole.p50_ms),
            (None, None) => "no whole frame yet".to_owned(),
        };
        let accounted = match &viewer.accounted {
            Some(frames) if frames.of > 0 => format!(
                ", {} of {} frames' stages add up to it",
                frames.within, frames.of
            ),
            _ => String::new(),
        };
        line(format_args!("viewer {}: {delay}{accounted}", viewer.viewer));
    }
    if let Some(more) = latency.viewers.len().checked_sub(VIEWERS_MAX + 1) {
        line(format_args!(
            "and {} more viewers (--json has them)",
            more + 1
        ));
    }
    out
}

/// A publisher's figures in words; unknown ones are left out.
// Rounded for people.
fn sending(publisher: &Publisher) -> String {
    let mbit = |bps: u64| format!("{:.2} Mbit/s", bps as f64 / 1e6);
    let ms = |ms: f64| format!("{ms:.1} ms");
    let kb = |bytes: u64| format!("{:.0} kB", bytes as f64 / 1e3);
    let share = |ratio: f64| format!("{:.2} %", ratio * 100.0);
    let parts = [
        ("app RTT", publisher.app_rtt_ms.map(ms)),
        ("transport RTT", publisher.transport_rtt_ms.map(ms)),
        ("goodput", publisher.goodput_bps.map(mbit)),
        ("sent again", publisher.rtx_overhead_ratio.map(share)),
        ("encoder at", publisher.bitrate_bps.map(mbit)),
        ("path carries", publisher.deliverable_bps.map(mbit)),
        ("backlog", publisher.backlog_bytes.map(kb)),
    ];
    let known = parts
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name} {}", value?)));
    known.collect::<Vec<_>>().join(", ")
}

/// A CSV row for each stage, then for the whole path where it is known.
pub(super) fn csv(latency: &Latency) -> String {
    let mut out = String::from("stage,count,unmatched,lost,p50_ms,p95_ms,p99_ms,max_ms\n");
    for stage in &latency.stages {
        writeln!(
            out,
            "{},{},{},{},{:.3},{:.3},{:.3},{:.3}",
            stage.stage,
            stage.count,
            stage.unmatched,
            stage.lost,
            stage.p50_ms,
            stage.p95_ms,
            stage.p99_ms,
            stage.max_ms
        )
        .expect("a string takes everything");
    }
    for (name, whole) in wholes(latency) {
        writeln!(
            out,
            "{},{},,,{:.3},{:.3},,",
            name.replace(' ', "_"),
            whole.count,
            whole.p50_ms,
            whole.p95_ms
        )
        .expect("a string takes everything");
    }
    out
}

pub(super) fn wholes(latency: &Latency) -> impl Iterator<Item = (&'static str, &Whole)> {
    let named = [
        ("end to end", &latency.end_to_end),
        ("glass to glass", &latency.glass_to_glass),
    ];
    named
        .into_iter()
        .filter_map(|(name, whole)| whole.as_ref().map(|whole| (name, whole)))
}

/// A bar of `length` that begins after `before`, to the scale of `whole`.
fn bar(before: f64, length: f64, whole: f64) -> String {
    if whole <= 0.0 {
        return String::new();
    }
    let chars = |part: f64| (part / whole * BAR_CHARS).round().clamp(0.0, BAR_CHARS) as usize;
    let (start, end) = (chars(before), chars(before + length));
    let mark = if end > start {
        "█".repeat(end - start)
    } else {
        "▏".to_owned()
    };
    " ".repeat(start) + &mark
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{
        "stream": "demo", "window_s": 10,
        "stages": [
            {"stage":"ingest","count":300,"unmatched":0,"lost":0,"p50_ms":0.08,"p95_ms":0.2,"p99_ms":0.31,"max_ms":1.5},
            {"stage":"jitter_buffer","count":298,"unmatched":2,"lost":1,"p50_ms":29.92,"p95_ms":41.0,"p99_ms":55.126,"max_ms":1234.5}
        ],
        "end_to_end": {"count":298,"p50_ms":30.1,"p95_ms":42.5,"error_ms":0.25},
        "glass_to_glass": null,
        "viewers": [{"viewer":"a1b2","window_s":10,"stages":[],"end_to_end":{"count":298,"p50_ms":30.1,"p95_ms":42.5,"error_ms":0.25},"glass_to_glass":null,"accounted":{"within":297,"of":298},"frames":[]}],
        "something_new": 1
    }"#;

    fn answer() -> Latency {
        serde_json::from_str(ANSWER).expect("an answer as the server gives it")
    }

    #[test]
    fn columns_stand_below_their_heads() {
        let shown = text(&answer(), false);
        let expected = "\
demo, last 10 s, 1 viewer reports
stage            p50 ms   p95 ms   p99 ms   max ms   frames   lost unmatched
ingest             0.08     0.20     0.31     1.50      300      0         0  ▏
jitter_buffer     29.92    41.00    55.13  1234.50      298      1         2  ████████████████████████
end to end        30.10    42.50                        298  ± 0.25 ms
viewer a1b2: end to end 30.1 ms, 297 of 298 frames' stages add up to it
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn colors_change_nothing_but_colors() {
        let colored = text(&answer(), true);
        assert!(colored.contains(BOLD));
        let stripped = colored
            .replace(BOLD, "")
            .replace(BLUE, "")
            .replace(PLAIN, "");
        assert_eq!(stripped, text(&answer(), false));
    }

    #[test]
    fn csv_has_the_same_figures() {
        let expected = "\
stage,count,unmatched,lost,p50_ms,p95_ms,p99_ms,max_ms
ingest,300,0,0,0.080,0.200,0.310,1.500
jitter_buffer,298,2,1,29.920,41.000,55.126,1234.500
end_to_end,298,,,30.100,42.500,,
";
        assert_eq!(csv(&answer()), expected);
    }

    #[test]
    fn a_stream_that_nobody_watches_has_a_table_too() {
        let mut latency = answer();
        latency.stages.clear();
        latency.viewers.clear();
        let shown = text(&latency, false);
        assert!(shown.contains("no viewer reports"), "{shown}");
        assert!(shown.contains("no frame was delivered yet"), "{shown}");
    }

    #[test]
    fn bars_line_up_end_to_end() {
        assert_eq!(bar(0.0, 1.0, 4.0), "██████");
        assert_eq!(
            bar(1.0, 3.0, 4.0),
            format!("{}{}", " ".repeat(6), "█".repeat(18))
        );
        assert_eq!(bar(0.0, 0.0, 0.0), "");
    }
}
