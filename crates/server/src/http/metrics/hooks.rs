use std::fmt::Write as _;

use glassline_events::hooks::{EventKind, HookCounters, Outcome};
use glassline_service::metrics::head;

/// Appends what became of the events that hooks are told.
pub(super) fn metrics(counters: &HookCounters, text: &mut String) {
    head(
        text,
        "hook_events_total",
        "counter",
        "Events that hooks were told: `done`, `failed`, or `dropped` because too many waited.",
    );
    for kind in EventKind::ALL {
        for outcome in Outcome::ALL {
            let (event, result) = (kind.as_str(), outcome.as_str());
            let count = counters.of(kind, outcome).get();
            let _ = writeln!(
                text,
                "glassline_hook_events_total{{event=\"{event}\",result=\"{result}\"}} {count}"
            );
        }
    }
    head(
        text,
        "hook_retries_total",
        "counter",
        "Repetitions of webhooks that did not take an event.",
    );
    let retries = counters.retries.get();
    let _ = writeln!(text, "glassline_hook_retries_total {retries}");
}
