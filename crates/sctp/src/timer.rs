use std::time::{Duration, Instant};

/// A timer with exponential backoff: its wait doubles each time that it is started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timer {
    /// When the timer runs out; `None` while it does not run.
    pub(crate) at: Option<Instant>,
    /// How often the timer was started.
    pub(crate) times: u32,
}

/// How long a [`Timer`] waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    /// Wait of the first start.
    pub(crate) first: Duration,
    /// At most, however often it was started.
    pub(crate) longest: Duration,
}

impl Timer {
    /// Starts the timer, with twice the wait of the time before.
    pub(crate) fn start(&mut self, now: Instant, backoff: Backoff) {
        let wait = backoff.first.saturating_mul(1 << self.times.min(16));
        self.at = Some(now + wait.min(backoff.longest));
        self.times += 1;
    }

    /// Stops the timer, and keeps the count of starts.
    pub(crate) fn stop(&mut self) {
        self.at = None;
    }

    /// Whether the timer has run out.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.at.is_some_and(|at| now >= at)
    }
}
