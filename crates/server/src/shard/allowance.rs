//! How much a peer may send: so many a second, and so many at once.

use std::time::Instant;

/// A bucket of tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    per_s: f64,
    at_once: f64,
    left: f64,
    /// Filled up to here; `None` before the first was taken.
    at: Option<Instant>,
}

impl Allowance {
    /// Full.
    pub(super) const fn new(per_s: f64, at_once: f64) -> Self {
        Self {
            per_s,
            at_once,
            left: at_once,
            at: None,
        }
    }

    /// Whether there is one more; then it is taken.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let since = self.at.replace(now).unwrap_or(now);
        let gained = now.saturating_duration_since(since).as_secs_f64() * self.per_s;
        self.left = (self.left + gained).min(self.at_once);
        let has_one = self.left >= 1.0;
        if has_one {
            self.left -= 1.0;
        }
        has_one
    }
}
