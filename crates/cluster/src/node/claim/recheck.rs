//! Reading the own records again, because a store may lose or roll back what it acknowledged.
//!
//! Each record is read every 30 s, at most [`READS_PER_SECOND`] of them in a second, so that
//! traffic does not grow with the number of streams. A store that lost its newest writes lost the
//! newest record of this node first: that one is read every 10 s however many there are. When it
//! is gone, or the engine was away, all are read at a higher rate.

use std::time::{Duration, Instant};

use super::super::directory::{Found, Known};
use super::super::{Node, Purpose};
use super::{Holding, Phase};
use crate::engine::{Answered, Call, CallError, Version};
use crate::name::{Key, StreamName};
use crate::record::{RECORD_VERSION, StreamRecord};

/// How often a record is read again while their number allows it.
const EVERY: Duration = Duration::from_secs(30);

/// How often the newest record is read again.
const NEWEST_EVERY: Duration = Duration::from_secs(10);

/// Most records that are read again in a second.
const READS_PER_SECOND: usize = 2;

/// Most records that are read again in a second when the store may have lost something: 50,000
/// take 25 s.
const READS_PER_SECOND_IN_DOUBT: usize = 2_000;

/// How far epochs of one process may run ahead of the clock and of what it knows, in ms, so that none
/// is drawn twice. A clock that leaps back by more is followed.
const AHEAD_MS: u64 = 60_000;

impl Node {
    /// Sets when a record is read again.
    pub(super) fn check_at(&mut self, name: &StreamName, at: Instant) {
        if let Some(holding) = self.claims.held.get_mut(name) {
            if let Some(before) = holding.check_at.replace(at) {
                self.claims.checks.remove(&(before, name.clone()));
            }
            self.claims.checks.insert((at, name.clone()));
        }
    }

    pub(super) fn jitter_of_checks(&mut self) -> Duration {
        self.jitter(Duration::ZERO, EVERY / 6)
    }

    /// Reads some records again; called once a second.
    pub(in crate::node) fn recheck_claims(&mut self) {
        if !self.presence.is_connected {
            return;
        }
        let now = self.now.at;
        let newest = self.claims.newest.clone();
        let is_due = self.claims.newest_due.is_none_or(|at| at <= now);
        if let Some(newest) = newest.filter(|name| is_due && self.claims.is_serving(name)) {
            self.claims.newest_due = Some(now + NEWEST_EVERY);
            self.check_at(&newest, now - EVERY);
        }
        let most = match self.claims.is_suspicious {
            true => READS_PER_SECOND_IN_DOUBT,
            false => READS_PER_SECOND,
        };
        for _ in 0..most {
            let first = self.claims.checks.first().cloned();
            let Some((_, name)) = first.filter(|(at, _)| *at <= now) else {
                self.claims.is_suspicious = false;
                break;
            };
            self.check_at(&name, now + EVERY);
            let key = Key::Stream(name.clone());
            self.call(Purpose::Recheck(name), Call::Get { key });
        }
    }

    pub(in crate::node) fn on_rechecked(
        &mut self,
        name: &StreamName,
        result: Result<Answered, CallError>,
    ) {
        let is_owned = |node: &Self| {
            let holding = node.claims.held.get(name);
            holding.is_some_and(|it| matches!(it.phase, Phase::Owned))
        };
        match result {
            Ok(Answered::Got(entry)) if is_owned(self) => {
                let found = Found::new(entry.as_ref());
                self.owned_learns(name, &found);
            }
            Ok(_) => {}
            Err(_) => self.check_at_soon(name),
        }
    }

    fn check_at_soon(&mut self, name: &StreamName) {
        let at = self.now.at + self.jitter(Duration::from_secs(2), Duration::from_secs(5));
        if self.claims.is_serving(name) {
            self.check_at(name, at);
        }
    }

    /// Compares what stands under an owned name with what this node wrote.
    pub(super) fn owned_learns(&mut self, name: &StreamName, found: &Found) {
        let inc = self.incarnation();
        let Some(holding) = self.claims.held.get_mut(name) else {
            return;
        };
        let mine = holding.fence(inc);
        match found {
            Found::Record(record, version) if record.fence() == mine => {
                holding.version = Some(*version);
            }
            Found::Record(record, _) if record.fence() > mine && record.inc != inc => {
                let record = record.clone();
                self.fence(name, &record);
            }
            // Gone, damaged, older, or of an earlier publisher of this process: written back. The same
            // may have happened to every other record.
            Found::Record(_, version) | Found::Damaged(version) => {
                let version = *version;
                self.doubt_all();
                self.write_claim(name, Some(version));
            }
            Found::Nothing => {
                self.doubt_all();
                self.write_claim(name, None);
            }
            Found::Newer => {}
        }
    }

    fn doubt_all(&mut self) {
        if self.claims.is_suspicious {
            return;
        }
        self.claims.is_suspicious = true;
        let checks = std::mem::take(&mut self.claims.checks);
        for (_, name) in checks {
            let at = self.now.at + self.jitter(Duration::ZERO, Duration::from_secs(2));
            if let Some(holding) = self.claims.held.get_mut(&name) {
                holding.check_at = Some(at);
                self.claims.checks.insert((at, name));
            }
        }
    }

    /// Returns the record that says what this node holds.
    pub(super) fn record_of(&self, holding: &Holding) -> StreamRecord {
        StreamRecord {
            v: RECORD_VERSION,
            node: self.config.node.clone(),
            region: self.config.region.clone(),
            inc: self.config.record.inc,
            epoch: holding.epoch,
            kind: holding.kind,
            state: holding.media.state,
            tracks: holding.media.tracks.clone(),
            bps: holding.media.bps,
        }
    }

    /// Keeps the record that this node wrote where reads and notices would find it.
    pub(super) fn note_own(&mut self, name: &StreamName, version: Version) {
        let Some(holding) = self.claims.held.get(name) else {
            return;
        };
        let record = self.record_of(holding);
        // The notice of this write may be lost, and the next epoch must be higher whatever clocks say.
        if let Some(relay) = self.relays.get_mut(name)
            && record.fence() > relay.highest
        {
            (relay.highest, relay.highest_at) = (record.fence(), Some(self.now.at));
        }
        let known = Known {
            record: Found::Record(record, version),
            read_at: self.now.at,
        };
        self.directory.set_stream(name, known);
    }

    /// The highest epoch that this node knows under a name.
    pub(super) fn highest_epoch(&self, name: &StreamName) -> u64 {
        let known = self.known(name).map_or(0, |it| it.epoch);
        let pulled = self.relays.get(name).map_or(0, |it| it.highest.epoch);
        known.max(pulled)
    }

    /// Draws an epoch above `previous`: the Unix time, or one more than the last one of this process.
    ///
    /// A name that was released would otherwise get its epoch again: within the same ms, or whenever
    /// this clock is behind that of a node whose old epoch is all that is known.
    pub(super) fn draw_epoch(&mut self, previous: u64) -> u64 {
        let last = self.claims.last_epoch;
        let by_clock = previous.saturating_add(1).max(self.now.unix_ms);
        let was_drawn = by_clock <= last && last - by_clock < AHEAD_MS;
        let epoch = if was_drawn { last + 1 } else { by_clock };
        self.claims.last_epoch = last.max(epoch);
        epoch
    }
}
