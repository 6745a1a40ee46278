//! Counts of failed connections.

use std::fmt::Write;

use glassline_service::metrics::head;

use crate::app::App;

/// Appends how many connections failed, by protocol and stage.
pub(super) fn failures(app: &App, text: &mut String) {
    let name = "connection_failures_total";
    head(
        text,
        name,
        "counter",
        "Connections that failed before their first media, or were lost later, by stage.",
    );
    for (protocol, stage, count) in app.failures.counters().rows() {
        let (protocol, stage) = (protocol.as_str(), stage.as_str());
        let _ = writeln!(
            text,
            "glassline_{name}{{protocol=\"{protocol}\",stage=\"{stage}\"}} {count}"
        );
    }
}
