//! Counts of the process's log.

use glassline_runtime::Counter;

use super::Metric;

/// The counters of the process's log. The program that writes the log raises them; like the log
/// itself, they exist once for each process.
pub static LOG: LogCounters = LogCounters {
    dropped: Counter::new(),
    suppressed: Counter::new(),
    turns: Counter::new(),
    panics: Counter::new(),
};

/// Lines that are not in the log, and the progress of the thread that writes it.
#[derive(Debug, Default)]
pub struct LogCounters {
    /// Lines dropped because the reader of the log did not keep up.
    pub dropped: Counter,
    /// Lines left out because their place in the code writes too many.
    pub suppressed: Counter,
    /// Turns of the thread that writes the log, at least one a second. 0 if no log is written.
    pub turns: Counter,
    /// Panics of the log's threads, which go on after each.
    pub panics: Counter,
}

/// Appends the number of lines that are not in the log.
pub fn log(text: &mut String) {
    Metric::counter(
        text,
        "log_lines_lost_total",
        "Lines not logged: dropped for a slow reader, or suppressed as one place writes too many.",
    )
    .counts(
        "reason",
        [("dropped", &LOG.dropped), ("suppressed", &LOG.suppressed)],
    );
}
