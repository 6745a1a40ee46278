//! How readily connections make room for others, and the news of it for their table.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

/// How readily a connection is closed in favor of a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EvictionRank {
    /// The server waits for a client that has shown no right yet.
    HalfOpen,
    /// The server waits for a client that was granted a request before.
    Waiting,
    /// The server works on requests, of which the newest began at this time.
    Busy(Instant),
}

/// The numbers of connections whose rank is another one than their table knows. Each connection is in it
/// once at most.
#[derive(Debug, Default)]
pub(super) struct ChangedRanks(Mutex<Vec<u64>>);

impl ChangedRanks {
    /// Removes and returns the numbers.
    pub(super) fn take(&self) -> Vec<u64> {
        std::mem::take(&mut self.0.lock())
    }
}

/// The rank of a connection as its table knows it.
#[derive(Debug)]
pub(super) struct ListedRank {
    number: u64,
    rank: EvictionRank,
    changed: Arc<ChangedRanks>,
    /// Whether the connection's number is among those that changed.
    is_noted: bool,
}

impl ListedRank {
    /// Creates the rank of a connection that its table has as half open, under this number.
    pub(super) fn half_open(number: u64, changed: &Arc<ChangedRanks>) -> Self {
        Self {
            number,
            rank: EvictionRank::HalfOpen,
            changed: Arc::clone(changed),
            is_noted: false,
        }
    }

    /// Notes the present rank for the table.
    pub(super) fn note(&mut self, rank: EvictionRank) {
        if self.rank != rank && !self.is_noted {
            self.is_noted = true;
            self.changed.0.lock().push(self.number);
        }
    }

    /// Notes that the table knows the present rank.
    pub(super) const fn note_known(&mut self, rank: EvictionRank) {
        self.rank = rank;
        self.is_noted = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_told_once_of_each_change_of_the_rank() {
        let changed = Arc::<ChangedRanks>::default();
        let mut listed = ListedRank::half_open(7, &changed);
        listed.note(EvictionRank::HalfOpen);
        assert!(changed.take().is_empty(), "the table knows");
        listed.note(EvictionRank::Waiting);
        assert_eq!(changed.take(), [7]);
        let busy = EvictionRank::Busy(Instant::now());
        listed.note(busy);
        assert!(changed.take().is_empty(), "the table has not looked yet");
        listed.note_known(busy);
        listed.note(busy);
        assert!(changed.take().is_empty(), "the table knows");
        listed.note(EvictionRank::Waiting);
        assert_eq!(changed.take(), [7]);
    }
}
