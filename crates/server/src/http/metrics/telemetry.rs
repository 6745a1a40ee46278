//! Metrics of what is sent to a collector of OpenTelemetry.

use std::fmt::Write as _;

use glassline_service::metrics::head;
use glassline_telemetry::Signal;

use crate::app::App;

/// Appends what became of traces and metrics, if they are sent.
pub(super) fn metrics(app: &App, text: &mut String) {
    let Some(joins) = app.sessions.shared().joins.get() else {
        return;
    };
    let counters = &joins.counters;
    head(
        text,
        "telemetry_requests_total",
        "counter",
        "Requests to the OpenTelemetry collector by signal: `ok`, `failed` after all repetitions, or `retried`.",
    );
    for signal in Signal::ALL {
        let (of, signal) = (counters.of(signal), signal.as_str());
        let results = [
            ("ok", &of.sent),
            ("failed", &of.failed),
            ("retried", &of.retries),
        ];
        for (result, count) in results {
            let count = count.get();
            let _ = writeln!(
                text,
                "glassline_telemetry_requests_total{{signal=\"{signal}\",result=\"{result}\"}} {count}"
            );
        }
    }
    head(
        text,
        "telemetry_rejected_total",
        "counter",
        "Spans and data points that the collector rejected.",
    );
    for signal in Signal::ALL {
        let (count, signal) = (counters.of(signal).rejected.get(), signal.as_str());
        let _ = writeln!(
            text,
            "glassline_telemetry_rejected_total{{signal=\"{signal}\"}} {count}"
        );
    }
    head(
        text,
        "telemetry_dropped_joins_total",
        "counter",
        "Traces of joins lost: full queue, missing part, or not taken.",
    );
    let reasons = [
        ("queue", &counters.queue_full),
        ("incomplete", &counters.incomplete),
        ("unsent", &counters.unsent),
    ];
    for (reason, count) in reasons {
        let count = count.get();
        let _ = writeln!(
            text,
            "glassline_telemetry_dropped_joins_total{{reason=\"{reason}\"}} {count}"
        );
    }
}
