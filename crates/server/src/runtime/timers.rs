//! The deadlines of many receivers in one heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use super::slots::Key;

/// The earliest deadline of each receiver.
///
/// An entry that a later call replaced stays in the heap until its time. The owner then sees that
/// the receiver is not due and ignores the entry.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, Key)>>,
}

impl Timers {
    /// Adds a deadline: `key` is due at `at`.
    pub(crate) fn arm(&mut self, at: Instant, key: Key) {
        self.heap.push(Reverse((at, key)));
    }

    /// Returns the earliest deadline.
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
