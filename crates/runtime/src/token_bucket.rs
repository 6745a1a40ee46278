//! A token bucket, which bounds how often a peer may make the server do something.

use std::time::{Duration, Instant};

/// A token bucket. It gains `per_s` tokens a second and holds at most `at_once` of them.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    per_s: f64,
    at_once: f64,
    left: f64,
    /// Time up to which tokens were added; `None` before the first token was taken.
    at: Option<Instant>,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub const fn new(per_s: f64, at_once: f64) -> Self {
        Self {
            per_s,
            at_once,
            left: at_once,
            at: None,
        }
    }

    /// Takes one token. Returns false, and takes nothing, if the bucket holds less than one.
    pub fn take(&mut self, now: Instant) -> bool {
        self.take_many(1.0, now)
    }

    /// Takes `tokens`. Returns false, and takes nothing, if the bucket holds fewer.
    pub fn take_many(&mut self, tokens: f64, now: Instant) -> bool {
        self.left = self.left_at(now);
        self.at = Some(now);
        let has_them = self.left >= tokens;
        if has_them {
            self.left -= tokens;
        }
        has_them
    }

    /// Returns whether no token is missing, so that the bucket is like a new one.
    pub fn is_full(&self, now: Instant) -> bool {
        self.left_at(now) >= self.at_once
    }

    fn left_at(&self, now: Instant) -> f64 {
        let since = self.at.unwrap_or(now);
        let gained = now.saturating_duration_since(since).as_secs_f64() * self.per_s;
        (self.left + gained).min(self.at_once)
    }

    /// Puts a token back that was taken in vain.
    pub fn put_back(&mut self) {
        self.left = (self.left + 1.0).min(self.at_once);
    }

    /// Returns the time from the latest [`take`](Self::take) until the bucket holds a token.
    pub fn wait(&self) -> Duration {
        let missing = (1.0 - self.left).max(0.0);
        Duration::try_from_secs_f64(missing / self.per_s).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_what_it_holds_and_says_when_it_holds_more() {
        let (mut bucket, now) = (TokenBucket::new(0.5, 2.0), Instant::now());
        assert!(bucket.is_full(now));
        assert!(bucket.take(now) && bucket.take(now) && !bucket.take(now));
        assert_eq!(bucket.wait(), Duration::from_secs(2));
        bucket.put_back();
        assert!(bucket.take(now) && !bucket.take(now));
        let later = now + Duration::from_secs(4);
        assert!(!bucket.is_full(now + Duration::from_secs(3)) && bucket.is_full(later));
        assert!(bucket.take(later));
    }
}
