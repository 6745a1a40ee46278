//! Metrics of what is sent to a collector of OpenTelemetry.

use glassline_service::metrics::Metric;
use glassline_telemetry::Signal;

use crate::app::App;

/// Appends what became of traces and metrics, if they are sent.
pub(super) fn metrics(app: &App, text: &mut String) {
    let Some(joins) = app.sessions.shared().joins.get() else {
        return;
    };
    let counters = &joins.counters;
    let mut metric = Metric::counter(
        text,
        "telemetry_requests_total",
        "Requests to the OpenTelemetry collector by signal: `ok`, `failed` after all repetitions, or `retried`.",
    );
    for signal in Signal::ALL {
        let of = counters.of(signal);
        for (result, count) in [
            ("ok", &of.sent),
            ("failed", &of.failed),
            ("retried", &of.retries),
        ] {
            metric.of(
                [("signal", signal.as_str()), ("result", result)],
                count.get(),
            );
        }
    }
    let mut metric = Metric::counter(
        text,
        "telemetry_rejected_total",
        "Spans and data points that the collector rejected.",
    );
    for signal in Signal::ALL {
        let rejected = &counters.of(signal).rejected;
        metric.of([("signal", signal.as_str())], rejected.get());
    }
    Metric::counter(
        text,
        "telemetry_dropped_joins_total",
        "Traces of joins lost: full queue, missing part, or not taken.",
    )
    .counts(
        "reason",
        [
            ("queue", &counters.queue_full),
            ("incomplete", &counters.incomplete),
            ("unsent", &counters.unsent),
        ],
    );
}
