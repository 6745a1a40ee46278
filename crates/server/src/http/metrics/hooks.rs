use glassline_events::hooks::{EventKind, HookCounters, Outcome};
use glassline_service::metrics::Metric;

/// Appends what became of the events that hooks are told.
pub(super) fn metrics(counters: &HookCounters, text: &mut String) {
    let mut metric = Metric::counter(
        text,
        "hook_events_total",
        "Events that hooks were told: `done`, `failed`, or `dropped` because too many waited.",
    );
    for kind in EventKind::ALL {
        for outcome in Outcome::ALL {
            let labels = [("event", kind.as_str()), ("result", outcome.as_str())];
            metric.of(labels, counters.of(kind, outcome).get());
        }
    }
    let help = "Repetitions of webhooks that did not take an event.";
    Metric::counter(text, "hook_retries_total", help).value(counters.retries.get());
}
