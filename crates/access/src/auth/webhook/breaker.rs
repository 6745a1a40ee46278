//! Stops asking a webhook that does not answer.

use std::time::{Duration, Instant};

/// Questions without an answer, one after the other, after which no more are sent for a while.
const MISSES: u32 = 5;

const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Knows whether the webhook answers.
///
/// Any answer counts, also one that is an error: a question that the webhook cannot digest must not
/// close it for others.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    misses: u32,
    pause: Duration,
    /// Until then no question is sent.
    until: Option<Instant>,
}

impl Breaker {
    /// Begins a question, which takes at most `longest`. After a pause, one question tries whether
    /// the webhook answers again.
    ///
    /// # Errors
    /// Returns the time to wait if no question is sent now.
    pub(super) fn begin(&mut self, now: Instant, longest: Duration) -> Result<(), Duration> {
        let Some(until) = self.until else {
            return Ok(());
        };
        if now < until {
            return Err(until - now);
        }
        // Others wait for this one. It may get lost, so their wait has an end.
        self.until = Some(now + longest);
        Ok(())
    }

    /// Notes that the webhook has answered.
    pub(super) fn answered(&mut self) {
        *self = Self::default();
    }

    /// Notes that a question got no answer.
    pub(super) fn missed(&mut self, now: Instant) {
        self.misses = self.misses.saturating_add(1);
        if self.misses < MISSES {
            return;
        }
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.until = Some(now + self.pause);
    }

    /// Returns whether questions are held back.
    pub(super) const fn is_open(&self) -> bool {
        self.until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(2);

    #[test]
    fn a_silent_webhook_is_asked_ever_more_rarely_and_one_answer_ends_that() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        for _ in 0..MISSES {
            assert_eq!(breaker.begin(now, LONGEST), Ok(()));
            breaker.missed(now);
        }
        for pause in [1, 2, 4, 8, 16, 30, 30].map(Duration::from_secs) {
            assert!(breaker.is_open());
            assert_eq!(breaker.begin(now, LONGEST), Err(pause));
            now += pause;
            assert_eq!(breaker.begin(now, LONGEST), Ok(()), "one tries");
            assert_eq!(breaker.begin(now, LONGEST), Err(LONGEST), "the others wait");
            breaker.missed(now);
        }
        breaker.answered();
        assert!(!breaker.is_open());
        assert_eq!(breaker.begin(now, LONGEST), Ok(()));
        assert_eq!(breaker.begin(now, LONGEST), Ok(()));
    }

    #[test]
    fn a_question_that_tries_and_gets_lost_is_not_waited_for_for_ever() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..MISSES {
            breaker.missed(now);
        }
        let later = now + PAUSE_MIN;
        assert_eq!(breaker.begin(later, LONGEST), Ok(()));
        assert_eq!(breaker.begin(later + LONGEST, LONGEST), Ok(()));
    }

    #[test]
    fn answers_between_the_misses_keep_it_closed() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for number in 0..100 {
            match number % MISSES {
                0 => breaker.answered(),
                _ => breaker.missed(now),
            }
            assert_eq!(breaker.begin(now, LONGEST), Ok(()));
        }
    }
}
