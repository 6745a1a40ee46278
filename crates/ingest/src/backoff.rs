use std::time::Duration;

use rand::Rng as _;

/// Pauses between connection attempts: 250 ms, doubled up to 2 s, each varied by ±20 % at random so
/// that cameras behind one switch are not all called at once.
///
/// The pauses are not longer because a restarted camera must be visible within 5 s, and after the
/// pause the camera still has to answer and to send a keyframe.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(250);
    const LONGEST: Duration = Duration::from_secs(2);
    const JITTER: f64 = 0.2;

    pub(crate) fn new() -> Self {
        Self { next: Self::FIRST }
    }

    /// Returns the pause before the next attempt.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(Self::LONGEST);
        let factor = rand::rng().random_range(1.0 - Self::JITTER..=1.0 + Self::JITTER);
        pause.mul_f64(factor).min(Self::LONGEST)
    }

    /// Starts with short pauses again, because the source worked.
    pub(crate) fn reset(&mut self) {
        self.next = Self::FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_two_seconds_and_no_further() {
        let mut backoff = Backoff::new();
        let first = backoff.pause();
        assert!(
            (Duration::from_millis(200)..=Duration::from_millis(300)).contains(&first),
            "{first:?}"
        );
        for _ in 0..20 {
            assert!(backoff.pause() <= Backoff::LONGEST);
        }
        assert!(backoff.pause() > Duration::from_millis(1500));
        backoff.reset();
        assert!(backoff.pause() < Duration::from_millis(301));
    }
}
