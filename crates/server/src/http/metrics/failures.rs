//! Counts of failed connections.

use glassline_service::metrics::Metric;

use crate::app::App;

/// Appends how many connections failed, by protocol and stage.
pub(super) fn failures(app: &App, text: &mut String) {
    let mut metric = Metric::counter(
        text,
        "connection_failures_total",
        "Connections that failed before their first media, or were lost later, by stage.",
    );
    for (protocol, stage, count) in app.failures.counters().rows() {
        metric.of(
            [("protocol", protocol.as_str()), ("stage", stage.as_str())],
            count,
        );
    }
}
