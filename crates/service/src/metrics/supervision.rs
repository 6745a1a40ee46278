//! Metrics of the server's threads and tasks: their progress, panics and restarts.

use glassline_runtime::{Part, Supervisor};

use super::{LOG, Metric};

/// Appends the progress of every thread, and the panics and restarts of every part.
pub fn supervision(supervisor: &Supervisor, text: &mut String) {
    let mut progress = Metric::gauge(
        text,
        "thread_last_progress_seconds",
        "Time since a thread's last progress, in steps of 0.5 s; from 5 s on it is stuck.",
    );
    for thread in supervisor.threads() {
        progress.of([("thread", &thread.thread)], thread.quiet.as_secs_f64());
    }
    let mut panics = Metric::counter(
        text,
        "panics_total",
        "Panics of a part of the server; the log has the place in the code.",
    );
    for (part, counters) in supervisor.parts() {
        let count = match part {
            Part::Log => &LOG.panics,
            _ => &counters.panics,
        };
        panics.of([("part", part.as_str())], count.get());
    }
    let mut restarts = Metric::counter(
        text,
        "part_restarts_total",
        "Times that a part of the server started anew after a panic.",
    );
    for (part, counters) in supervisor.parts() {
        restarts.of([("part", part.as_str())], counters.restarts.get());
    }
}
