//! Metrics of transcoding.

use std::fmt::Write;
use std::time::Instant;

use glassline_service::metrics::{head, label_value};

use crate::app::App;

/// Writes the transcodings of the moment and the counts since the start.
pub(super) fn metrics(app: &App, text: &mut String) {
    head(
        text,
        "transcodings",
        "gauge",
        "Viewers of each track that is transcoded, connected or connecting.",
    );
    for view in app.transcoders.views(Instant::now()) {
        let (stream, viewers) = (label_value(&view.stream), view.viewers);
        let (from, to) = (view.from, view.to);
        let _ = writeln!(
            text,
            "glassline_transcodings{{stream=\"{stream}\",from=\"{from}\",to=\"{to}\"}} {viewers}"
        );
    }
    head(
        text,
        "transcoding_cores",
        "gauge",
        "Processor time of each track that is transcoded, in cores, while it is transcoded.",
    );
    for view in app.transcoders.views(Instant::now()) {
        let (stream, cores) = (label_value(&view.stream), view.cpu_ratio);
        let (from, to) = (view.from, view.to);
        let _ = writeln!(
            text,
            "glassline_transcoding_cores{{stream=\"{stream}\",from=\"{from}\",to=\"{to}\"}} {cores}"
        );
    }
    let counters = &app.transcoders.counters;
    for (name, help, count) in [
        (
            "transcodings_started_total",
            "Times that work on a track began.",
            &counters.started,
        ),
        (
            "transcodings_refused_total",
            "Offers without audio or video for lack of transcoding.audio_streams or transcoding.video_streams.",
            &counters.refused,
        ),
    ] {
        head(text, name, "counter", help);
        let _ = writeln!(text, "glassline_{name} {}", count.get());
    }
    head(
        text,
        "transcoding_frames_total",
        "counter",
        "Coded frames that were taken, and frames that were made.",
    );
    for (direction, count) in [("in", &counters.frames_in), ("out", &counters.frames_out)] {
        let count = count.get();
        let _ = writeln!(
            text,
            "glassline_transcoding_frames_total{{direction=\"{direction}\"}} {count}"
        );
    }
    head(
        text,
        "transcoding_dropped_total",
        "counter",
        "Coded frames that made nothing: `undecodable`, `late`, or `missed` in the ring.",
    );
    for (reason, count) in [
        ("undecodable", &counters.undecodable),
        ("late", &counters.late),
        ("missed", &counters.missed),
    ] {
        let count = count.get();
        let _ = writeln!(
            text,
            "glassline_transcoding_dropped_total{{reason=\"{reason}\"}} {count}"
        );
    }
    head(
        text,
        "transcoding_cpu_seconds_total",
        "counter",
        "Processor time of all transcodings.",
    );
    let seconds = counters.cpu_ns.get() as f64 / 1e9;
    let _ = writeln!(text, "glassline_transcoding_cpu_seconds_total {seconds}");
}
