//! What became of traces and metrics.

use glassline_runtime::Counter;

/// A signal that is sent to a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Traces of joins, as spans.
    Traces,
    /// Metrics, read from the text for Prometheus.
    Metrics,
}

impl Signal {
    /// Both signals, in the order of metrics.
    pub const ALL: [Self; 2] = [Self::Traces, Self::Metrics];

    /// Returns the name in metrics, and in the path of the collector.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
        }
    }
}

/// Counts of one signal.
#[derive(Debug, Default)]
pub struct SignalCounters {
    /// Requests that the collector took.
    pub sent: Counter,
    /// Requests that it did not take, after all repetitions.
    pub failed: Counter,
    /// Attempts to send a request that was not taken once more.
    pub retries: Counter,
    /// Spans or data points that it rejected out of requests that it took.
    pub rejected: Counter,
}

/// The counts of traces and metrics since the server started.
#[derive(Debug, Default)]
pub struct TelemetryCounters {
    signals: [SignalCounters; Signal::ALL.len()],
    /// Parts of joins that came while the queue was full.
    pub queue_full: Counter,
    /// Joins that were dropped because too many were under way, or because the other part was missing.
    pub incomplete: Counter,
    /// Traces in requests that the collector did not take.
    pub unsent: Counter,
}

impl TelemetryCounters {
    /// Returns the counts of `signal`.
    pub const fn of(&self, signal: Signal) -> &SignalCounters {
        &self.signals[signal as usize]
    }
}
