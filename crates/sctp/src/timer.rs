use std::time::{Duration, Instant};

/// A timer that waits twice as long each time that it is started again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timer {
    /// When the timer runs out; `None` while it does not run.
    pub(crate) at: Option<Instant>,
    /// How often the timer was started.
    pub(crate) times: u32,
}

/// How long a [`Timer`] waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// The first time.
    pub(crate) first: Duration,
    /// At most, however often it was started.
    pub(crate) longest: Duration,
}

impl Timer {
    pub(crate) fn start(&mut self, now: Instant, waits: Waits) {
        let wait = waits.first.saturating_mul(1 << self.times.min(16));
        self.at = Some(now + wait.min(waits.longest));
        self.times += 1;
    }

    pub(crate) fn stop(&mut self) {
        self.at = None;
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.at.is_some_and(|at| now >= at)
    }
}
