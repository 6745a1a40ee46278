//! Metrics of the server's threads and tasks: their progress, panics and restarts.

use std::fmt::Write;

use glassline_runtime::{Part, PartCounters, Supervisor};

use super::{LOG, head, label_value};

/// Appends the progress of every thread, and the panics and restarts of every part.
pub fn supervision(supervisor: &Supervisor, text: &mut String) {
    head(
        text,
        "thread_last_progress_seconds",
        "gauge",
        "Time since a thread's last progress, in steps of 0.5 s; from 5 s on it is stuck.",
    );
    for progress in supervisor.threads() {
        let (thread, quiet) = (label_value(&progress.thread), progress.quiet.as_secs_f64());
        let _ = writeln!(
            text,
            "glassline_thread_last_progress_seconds{{thread=\"{thread}\"}} {quiet}"
        );
    }
    let mut by_part = |name: &str, help: &str, read: fn(Part, &PartCounters) -> u64| {
        head(text, name, "counter", help);
        for (part, counters) in supervisor.parts() {
            let (part, count) = (part.as_str(), read(part, counters));
            let _ = writeln!(text, "glassline_{name}{{part=\"{part}\"}} {count}");
        }
    };
    by_part(
        "panics_total",
        "Panics of a part of the server; the log has the place in the code.",
        |part, counters| match part {
            Part::Log => LOG.panics.get(),
            _ => counters.panics.get(),
        },
    );
    by_part(
        "part_restarts_total",
        "Times that a part of the server started anew after a panic.",
        |_, counters| counters.restarts.get(),
    );
}
