//! How often a part may start anew.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Panics within [`SPAN`] after which a part is given up.
const PANICS_MAX: usize = 5;

/// Time in which panics are counted together.
const SPAN: Duration = Duration::from_secs(60);

/// Allows a part to start anew, unless it panics again and again.
#[derive(Debug, Default)]
pub(super) struct RestartLimit {
    panics: VecDeque<Instant>,
}

impl RestartLimit {
    /// Notes a panic at `now`. Returns whether the part may start anew: false for the fifth panic
    /// within a minute.
    pub(super) fn allows(&mut self, now: Instant) -> bool {
        self.panics.push_back(now);
        let is_old = |at: &Instant| now.saturating_duration_since(*at) > SPAN;
        while self.panics.front().is_some_and(is_old) {
            self.panics.pop_front();
        }
        self.panics.len() < PANICS_MAX
    }
}
