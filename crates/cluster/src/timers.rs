//! Deadlines of many things, of which the earliest is known at once.

use std::collections::BTreeMap;
use std::time::Instant;

/// A queue of deadlines. A deadline is not taken back: what it wakes looks whether it is still
/// meant.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    queue: BTreeMap<(Instant, u64), T>,
    next: u64,
}

impl<T> Timers<T> {
    pub(crate) const fn new() -> Self {
        Self {
            queue: BTreeMap::new(),
            next: 0,
        }
    }

    pub(crate) fn set(&mut self, at: Instant, timer: T) {
        self.queue.insert((at, self.next), timer);
        self.next += 1;
    }

    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.queue.keys().next().map(|(at, _)| *at)
    }

    /// Takes the earliest deadline that has passed.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<T> {
        let first = self.queue.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
