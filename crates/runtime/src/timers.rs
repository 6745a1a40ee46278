//! The deadlines of many receivers in one heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use super::slots::Key;

/// Entries for which the heap keeps room in any case.
const KEPT: usize = 1024;

/// The earliest deadline of each receiver.
///
/// An entry that a later call replaced stays in the heap until its time. The owner then sees that
/// the receiver is not due and ignores the entry.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Instant, Key)>>,
}

impl Timers {
    /// Adds a deadline: `key` is due at `at`.
    pub fn arm(&mut self, at: Instant, key: Key) {
        self.heap.push(Reverse((at, key)));
    }

    /// Returns the earliest deadline.
    pub fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Moves the entries that are due at `now` to `out`, earliest first.
    pub fn take_due(&mut self, now: Instant, out: &mut Vec<(Instant, Key)>) {
        while self.next().is_some_and(|at| at <= now) {
            out.extend(self.heap.pop().map(|Reverse(entry)| entry));
        }
        if self.heap.capacity() > 8 * (self.heap.len() + KEPT) {
            self.heap.shrink_to(2 * (self.heap.len() + KEPT));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_heap_is_small_again_after_a_crowd() {
        let start = Instant::now();
        let mut timers = Timers::default();
        for number in 0..100_000 {
            let at = start + Duration::from_micros(number);
            timers.arm(at, Key::from_bits(number));
        }
        let mut due = Vec::new();
        timers.take_due(start + Duration::from_millis(50), &mut due);
        assert_eq!(due.len(), 50_001);
        timers.take_due(start + Duration::from_secs(1), &mut due);
        assert_eq!((due.len(), timers.next()), (100_000, None));
        assert!(
            timers.heap.capacity() <= 8 * KEPT,
            "{}",
            timers.heap.capacity()
        );
    }
}
