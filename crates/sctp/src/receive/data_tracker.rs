//! Tracks which TSNs have arrived: the cumulative TSN, the ranges beyond the first gap, and
//! duplicates.

use std::collections::BTreeMap;

use crate::chunk::GapBlock;
use crate::sequence::{Tsn, narrow};

/// Most ranges beyond the first gap that are tracked. When a sender discovers the end of a
/// long path at twice its rate, every second packet of a round trip is lost; data that is
/// refused for want of ranges would be retransmitted for nothing.
const RANGES_MAX: usize = 16_384;
/// Most duplicates that one SACK reports.
const DUPLICATES_MAX: usize = 32;
/// Largest offset of a gap ack block from the cumulative TSN (16 bits).
const GAP_OFFSET_MAX: u64 = 65_535;

/// Status of a TSN that has just come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TsnStatus {
    /// The TSN directly follows the cumulative TSN.
    Next,
    /// The TSN is new and lies beyond a gap, or within one.
    BeyondGap,
    /// The TSN has arrived before.
    Duplicate,
    /// The TSN is too far ahead to be acknowledged, or too many ranges are tracked.
    OutOfRange,
}

/// The cumulative TSN, the ranges beyond the first gap, and duplicates.
#[derive(Debug)]
pub(super) struct DataTracker {
    /// The highest TSN without a gap before it.
    cumulative: u64,
    /// Ranges beyond the first gap, the last TSN of each by its first, apart from each other and
    /// from `cumulative`. The peer decides in which order they come: each costs the same.
    ranges: BTreeMap<u64, u64>,
    /// Duplicates that the next SACK reports.
    duplicates: Vec<Tsn>,
    /// Duplicates since the beginning.
    duplicates_total: u64,
}

impl DataTracker {
    /// Returns a tracker for which everything up to `cumulative` has arrived.
    pub(super) const fn new(cumulative: u64) -> Self {
        Self {
            cumulative,
            ranges: BTreeMap::new(),
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
        let last = self.ranges.last_key_value();
        last.map_or(self.cumulative, |(_, last)| *last)
    }

    /// Whether a TSN is missing below the highest.
    pub(super) fn has_gaps(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Returns the number of duplicates since the beginning.
    pub(super) const fn duplicates_total(&self) -> u64 {
        self.duplicates_total
    }

    /// Returns the status of `tsn`, without recording it.
    pub(super) fn status(&self, tsn: u64) -> TsnStatus {
        if tsn == self.cumulative + 1 {
            return TsnStatus::Next;
        }
        if tsn <= self.cumulative {
            return TsnStatus::Duplicate;
        }
        if tsn > self.cumulative + GAP_OFFSET_MAX {
            return TsnStatus::OutOfRange;
        }
        match self.ranges.range(..=tsn).next_back() {
            Some((_, last)) if *last >= tsn => TsnStatus::Duplicate,
            _ if self.ranges.len() >= RANGES_MAX => TsnStatus::OutOfRange,
            _ => TsnStatus::BeyondGap,
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
            self.advance_cumulative();
            return;
        }
        let last = self.ranges.remove(&(tsn + 1)).unwrap_or(tsn);
        match self.ranges.range_mut(..tsn).next_back() {
            Some((_, before)) if *before + 1 == tsn => *before = last,
            _ => {
                self.ranges.insert(tsn, last);
            }
        }
    }

    /// Counts everything up to `tsn` as arrived (FORWARD TSN).
    pub(super) fn skip_to(&mut self, tsn: u64) {
        self.cumulative = self.cumulative.max(tsn);
        self.advance_cumulative();
    }

    /// Moves the cumulative TSN over the ranges that it has reached.
    fn advance_cumulative(&mut self) {
        while let Some(range) = self.ranges.first_entry()
            && *range.key() <= self.cumulative + 1
        {
            self.cumulative = self.cumulative.max(range.remove());
        }
    }

    /// Returns up to `count` gap ack blocks, ascending. If there are more, half are the
    /// lowest, where gaps are being filled, and half the highest, where new data comes in.
    /// A sender that remembers earlier SACKs thereby learns of everything although no SACK
    /// holds it all, and does not mistake data that was reported late for a burst.
    pub(super) fn gaps(&self, count: usize) -> impl Iterator<Item = GapBlock> + '_ {
        let offset = |tsn: u64| u16::try_from(tsn - self.cumulative).unwrap_or(u16::MAX);
        let low = if self.ranges.len() > count {
            count / 2
        } else {
            self.ranges.len()
        };
        let high = (count - low).min(self.ranges.len() - low);
        let mut highest: Vec<_> = self.ranges.iter().rev().take(high).collect();
        highest.reverse();
        let reported = self.ranges.iter().take(low).chain(highest);
        reported.map(move |(first, last)| GapBlock {
            start: offset(*first),
            end: offset(*last),
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
            let mut arrivals = DataTracker::new(100);
            let mut set = BTreeSet::new();
            for tsn in order {
                match arrivals.status(tsn) {
                    TsnStatus::Duplicate => prop_assert!(set.contains(&tsn)),
                    TsnStatus::OutOfRange => prop_assert!(false, "near enough"),
                    TsnStatus::Next | TsnStatus::BeyondGap => {
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
    fn duplicates_are_all_counted_and_the_first_are_told() {
        let mut arrivals = DataTracker::new(100);
        let more = DUPLICATES_MAX as u64 + 3;
        for tsn in 0..more {
            arrivals.note_duplicate(50 + tsn);
        }
        assert_eq!(arrivals.duplicates_total(), more);
        assert_eq!(arrivals.duplicates().len(), DUPLICATES_MAX);
        assert_eq!(arrivals.duplicates()[..2], [Tsn(50), Tsn(51)]);
        arrivals.clear_duplicates();
        assert_eq!(arrivals.duplicates(), []);
        assert_eq!(arrivals.duplicates_total(), more);
    }

    #[test]
    fn of_too_many_blocks_the_ends_are_told() {
        let mut arrivals = DataTracker::new(100);
        for range in 0..20 {
            arrivals.insert(102 + 2 * range);
        }
        let reported: Vec<u16> = arrivals.gaps(5).map(|gap| gap.start).collect();
        assert_eq!(reported, [2, 4, 36, 38, 40]);
    }

    #[test]
    fn what_no_sack_could_tell_of_is_refused() {
        let mut arrivals = DataTracker::new(100);
        assert_eq!(arrivals.status(100 + 65_535), TsnStatus::BeyondGap);
        assert_eq!(arrivals.status(101 + 65_535), TsnStatus::OutOfRange);
        for range in 0..RANGES_MAX as u64 {
            arrivals.insert(102 + 2 * range);
        }
        assert_eq!(
            arrivals.status(102 + 2 * RANGES_MAX as u64),
            TsnStatus::OutOfRange
        );
        assert_eq!(arrivals.status(101), TsnStatus::Next);
        arrivals.skip_to(200);
        assert_eq!(arrivals.cumulative(), 200);
    }
}
