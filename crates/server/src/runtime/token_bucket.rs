//! A token bucket, which bounds how often a peer may make the server do something.

use std::time::Instant;

/// A token bucket. It gains `per_s` tokens a second and holds at most `at_once` of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    per_s: f64,
    at_once: f64,
    left: f64,
    /// Time up to which tokens were added; `None` before the first token was taken.
    at: Option<Instant>,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub(crate) const fn new(per_s: f64, at_once: f64) -> Self {
        Self {
            per_s,
            at_once,
            left: at_once,
            at: None,
        }
    }

    /// Takes one token. Returns false, and takes nothing, if the bucket holds less than one.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        self.left = self.left_at(now);
        self.at = Some(now);
        let has_one = self.left >= 1.0;
        if has_one {
            self.left -= 1.0;
        }
        has_one
    }

    /// Returns whether no token is missing, so that the bucket is like a new one.
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.left_at(now) >= self.at_once
    }

    fn left_at(&self, now: Instant) -> f64 {
        let since = self.at.unwrap_or(now);
        let gained = now.saturating_duration_since(since).as_secs_f64() * self.per_s;
        (self.left + gained).min(self.at_once)
    }
}
