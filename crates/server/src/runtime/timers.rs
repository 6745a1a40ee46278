//! Deadlines of many viewers in one heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use super::slots::Key;

/// The earliest deadline of each viewer. Entries that were overtaken stay in
/// the heap until their time and are then found void by the owner.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, Key)>>,
}

impl Timers {
    /// Wakes `key` at `at`.
    pub(crate) fn arm(&mut self, at: Instant, key: Key) {
        self.heap.push(Reverse((at, key)));
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Moves the entries that are due at `now` to `out`, earliest first.
    pub(crate) fn take_due(&mut self, now: Instant, out: &mut Vec<(Instant, Key)>) {
        while self.next().is_some_and(|at| at <= now) {
            out.extend(self.heap.pop().map(|Reverse(entry)| entry));
        }
    }
}
