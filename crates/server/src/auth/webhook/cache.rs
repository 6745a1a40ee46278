//! Answers that are used again for the same question.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::Denial;
use super::question::QuestionKey;

/// Most answers of each kind. Refusals have a table of their own, so that a stranger who is refused
/// again and again does not take the place of those who are allowed.
const ALLOWED_MAX: usize = 16_384;
const DENIED_MAX: usize = 4096;

/// Longest time for which a refusal is used again: a right that was just given works soon.
const DENIED_TIME_MAX: Duration = Duration::from_secs(5);

/// Answers by question.
#[derive(Debug, Default)]
pub(super) struct Answers {
    allowed: HashMap<QuestionKey, Instant>,
    denied: HashMap<QuestionKey, (Instant, Denial)>,
}

impl Answers {
    /// Returns the answer to a question, if one is known: that it is allowed, or why not.
    pub(super) fn get(&self, key: &QuestionKey, now: Instant) -> Option<Result<(), Denial>> {
        if self.allowed.get(key).is_some_and(|until| now < *until) {
            return Some(Ok(()));
        }
        let (until, denial) = self.denied.get(key)?;
        (now < *until).then_some(Err(*denial))
    }

    /// Remembers for `time` that a question was allowed.
    pub(super) fn allow(&mut self, key: QuestionKey, time: Duration, now: Instant) {
        self.denied.remove(&key);
        make_room(&mut self.allowed, ALLOWED_MAX, |until| now < *until);
        if !time.is_zero() && self.allowed.len() < ALLOWED_MAX {
            self.allowed.insert(key, now + time);
        }
    }

    /// Remembers for `time`, or a shorter one, that a question was refused.
    pub(super) fn deny(&mut self, key: QuestionKey, denial: Denial, time: Duration, now: Instant) {
        self.allowed.remove(&key);
        make_room(&mut self.denied, DENIED_MAX, |(until, _)| now < *until);
        let time = time.min(DENIED_TIME_MAX);
        if !time.is_zero() && self.denied.len() < DENIED_MAX {
            self.denied.insert(key, (now + time, denial));
        }
    }
}

/// Removes what is over from a table that is full.
fn make_room<V>(table: &mut HashMap<QuestionKey, V>, most: usize, is_used: impl Fn(&V) -> bool) {
    if table.len() >= most {
        table.retain(|_, value| is_used(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_A_MINUTE: Duration = Duration::from_secs(30);

    fn key(number: usize) -> QuestionKey {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_be_bytes());
        key
    }

    #[test]
    fn answers_are_used_for_their_time_and_refusals_for_a_shorter_one() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        answers.allow(key(1), HALF_A_MINUTE, now);
        answers.deny(key(2), Denial::Wrong, HALF_A_MINUTE, now);
        assert_eq!(answers.get(&key(1), now), Some(Ok(())));
        assert_eq!(answers.get(&key(2), now), Some(Err(Denial::Wrong)));
        assert_eq!(answers.get(&key(3), now), None);
        let later = now + DENIED_TIME_MAX;
        assert_eq!(answers.get(&key(2), later), None);
        assert_eq!(answers.get(&key(1), later), Some(Ok(())));
        assert_eq!(answers.get(&key(1), now + HALF_A_MINUTE), None);
        answers.allow(key(4), Duration::ZERO, now);
        assert_eq!(answers.get(&key(4), now), None, "no cache");
    }

    #[test]
    fn a_newer_answer_replaces_the_other_kind() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        answers.allow(key(1), HALF_A_MINUTE, now);
        answers.deny(key(1), Denial::Refused, HALF_A_MINUTE, now);
        assert_eq!(answers.get(&key(1), now), Some(Err(Denial::Refused)));
        answers.allow(key(1), HALF_A_MINUTE, now);
        assert_eq!(answers.get(&key(1), now), Some(Ok(())));
    }

    #[test]
    fn a_flood_of_refusals_is_bounded_and_forgets_nobody_who_is_allowed() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        answers.allow(key(0), HALF_A_MINUTE, now);
        for number in 1..=2 * DENIED_MAX {
            answers.deny(key(number), Denial::Wrong, HALF_A_MINUTE, now);
        }
        assert_eq!(answers.denied.len(), DENIED_MAX);
        assert_eq!(answers.get(&key(0), now), Some(Ok(())));
        let later = now + DENIED_TIME_MAX;
        answers.deny(key(1), Denial::Wrong, HALF_A_MINUTE, later);
        assert_eq!(answers.denied.len(), 1);
    }
}
