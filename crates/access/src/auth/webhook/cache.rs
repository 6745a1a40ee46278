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
#[derive(Debug)]
pub(super) struct Answers {
    allowed: Table<()>,
    denied: Table<Denial>,
}

impl Answers {
    /// Returns the answer to a question, if one is known: that it is allowed, or why not.
    pub(super) fn get(&self, key: &QuestionKey, now: Instant) -> Option<Result<(), Denial>> {
        let allowed = self.allowed.get(key, now).map(Ok);
        allowed.or_else(|| self.denied.get(key, now).map(Err))
    }

    /// Remembers for `time` that a question was allowed.
    pub(super) fn allow(&mut self, key: QuestionKey, time: Duration, now: Instant) {
        self.denied.entries.remove(&key);
        self.allowed.insert(key, (), time, now);
    }

    /// Remembers for `time`, or a shorter one, that a question was refused.
    pub(super) fn deny(&mut self, key: QuestionKey, denial: Denial, time: Duration, now: Instant) {
        self.allowed.entries.remove(&key);
        let time = time.min(DENIED_TIME_MAX);
        self.denied.insert(key, denial, time, now);
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            allowed: Table::new(ALLOWED_MAX),
            denied: Table::new(DENIED_MAX),
        }
    }
}

/// Answers of one kind, each with its end. A table that is full takes no others until one ends.
#[derive(Debug)]
struct Table<V> {
    entries: HashMap<QuestionKey, (Instant, V)>,
    most: usize,
    /// The soonest end of an answer in a table that was full. Until then a look through the table
    /// would make no room, and strangers could cause a look with each question.
    soonest: Option<Instant>,
}

impl<V: Copy> Table<V> {
    fn new(most: usize) -> Self {
        Self {
            entries: HashMap::new(),
            most,
            soonest: None,
        }
    }

    fn get(&self, key: &QuestionKey, now: Instant) -> Option<V> {
        let (until, value) = self.entries.get(key)?;
        (now < *until).then_some(*value)
    }

    fn insert(&mut self, key: QuestionKey, value: V, time: Duration, now: Instant) {
        if self.entries.len() >= self.most {
            self.make_room(now);
        }
        let has_room = self.entries.len() < self.most || self.entries.contains_key(&key);
        if !time.is_zero() && has_room {
            let until = now + time;
            self.soonest = self.soonest.map(|soonest| soonest.min(until));
            self.entries.insert(key, (until, value));
        }
    }

    /// Removes the answers that have ended.
    fn make_room(&mut self, now: Instant) {
        if self.soonest.is_none_or(|soonest| now >= soonest) {
            self.entries.retain(|_, (until, _)| now < *until);
            self.soonest = self.entries.values().map(|(until, _)| *until).min();
        }
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
        assert_eq!(answers.denied.entries.len(), DENIED_MAX);
        assert_eq!(answers.get(&key(0), now), Some(Ok(())));
        let later = now + DENIED_TIME_MAX;
        answers.deny(key(1), Denial::Wrong, HALF_A_MINUTE, later);
        assert_eq!(answers.denied.entries.len(), 1);
    }

    #[test]
    fn a_full_table_is_looked_through_only_when_an_answer_has_ended() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        for number in 0..=DENIED_MAX {
            let at = now + Duration::from_micros(number as u64);
            answers.deny(key(number), Denial::Wrong, HALF_A_MINUTE, at);
        }
        let first = now + DENIED_TIME_MAX;
        assert_eq!(answers.denied.soonest, Some(first));
        // A shorter answer in the place of another is the next to end.
        let short = Duration::from_secs(1);
        answers.deny(key(7), Denial::Refused, short, now);
        assert_eq!(answers.denied.soonest, Some(now + short));
        answers.deny(key(DENIED_MAX), Denial::Wrong, HALF_A_MINUTE, now + short);
        assert_eq!(answers.denied.entries.len(), DENIED_MAX);
        assert_eq!(answers.denied.soonest, Some(first));
        assert_eq!(answers.get(&key(7), now + short), None);
        let last = answers.get(&key(DENIED_MAX), now + short);
        assert_eq!(last, Some(Err(Denial::Wrong)));
    }
}
