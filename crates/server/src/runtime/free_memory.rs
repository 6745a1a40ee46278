//! When freed memory is returned to the system.

use std::time::{Duration, Instant};

/// Fewest sessions and descriptors whose end is worth the work.
const FEWEST: usize = 32;
/// Shortest time between two returns.
const INTERVAL: Duration = Duration::from_secs(10);

/// Decides when the allocator's free pages are returned to the system: after a crowd has left.
///
/// Sessions are made by some threads and dropped by others, and live ones stay between them, so the
/// allocator keeps most of what a crowd needed. Returning it costs some milliseconds of one thread,
/// and is therefore done once the load is below three quarters of its peak and no longer falls.
#[derive(Debug, Default)]
pub(crate) struct FreeMemory {
    /// Highest load since the last return.
    peak: usize,
    /// Load at the last call.
    previous: usize,
    returned: Option<Instant>,
}

impl FreeMemory {
    /// Takes the present load: the number of sessions and open descriptors. Returns whether memory
    /// is to be returned now.
    pub(crate) fn is_due(&mut self, load: usize, now: Instant) -> bool {
        let falls = load < self.previous;
        self.previous = load;
        self.peak = self.peak.max(load);
        let left = self.peak - load;
        let waits = self
            .returned
            .is_some_and(|at| now.saturating_duration_since(at) < INTERVAL);
        if falls || waits || left < FEWEST || left < self.peak / 4 {
            return false;
        }
        self.peak = load;
        self.returned = Some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_returned_once_after_a_crowd() {
        let mut free = FreeMemory::default();
        let start = Instant::now();
        let loads = [20, 21, 300, 520, 520, 510, 240, 22, 22, 22, 22, 22];
        let due = (0..).zip(loads).map(|(second, load)| {
            let now = start + Duration::from_secs(second);
            free.is_due(load, now).then_some(second)
        });
        let due: Vec<u64> = due.flatten().collect();
        assert_eq!(due, [8]);
    }

    #[test]
    fn visitors_that_come_and_go_cost_nothing() {
        let mut free = FreeMemory::default();
        let start = Instant::now();
        for second in 0..1000_u64 {
            let load = 1000 + (second % 7) as usize * 30;
            let now = start + Duration::from_secs(second);
            assert!(!free.is_due(load, now), "at {second} s");
        }
    }

    #[test]
    fn crowds_that_follow_each_other_cost_one_return_in_ten_seconds() {
        let mut free = FreeMemory::default();
        let start = Instant::now();
        let due = (0..100_u64).filter(|second| {
            let load = if second % 4 < 2 { 500 } else { 100 };
            free.is_due(load, start + Duration::from_secs(*second))
        });
        let due = due.count();
        assert!((5..=10).contains(&due), "{due}");
    }
}
