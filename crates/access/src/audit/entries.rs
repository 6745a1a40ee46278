//! The entries that are kept in memory.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Change, RecordedChange};

/// Most entries of each kind that are kept; some 300 kB.
const ENTRIES_MAX: usize = 1_000;

/// Most entries of one operator and action within a minute. What differs beyond them is one entry.
const DIFFERENT_MAX: usize = 16;

/// Target of that entry.
const OTHERS: &str = "others of this minute";

/// Time within which changes are counted.
const MINUTE: u64 = 60;

/// The newest entries, those of each kind apart.
#[derive(Debug, Default)]
pub(super) struct Entries {
    /// Number of the last entry.
    last: u64,
    users: VecDeque<RecordedChange>,
    tokens: VecDeque<RecordedChange>,
    sources: VecDeque<RecordedChange>,
    /// All other changes, and refused ones.
    others: VecDeque<RecordedChange>,
    /// Minute up to which repetitions were taken.
    settled: u64,
}

/// The subject of an entry, which decides how the entry is kept.
enum Kind {
    User,
    Token,
    Source,
    Other,
}

impl Kind {
    fn of(change: &Change) -> Self {
        // A refused change has changed nothing, and anybody with a role can ask for one.
        if change.status >= 400 {
            return Self::Other;
        }
        match change.action {
            "putUser" | "deleteUser" => Self::User,
            "putToken" | "deleteToken" => Self::Token,
            "putSource" | "deleteSource" => Self::Source,
            _ => Self::Other,
        }
    }
}

impl Entries {
    /// Creates the entries of a server whose last entry before had the number `last`.
    pub(super) fn after(last: u64) -> Self {
        Self {
            last,
            ..Self::default()
        }
    }

    /// Counts a change that was asked for before within the minute, or that is one of many. Returns
    /// `false` for a change that needs an entry of its own.
    pub(super) fn count_again(&mut self, change: &Change, at: SystemTime) -> bool {
        if !matches!(Kind::of(change), Kind::Other) {
            return false;
        }
        let this = minute(at);
        let (mut different, mut rest) = (0, None);
        let of_minute = self
            .others
            .iter_mut()
            .rev()
            .take_while(|it| minute(it.at) == this);
        for entry in of_minute {
            if entry.change == *change {
                entry.count += 1;
                return true;
            }
            if (&entry.change.who, entry.change.action) == (&change.who, change.action) {
                different += 1;
                if entry.change.target == OTHERS {
                    rest = Some(entry);
                }
            }
        }
        match rest {
            Some(rest) if different > DIFFERENT_MAX => {
                rest.count += 1;
                true
            }
            _ => false,
        }
    }

    /// Adds an entry for a change, and returns it.
    pub(super) fn add(&mut self, mut change: Change, at: SystemTime) -> RecordedChange {
        let kind = Kind::of(&change);
        if matches!(kind, Kind::Other) && self.different(&change, at) >= DIFFERENT_MAX {
            OTHERS.clone_into(&mut change.target);
            change.reason = None;
        }
        self.last += 1;
        let entry = RecordedChange {
            number: self.last,
            at,
            change,
            count: 1,
        };
        let kept = match kind {
            Kind::User => &mut self.users,
            Kind::Token => &mut self.tokens,
            Kind::Source => &mut self.sources,
            Kind::Other => &mut self.others,
        };
        if kept.len() >= ENTRIES_MAX {
            let leaving = match kind {
                Kind::Other => 0,
                _ => repeated(kept),
            };
            kept.remove(leaving);
        }
        kept.push_back(entry.clone());
        entry
    }

    /// Takes the entries of minutes that are over by `now` whose changes were repeated, each once.
    pub(super) fn take_repeated(&mut self, now: Option<SystemTime>) -> Vec<RecordedChange> {
        let (from, until) = (self.settled, now.map_or(u64::MAX, minute));
        self.settled = until;
        let is_due = |it: &&RecordedChange| it.count > 1 && (from..until).contains(&minute(it.at));
        self.others.iter().filter(is_due).cloned().collect()
    }

    /// Returns all entries, the newest first.
    pub(super) fn newest(&self) -> Vec<RecordedChange> {
        let evidence = self.users.iter().chain(&self.tokens).chain(&self.sources);
        let mut all: Vec<_> = evidence.chain(&self.others).cloned().collect();
        all.sort_by_key(|it| std::cmp::Reverse(it.number));
        all
    }

    /// Returns the number of entries of the same operator and action within the minute.
    fn different(&self, change: &Change, at: SystemTime) -> usize {
        let this = minute(at);
        let of_minute = self
            .others
            .iter()
            .rev()
            .take_while(|it| minute(it.at) == this);
        let is_same =
            |it: &&RecordedChange| it.change.who == change.who && it.change.action == change.action;
        of_minute.filter(is_same).count()
    }
}

/// Returns the index of the oldest entry that a newer one about the same target replaces; 0 if each
/// target has one entry. Whoever changes one thing again and again pushes out only what they did.
fn repeated(kept: &VecDeque<RecordedChange>) -> usize {
    let mut seen = HashSet::new();
    let newest_first = kept.iter().enumerate().rev();
    let older = newest_first.filter(|(_, it)| !seen.insert((it.change.action, &it.change.target)));
    older.last().map_or(0, |(index, _)| index)
}

fn minute(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs()
        / MINUTE
}

#[cfg(test)]
mod tests {
    use super::super::tests::change;
    use super::*;

    fn at(second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(second)
    }

    fn note(entries: &mut Entries, change: &Change, at: SystemTime) {
        if !entries.count_again(change, at) {
            entries.add(change.clone(), at);
        }
    }

    #[test]
    fn evidence_is_pushed_out_neither_by_other_kinds_nor_by_changes_of_one_thing() {
        let mut entries = Entries::default();
        note(
            &mut entries,
            &change("putToken", "PUT /api/v1/tokens/EVIL"),
            at(0),
        );
        for number in 0..3_000_u64 {
            note(
                &mut entries,
                &change("putSource", &format!("PUT /{number}")),
                at(number),
            );
            note(
                &mut entries,
                &change("putToken", "PUT /api/v1/tokens/own"),
                at(number),
            );
            let mut refused = change("putToken", &format!("PUT /{number}"));
            refused.status = 403;
            note(&mut entries, &refused, at(number));
        }
        let newest = entries.newest();
        let refused = 50 * (DIFFERENT_MAX + 1);
        assert_eq!(newest.len(), 2 * ENTRIES_MAX + refused);
        assert!(newest.iter().any(|it| it.change.target.contains("EVIL")));
    }

    #[test]
    fn what_is_no_evidence_is_counted_by_operator_action_and_minute() {
        let mut entries = Entries::default();
        for number in 0..1_000_u64 {
            note(
                &mut entries,
                &change("kick", &format!("DELETE /{number}")),
                at(0),
            );
            note(
                &mut entries,
                &change("requestKeyframe", "POST /a"),
                at(number % 60),
            );
        }
        let newest = entries.newest();
        assert_eq!(newest.len(), DIFFERENT_MAX + 1 + 1, "{newest:?}");
        assert_eq!(newest.iter().map(|it| it.count).sum::<u64>(), 2_000);
        assert_eq!(entries.take_repeated(Some(at(59))).len(), 0, "not over");
        let mut counts: Vec<_> = entries
            .take_repeated(Some(at(60)))
            .iter()
            .map(|it| it.count)
            .collect();
        counts.sort_unstable();
        assert_eq!(counts, [1_000 - DIFFERENT_MAX as u64, 1_000]);
        assert_eq!(entries.take_repeated(Some(at(61))).len(), 0, "told once");
        note(&mut entries, &change("requestKeyframe", "POST /a"), at(60));
        assert_eq!(entries.newest()[0].count, 1, "another minute");
    }
}
