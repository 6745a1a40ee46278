//! What every process decided, and whether one order of all decisions explains it.
//!
//! For each name, claims are operations on a lock: *acquire* returns an epoch, *refuse* names
//! another holder. The history is linearisable when acquisitions can be ordered by their epochs
//! without contradicting real time, no epoch is given twice, and each refusal overlaps a time at
//! which the named process held the name. The order is known from the epochs, so checking takes
//! one pass instead of a search (Gibbons and Korach, 1997, show the general problem is
//! NP-complete).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use glassline_cluster::name::StreamName;
use glassline_cluster::record::Fence;
use glassline_cluster::{Policy, PublisherId};

/// A publisher must get its decision within this time, if its process is not stopped.
const DECIDE_WITHIN: Duration = Duration::from_millis(1_500);

/// A refusal may name a holder that left so long ago: the reply was under way.
const REPLY_UNDER_WAY: Duration = Duration::from_secs(2);

/// After this time a node believes a lower record.
const HIGHEST_FOR: Duration = Duration::from_secs(40);

/// All decisions of a run.
#[derive(Debug, Default)]
pub struct History {
    attempts: BTreeMap<PublisherId, Attempt>,
    /// Sources that were dialled: name, process, epoch, begin and end.
    dials: Vec<Dial>,
    shown: BTreeMap<(u64, StreamName), (Fence, Instant)>,
    /// Pulls that began with a lower fence than the one that had ended.
    older_after_newer: Vec<String>,
    /// Breaches of rules while the simulation ran.
    pub broken: Vec<String>,
    /// Drains that came to their end.
    pub drained: u64,
    superseded: u64,
    begin: Option<Instant>,
}

#[derive(Debug)]
struct Attempt {
    name: StreamName,
    inc: u64,
    policy: Policy,
    invoked: Instant,
    decided: Option<(Instant, Decision)>,
    /// When the claim was written, with its epoch.
    announced: Option<(Instant, u64)>,
    ended: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Admitted,
    Provisional,
    Refused(Option<u64>),
}

#[derive(Debug)]
struct Dial {
    name: StreamName,
    inc: u64,
    begin: Instant,
    end: Option<Instant>,
}

/// The excuses that the faults of a run allow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Excuses {
    /// The store lost or rolled back what it had acknowledged.
    pub store_lost: bool,
    /// Wall clocks leapt.
    pub clocks_leapt: bool,
    /// Processes were stopped or the engine was cut off: decisions may rest on old records.
    pub was_disturbed: bool,
}

impl History {
    pub(super) fn break_rule(&mut self, now: Instant, seen: &str) {
        let begin = *self.begin.get_or_insert(now);
        let at = now.saturating_duration_since(begin).as_secs_f64();
        if self.broken.len() < 20 {
            self.broken.push(format!("{at:.3} s: {seen}"));
        }
    }

    pub(super) fn publish_begins(
        &mut self,
        now: Instant,
        id: PublisherId,
        inc: u64,
        name: &StreamName,
        policy: Policy,
    ) {
        self.begin.get_or_insert(now);
        let attempt = Attempt {
            name: name.clone(),
            inc,
            policy,
            invoked: now,
            decided: None,
            announced: None,
            ended: None,
        };
        self.attempts.insert(id, attempt);
    }

    pub(super) fn admitted(
        &mut self,
        now: Instant,
        id: PublisherId,
        epoch: u64,
        provisional: bool,
    ) {
        if let Some(attempt) = self.attempts.get_mut(&id) {
            let decision = match provisional {
                true => Decision::Provisional,
                false => Decision::Admitted,
            };
            attempt.decided = Some((now, decision));
            if !provisional {
                attempt.announced = Some((now, epoch));
            }
        }
    }

    pub(super) fn announced(&mut self, now: Instant, inc: u64, name: &StreamName, epoch: u64) {
        let mut attempts = self.attempts.values_mut();
        let is_this = |it: &&mut Attempt| {
            it.inc == inc && it.name == *name && it.ended.is_none() && it.announced.is_none()
        };
        if let Some(attempt) = attempts.find(is_this) {
            attempt.announced = Some((now, epoch));
        }
    }

    pub(super) fn refused(&mut self, now: Instant, id: PublisherId, by: Option<u64>) {
        if let Some(attempt) = self.attempts.get_mut(&id) {
            attempt.decided = Some((now, Decision::Refused(by)));
            attempt.ended = Some(now);
        }
    }

    pub(super) fn publish_ends(&mut self, now: Instant, id: PublisherId) {
        if let Some(attempt) = self.attempts.get_mut(&id) {
            attempt.ended.get_or_insert(now);
        }
    }

    pub(super) fn superseded(&mut self, _name: &StreamName) {
        self.superseded += 1;
    }

    pub(super) fn process_ends(&mut self, now: Instant, inc: u64) {
        for attempt in self.attempts.values_mut().filter(|it| it.inc == inc) {
            attempt.ended.get_or_insert(now);
        }
        for dial in self.dials.iter_mut().filter(|it| it.inc == inc) {
            dial.end.get_or_insert(now);
        }
    }

    pub(super) fn dialled(&mut self, now: Instant, inc: u64, name: &StreamName, _epoch: u64) {
        self.begin.get_or_insert(now);
        self.dials.push(Dial {
            name: name.clone(),
            inc,
            begin: now,
            end: None,
        });
    }

    pub(super) fn hung_up(&mut self, now: Instant, inc: u64, name: &StreamName) {
        let mut dials = self.dials.iter_mut();
        let is_this = |it: &&mut Dial| it.inc == inc && it.name == *name && it.end.is_none();
        if let Some(dial) = dials.find(is_this) {
            dial.end = Some(now);
        }
    }

    /// A pull began to feed a hub: its fence must not be below the one before. After an
    /// interruption it may be: an owner that was cut off writes its record back when the one that
    /// took over has released the name.
    pub(super) fn shown(
        &mut self,
        now: Instant,
        inc: u64,
        name: &StreamName,
        fence: Fence,
        is_replaced: bool,
    ) {
        let before = self.shown.insert((inc, name.clone()), (fence, now));
        if let Some((before, at)) = before
            && fence < before
            && now - at < HIGHEST_FOR
        {
            let seen = format!("{name}: {fence:?} is shown after {before:?}");
            if is_replaced {
                self.break_rule(now, &seen);
            } else {
                self.older_after_newer.push(seen);
            }
        }
    }

    /// Returns how many publishers were admitted with a claim, provisionally, and refused.
    pub fn counts(&self) -> (usize, usize, usize) {
        let of = |wanted: fn(Decision) -> bool| {
            let decided = self.attempts.values().filter_map(|it| it.decided);
            decided.filter(|(_, it)| wanted(*it)).count()
        };
        (
            of(|it| it == Decision::Admitted),
            of(|it| it == Decision::Provisional),
            of(|it| matches!(it, Decision::Refused(_))),
        )
    }

    /// Returns how many publishers were sent away because another node holds their name.
    pub const fn superseded_count(&self) -> u64 {
        self.superseded
    }

    /// Returns the longest time that one source was dialled by two processes.
    pub fn longest_double_dial(&self, end: Instant) -> Duration {
        let mut longest = Duration::ZERO;
        for (index, one) in self.dials.iter().enumerate() {
            let others = self.dials.iter().skip(index + 1);
            for other in others.filter(|it| it.name == one.name && it.inc != one.inc) {
                let begin = one.begin.max(other.begin);
                let until = one.end.unwrap_or(end).min(other.end.unwrap_or(end));
                longest = longest.max(until.saturating_duration_since(begin));
            }
        }
        longest
    }

    /// Checks all rules that hold over the whole run, and returns what broke them.
    pub fn contradictions(&self, excuses: Excuses) -> Vec<String> {
        let mut broken = self.broken.clone();
        if !excuses.store_lost && !excuses.clocks_leapt && !excuses.was_disturbed {
            broken.extend(self.older_after_newer.iter().cloned());
        }
        let mut names: BTreeMap<&StreamName, Vec<&Attempt>> = BTreeMap::new();
        for attempt in self.attempts.values() {
            names.entry(&attempt.name).or_default().push(attempt);
        }
        for (name, attempts) in names {
            let mut claims: Vec<(&Attempt, u64)> = attempts
                .iter()
                .filter_map(|it| Some((*it, it.announced?.1)))
                .collect();
            claims.sort_by_key(|(it, epoch)| (*epoch, it.inc));
            if !excuses.store_lost {
                broken.extend(order_of(name, &claims, excuses));
            }
            for pair in claims.windows(2) {
                if pair[0].1 == pair[1].1 && pair[0].0.inc == pair[1].0.inc {
                    let (one, other) = (pair[0].0, pair[1].0);
                    let epoch = pair[0].1;
                    broken.push(format!(
                        "{name}: epoch {epoch} was given twice: {one:?}, {other:?}"
                    ));
                }
            }
            for attempt in &attempts {
                broken.extend(refusal_of(name, attempt, &attempts, excuses));
                broken.extend(decision_time_of(name, attempt, excuses));
            }
        }
        broken
    }
}

/// Acquisitions in the order of their epochs must not contradict real time.
fn order_of(name: &StreamName, claims: &[(&Attempt, u64)], excuses: Excuses) -> Vec<String> {
    let mut broken = Vec::new();
    for pair in claims.windows(2) {
        let ((one, one_epoch), (other, other_epoch)) = (pair[0], pair[1]);
        if one_epoch == other_epoch && !excuses.clocks_leapt {
            broken.push(format!("{name}: two claims have epoch {one_epoch}"));
        }
        let Some((written, _)) = other.announced else {
            continue;
        };
        // After a release, only wall clocks carry the epoch on.
        if written < one.invoked && !excuses.clocks_leapt {
            broken.push(format!(
                "{name}: epoch {other_epoch} was complete before epoch {one_epoch} was wanted"
            ));
        }
    }
    broken
}

/// A refusal names a process that held the name while the publisher waited.
fn refusal_of(
    name: &StreamName,
    attempt: &Attempt,
    all: &[&Attempt],
    excuses: Excuses,
) -> Option<String> {
    let Some((at, Decision::Refused(Some(by)))) = attempt.decided else {
        return None;
    };
    if excuses.was_disturbed || excuses.store_lost {
        return None;
    }
    let is_holder = |other: &&&Attempt| {
        let from = other
            .decided
            .map_or(other.invoked, |(at, _)| at.min(other.invoked));
        let is_open = other
            .ended
            .is_none_or(|end| end + REPLY_UNDER_WAY >= attempt.invoked);
        other.inc == by && from <= at && is_open && !std::ptr::eq(**other, attempt)
    };
    let is_explained = all.iter().any(|it| is_holder(&it));
    (!is_explained).then(|| format!("{name}: refused for process {by}, which had no publisher"))
}

fn decision_time_of(name: &StreamName, attempt: &Attempt, excuses: Excuses) -> Option<String> {
    let (at, _) = attempt.decided?;
    let time = at - attempt.invoked;
    let is_late = time > DECIDE_WITHIN && !excuses.was_disturbed;
    is_late.then(|| {
        let policy = attempt.policy;
        format!("{name}: a publisher ({policy:?}) waited {time:?} for its decision")
    })
}
