use std::collections::BTreeMap;

/// Times of one thread since it began, in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Name that the kernel has, at most 15 bytes.
    pub name: String,
    /// Time on a processor, user and system.
    pub ran_ns: u64,
    /// Time ready to run while other threads had the processor.
    pub waited_ns: u64,
}

/// A living process: its id, and its start time, since ids are reused.
pub(super) type Key = (u32, u64);

/// Observation of one process. Times are in ns.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    /// Threads that live at the time of the look.
    pub(super) threads: BTreeMap<u32, Thread>,
    /// Processor time of the process, including ended threads, rounded down to ticks. Read before
    /// the threads.
    pub(super) own_ticks: u64,
    /// Processor time of ended children and their descendants that were waited for, rounded down
    /// to ticks.
    pub(super) reaped: u64,
}

/// Processor time of a tree of processes, including those that have ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    processes: BTreeMap<Key, Entry>,
    /// Time of ended processes that no living process was charged for.
    orphaned: u64,
    total: u64,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    look: Look,
    /// Time of threads that have ended.
    ended: u64,
}

impl Entry {
    fn own(&self) -> u64 {
        self.ended + ran(&self.look.threads)
    }
}

impl Account {
    /// Takes an observation of all processes of the tree; returns the ns used so far, which never
    /// decrease.
    pub(super) fn advance(&mut self, looks: BTreeMap<Key, Look>) -> u64 {
        let mut processes = BTreeMap::new();
        let mut newly_reaped = 0;
        for (key, look) in looks {
            let before = self.processes.remove(&key).unwrap_or_default();
            newly_reaped += look.reaped.saturating_sub(before.look.reaped);
            let last_seen: u64 = before
                .look
                .threads
                .iter()
                .filter(|(id, thread)| {
                    // A time that decreases belongs to another thread with the same id.
                    look.threads
                        .get(id)
                        .is_none_or(|now| now.ran_ns < thread.ran_ns)
                })
                .map(|(_, thread)| thread.ran_ns)
                .sum();
            // Both are lower bounds: the last observed times of ended threads, and the time in
            // ticks less that of the living threads.
            let by_ticks = look.own_ticks.saturating_sub(ran(&look.threads));
            let ended = (before.ended + last_seen).max(by_ticks);
            processes.insert(key, Entry { look, ended });
        }
        // The remaining processes have ended. A parent that waited was charged with their time; a
        // parent that ignores its children, or ended before them, was not.
        let gone = std::mem::replace(&mut self.processes, processes);
        let gone: u64 = gone
            .values()
            .map(|gone| gone.own() + gone.look.reaped)
            .sum();
        self.orphaned += gone.saturating_sub(newly_reaped);
        let entries = self.processes.values();
        let living: u64 = entries.map(|entry| entry.own() + entry.look.reaped).sum();
        self.total = self.total.max(living + self.orphaned);
        self.total
    }
}

fn ran(threads: &BTreeMap<u32, Thread>) -> u64 {
    threads.values().map(|thread| thread.ran_ns).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn look(threads: &[(u32, u64)], own_ticks: u64, reaped: u64) -> Look {
        let thread = |(id, ran_ns): &(u32, u64)| {
            let thread = Thread {
                name: String::new(),
                ran_ns: *ran_ns,
                waited_ns: 0,
            };
            (*id, thread)
        };
        Look {
            threads: threads.iter().map(thread).collect(),
            own_ticks,
            reaped,
        }
    }

    fn advance(account: &mut Account, processes: &[(u32, Look)]) -> u64 {
        let keyed = processes.iter().cloned();
        account.advance(keyed.map(|(id, look)| ((id, 0), look)).collect())
    }

    #[test]
    fn a_thread_that_ends_takes_nothing_along() {
        let mut account = Account::default();
        let both = look(&[(1, 100 * MS), (2, 500 * MS)], 600 * MS, 0);
        assert_eq!(advance(&mut account, &[(1, both)]), 600 * MS);
        // The thread used 130 ms more before it ended, which the ticks show.
        let one = look(&[(1, 110 * MS)], 740 * MS, 0);
        assert_eq!(advance(&mut account, &[(1, one)]), 740 * MS);
        // The ticks lag behind the observed times, which must not be lost.
        let one = look(&[(1, 115 * MS), (3, 4 * MS)], 740 * MS, 0);
        assert_eq!(advance(&mut account, &[(1, one)]), 749 * MS);
        let one = look(&[(1, 119 * MS)], 740 * MS, 0);
        assert_eq!(advance(&mut account, &[(1, one)]), 753 * MS);
    }

    #[test]
    fn a_thread_seen_by_no_look_is_in_the_ticks() {
        let mut account = Account::default();
        advance(&mut account, &[(1, look(&[(1, 100 * MS)], 100 * MS, 0))]);
        let total = advance(&mut account, &[(1, look(&[(1, 100 * MS)], 390 * MS, 0))]);
        assert_eq!(total, 390 * MS);
    }

    #[test]
    fn a_child_that_was_waited_for_counts_once() {
        let mut account = Account::default();
        let parent = look(&[(1, 100 * MS)], 100 * MS, 0);
        let child = look(&[(2, 5_000 * MS)], 5_000 * MS, 0);
        let before = advance(&mut account, &[(1, parent), (2, child)]);
        assert_eq!(before, 5_100 * MS);
        let parent = look(&[(1, 120 * MS)], 120 * MS, 5_400 * MS);
        assert_eq!(advance(&mut account, &[(1, parent)]), 5_520 * MS);
    }

    #[test]
    fn a_child_that_nobody_waited_for_counts_as_last_seen() {
        let mut account = Account::default();
        let parent = || look(&[(1, 100 * MS)], 100 * MS, 0);
        let child = look(&[(2, 70 * MS)], 70 * MS, 0);
        advance(&mut account, &[(1, parent()), (2, child)]);
        assert_eq!(advance(&mut account, &[(1, parent())]), 170 * MS);
        assert_eq!(advance(&mut account, &[(1, parent())]), 170 * MS);
    }

    #[test]
    fn a_reused_number_is_another_process() {
        let mut account = Account::default();
        let child = |ran| look(&[(2, ran)], 0, 0);
        account.advance(BTreeMap::from([((2, 7), child(50 * MS))]));
        let total = account.advance(BTreeMap::from([((2, 9), child(20 * MS))]));
        assert_eq!(total, 70 * MS);
    }

    proptest::proptest! {
        /// Threads begin and end at random; the ticks are exact to 10 ms.
        #[test]
        fn the_total_never_goes_back_and_misses_less_than_a_tick(
            rounds in proptest::collection::vec(
                proptest::collection::vec((0u32..6, 0u64..40_000_000), 0..6), 1..20
            )
        ) {
            let mut account = Account::default();
            let (mut truth, mut before) = (0, 0);
            let mut living = BTreeMap::<u32, u64>::new();
            for round in rounds {
                let kept: Vec<u32> = round.iter().map(|(id, _)| *id).collect();
                living.retain(|id, _| kept.contains(id));
                for (id, ran) in round {
                    *living.entry(id).or_default() += ran;
                    truth += ran;
                }
                let threads: Vec<_> = living.iter().map(|(id, ran)| (*id, *ran)).collect();
                let ticks = truth / (10 * MS) * (10 * MS);
                let total = advance(&mut account, &[(1, look(&threads, ticks, 0))]);
                proptest::prop_assert!(total >= before && total <= truth);
                proptest::prop_assert!(truth - total < 10 * MS);
                before = total;
            }
        }
    }
}
