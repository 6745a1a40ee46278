//! Counters of the port that takes media over TCP.

use std::fmt::Write;

use crate::app::App;
use crate::metrics::head;

/// Writes what became of the connections.
pub(super) fn metrics(app: &App, text: &mut String) {
    let counters = &app.sessions.shared().tcp;
    let outcomes = [
        ("refused", &counters.refused),
        ("stranger", &counters.strangers),
        ("peer", &counters.handed_over),
    ];
    head(
        text,
        "media_tcp_connections_total",
        "counter",
        "Connections for media over TCP: refused, closed without an authentic check, or of a peer.",
    );
    for (outcome, counter) in outcomes {
        let _ = writeln!(
            text,
            "glassline_media_tcp_connections_total{{outcome=\"{outcome}\"}} {}",
            counter.get()
        );
    }
}
