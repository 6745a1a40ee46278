use std::time::Duration;

/// First wait after a failure.
const FIRST: Duration = Duration::from_secs(1);

/// Longest wait between two attempts: a storage that is back is found within this time.
const LONGEST: Duration = Duration::from_secs(60);

/// Waits between attempts: each twice as long as the one before, until an attempt succeeds.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Returns how long to wait after one more failure.
    pub(crate) fn failed(&mut self) -> Duration {
        let wait = FIRST.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        wait.min(LONGEST)
    }

    /// Notes a success, after which waits begin anew.
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_minute_and_begin_anew() {
        let mut backoff = Backoff::default();
        let waits: Vec<u64> = (0..9).map(|_| backoff.failed().as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        backoff.succeeded();
        assert_eq!(backoff.failed(), FIRST);
        for _ in 0..1_000 {
            assert!(backoff.failed() <= LONGEST);
        }
    }
}
