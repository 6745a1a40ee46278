//! Tracks which TSNs have arrived: the cumulative TSN, the ranges beyond the first gap, and
//! duplicates.

use std::collections::VecDeque;

use crate::chunk::GapBlock;
use crate::sequence::{Tsn, narrow};

/// Most ranges beyond the first gap that are tracked. When a sender discovers the end of a
/// long path at twice its rate, every second packet of a round trip is lost; data that is
/// refused for want of ranges would be retransmitted for nothing.
const RUNS_MAX: usize = 16_384;
/// Most duplicates that one SACK reports.
const DUPLICATES_MAX: usize = 32;
/// Largest offset of a gap ack block from the cumulative TSN (16 bits).
const GAP_OFFSET_MAX: u64 = 65_535;

/// Status of a TSN that has just come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The TSN directly follows the cumulative TSN.
    Next,
    /// The TSN is new and lies beyond a gap, or within one.
    Apart,
    /// The TSN has arrived before.
    Duplicate,
    /// The TSN is too far ahead to be acknowledged, or too many ranges are tracked.
    OutOfReach,
}

/// The cumulative TSN, the ranges beyond the first gap, and duplicates.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// The highest TSN without a gap before it.
    cumulative: u64,
    /// Ranges beyond the first gap: ascending, apart from each other and from `cumulative`.
    runs: VecDeque<Run>,
    /// Duplicates that the next SACK reports.
    duplicates: Vec<Tsn>,
    /// Duplicates since the beginning.
    duplicates_total: u64,
}

/// Consecutive TSNs that have arrived, both ends included.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u64,
    last: u64,
}

impl Arrivals {
    /// Returns a tracker for which everything up to `cumulative` has arrived.
    pub(super) const fn new(cumulative: u64) -> Self {
        Self {
            cumulative,
            runs: VecDeque::new(),
            duplicates: Vec::new(),
            duplicates_total: 0,
        }
    }

    /// Returns the highest TSN without a gap before it.
    pub(super) const fn cumulative(&self) -> u64 {
        self.cumulative
    }

    /// Returns the highest TSN that has arrived.
    pub(super) fn highest(&self) -> u64 {
        self.runs.back().map_or(self.cumulative, |run| run.last)
    }

    /// Whether a TSN is missing below the highest.
    pub(super) fn has_holes(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Returns the number of duplicates since the beginning.
    pub(super) const fn duplicates_total(&self) -> u64 {
        self.duplicates_total
    }

    /// Returns the status of `tsn`, without recording it.
    pub(super) fn judge(&self, tsn: u64) -> Arrival {
        if tsn == self.cumulative + 1 {
            return Arrival::Next;
        }
        if tsn <= self.cumulative {
            return Arrival::Duplicate;
        }
        if tsn > self.cumulative + GAP_OFFSET_MAX {
            return Arrival::OutOfReach;
        }
        let place = self.runs.partition_point(|run| run.last < tsn);
        match self.runs.get(place) {
            Some(run) if run.first <= tsn => Arrival::Duplicate,
            _ if self.runs.len() >= RUNS_MAX => Arrival::OutOfReach,
            _ => Arrival::Apart,
        }
    }

    /// Records a duplicate, to be reported in the next SACK.
    pub(super) fn note_duplicate(&mut self, tsn: u64) {
        self.duplicates_total += 1;
        if self.duplicates.len() < DUPLICATES_MAX {
            self.duplicates.push(Tsn(narrow(tsn)));
        }
    }

    /// Records the arrival of `tsn`, whose status must be new.
    pub(super) fn insert(&mut self, tsn: u64) {
        if tsn == self.cumulative + 1 {
            self.cumulative = tsn;
            self.swallow();
            return;
        }
        let place = self.runs.partition_point(|run| run.last < tsn);
        let joins_before = place > 0 && self.runs[place - 1].last + 1 == tsn;
        let joins_after = self.runs.get(place).is_some_and(|run| run.first == tsn + 1);
        match (joins_before, joins_after) {
            (true, true) => {
                let end = self.runs[place].last;
                self.runs.remove(place);
                self.runs[place - 1].last = end;
            }
            (true, false) => self.runs[place - 1].last = tsn,
            (false, true) => self.runs[place].first = tsn,
            (false, false) => self.runs.insert(
                place,
                Run {
                    first: tsn,
                    last: tsn,
                },
            ),
        }
    }

    /// Counts everything up to `tsn` as arrived (FORWARD TSN).
    pub(super) fn skip_to(&mut self, tsn: u64) {
        self.cumulative = self.cumulative.max(tsn);
        self.swallow();
    }

    /// Moves the cumulative TSN over the ranges that it has reached.
    fn swallow(&mut self) {
        while let Some(run) = self.runs.front().copied() {
            if run.first > self.cumulative + 1 {
                break;
            }
            self.cumulative = self.cumulative.max(run.last);
            self.runs.pop_front();
        }
    }

    /// Returns up to `count` gap ack blocks, ascending. If there are more, half are the
    /// lowest, where gaps are being filled, and half the highest, where new data comes in.
    /// A sender that remembers earlier SACKs thereby learns of everything although no SACK
    /// holds it all, and does not mistake data that was reported late for a burst.
    pub(super) fn gaps(&self, count: usize) -> impl Iterator<Item = GapBlock> + '_ {
        let offset = |tsn: u64| u16::try_from(tsn - self.cumulative).unwrap_or(u16::MAX);
        let low = if self.runs.len() > count {
            count / 2
        } else {
            self.runs.len()
        };
        let high = self.runs.len() - (count - low).min(self.runs.len() - low);
        let told = self.runs.range(..low).chain(self.runs.range(high..));
        told.map(move |run| GapBlock {
            start: offset(run.first),
            end: offset(run.last),
        })
    }

    /// Returns the duplicates that the next SACK reports.
    pub(super) fn duplicates(&self) -> &[Tsn] {
        &self.duplicates
    }

    /// Forgets the duplicates that were reported.
    pub(super) fn clear_duplicates(&mut self) {
        self.duplicates.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn runs_are_what_a_set_would_say(order in prop::collection::vec(101u64..180, 1..120)) {
            let mut arrivals = Arrivals::new(100);
            let mut set = BTreeSet::new();
            for tsn in order {
                match arrivals.judge(tsn) {
                    Arrival::Duplicate => prop_assert!(set.contains(&tsn)),
                    Arrival::OutOfReach => prop_assert!(false, "near enough"),
                    Arrival::Next | Arrival::Apart => {
                        prop_assert!(set.insert(tsn));
                        arrivals.insert(tsn);
                    }
                }
                let cumulative = (101..).find(|tsn| !set.contains(tsn)).map_or(100, |hole| hole - 1);
                prop_assert_eq!(arrivals.cumulative(), cumulative);
                let beyond: BTreeSet<u64> = arrivals
                    .gaps(100)
                    .flat_map(|gap| gap.start..=gap.end)
                    .map(|offset| cumulative + u64::from(offset))
                    .collect();
                let expected: BTreeSet<u64> = set.range(cumulative + 1..).copied().collect();
                prop_assert_eq!(beyond, expected);
            }
        }
    }

    #[test]
    fn of_too_many_blocks_the_ends_are_told() {
        let mut arrivals = Arrivals::new(100);
        for run in 0..20 {
            arrivals.insert(102 + 2 * run);
        }
        let told: Vec<u16> = arrivals.gaps(5).map(|gap| gap.start).collect();
        assert_eq!(told, [2, 4, 36, 38, 40]);
    }

    #[test]
    fn what_no_sack_could_tell_of_is_refused() {
        let mut arrivals = Arrivals::new(100);
        assert_eq!(arrivals.judge(100 + 65_535), Arrival::Apart);
        assert_eq!(arrivals.judge(101 + 65_535), Arrival::OutOfReach);
        for run in 0..RUNS_MAX as u64 {
            arrivals.insert(102 + 2 * run);
        }
        assert_eq!(
            arrivals.judge(102 + 2 * RUNS_MAX as u64),
            Arrival::OutOfReach
        );
        assert_eq!(arrivals.judge(101), Arrival::Next);
        arrivals.skip_to(200);
        assert_eq!(arrivals.cumulative(), 200);
    }
}
