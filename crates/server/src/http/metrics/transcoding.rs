//! Metrics of transcoding.

use std::time::Instant;

use glassline_service::metrics::Metric;
use glassline_transcoding::TranscodingView;

use crate::app::App;

/// Writes the transcodings of the moment and the counts since the start.
pub(super) fn metrics(app: &App, text: &mut String) {
    let views = app.transcoders.views(Instant::now());
    let by_track = |metric: &mut Metric<'_>, read: fn(&TranscodingView) -> String| {
        for view in &views {
            let labels = [
                ("stream", view.stream.as_str()),
                ("from", view.from),
                ("to", view.to),
            ];
            metric.of(labels, read(view));
        }
    };
    by_track(
        &mut Metric::gauge(
            text,
            "transcodings",
            "Viewers of each track that is transcoded, connected or connecting.",
        ),
        |it| it.viewers.to_string(),
    );
    by_track(
        &mut Metric::gauge(
            text,
            "transcoding_cores",
            "Processor time of each track that is transcoded, in cores, while it is transcoded.",
        ),
        |it| it.cpu_ratio.to_string(),
    );
    let counters = &app.transcoders.counters;
    let help = "Times that work on a track began.";
    Metric::counter(text, "transcodings_started_total", help).value(counters.started.get());
    let help = "Offers without audio or video for lack of transcoding.audio_streams or transcoding.video_streams.";
    Metric::counter(text, "transcodings_refused_total", help).value(counters.refused.get());
    let help = "Coded frames that were taken, and frames that were made.";
    Metric::counter(text, "transcoding_frames_total", help).counts(
        "direction",
        [("in", &counters.frames_in), ("out", &counters.frames_out)],
    );
    let help = "Coded frames that made nothing: `undecodable`, `late`, or `missed` in the ring.";
    Metric::counter(text, "transcoding_dropped_total", help).counts(
        "reason",
        [
            ("undecodable", &counters.undecodable),
            ("late", &counters.late),
            ("missed", &counters.missed),
        ],
    );
    let help = "Processor time of all transcodings.";
    Metric::counter(text, "transcoding_cpu_seconds_total", help)
        .value(counters.cpu_ns.get() as f64 / 1e9);
}
