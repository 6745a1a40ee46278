//! The node among the others: its connection, its beats, its own record, deaths, and drain.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Node, Purpose, Timer};
use crate::config::Moment;
use crate::engine::{Answered, Call, CallError, Version};
use crate::event::{Event, Outcast, ProbeId};
use crate::liveness::{BeatEffect, Check, SILENCE, ahead_of};
use crate::name::{Key, NodeId};
use crate::record::{Beat, Load, NodeRecord, NodeState};

/// Time from one beat to the next.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// Which of its beats a node sends to all regions.
const FAR_EVERY: u32 = 15;

/// Most nodes of other regions whose beats are kept.
const FAR_MAX: usize = 1_000;

/// How long a node of another region is shown as dead.
const FAR_KEPT_FOR: Duration = Duration::from_secs(600);

/// How often the own record is written again; the store forgets one after 10 min.
const RECORD_EVERY: Duration = Duration::from_secs(60);

/// Shortest and longest time until the own record is written again after a failure. Nobody can pull from
/// this node before the record is written, and a store that has just started refuses at first.
const RECORD_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));

/// Facts that a node knows of its own state.
#[derive(Debug)]
pub(super) struct Presence {
    pub(super) is_connected: bool,
    /// When the connection came or went.
    since: Instant,
    pub(super) tick_due: Instant,
    /// Number of the latest beat.
    pub(super) seq: u64,
    /// Whether no other process has this node's name, as far as is known.
    pub(super) is_name_ours: bool,
    /// Another process that beats under this node's name, and its latest beat.
    pub(super) rival: Option<(u64, u64)>,
    /// The reason why this node must not serve.
    pub(super) outcast: Option<Outcast>,
    /// Nodes that have another secret, and when they were heard.
    pub(super) strangers: BTreeMap<NodeId, Instant>,
    /// Whether a node with this one's secret was heard.
    pub(super) has_friend: bool,
    /// Nodes of other regions, by the beats that all regions hear.
    pub(super) far: BTreeMap<NodeId, Seen>,
    /// When nodes that are gone are looked for.
    pub(super) forget_due: Option<Instant>,
    /// Whether the own record is being deleted, because this node leaves.
    pub(super) is_leaving: bool,
    /// Whether the own record is not written any more.
    has_left: bool,
    record_due: Option<Instant>,
    record_version: Option<Version>,
    /// Attempts to write or read the own record that have failed since the last one that did not.
    record_failures: u32,
    pub(super) list_due: Option<Instant>,
    drain: Option<Drain>,
    refusal_told: Option<Instant>,
}

/// A drain that was ordered.
#[derive(Clone, Copy, Debug)]
struct Drain {
    until: Instant,
    is_over: bool,
}

impl Presence {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            is_connected: false,
            since: now,
            tick_due: now,
            seq: 0,
            is_name_ours: false,
            rival: None,
            outcast: None,
            strangers: BTreeMap::new(),
            has_friend: false,
            far: BTreeMap::new(),
            forget_due: None,
            is_leaving: false,
            has_left: false,
            record_due: None,
            record_version: None,
            record_failures: 0,
            list_due: None,
            drain: None,
            refusal_told: None,
        }
    }

    pub(super) const fn is_draining(&self) -> bool {
        self.drain.is_some()
    }

    /// Whether every node that lives has been heard.
    pub(super) fn is_settled(&self, now: Instant) -> bool {
        self.is_connected && now - self.since >= SILENCE
    }

    /// When every node that lives had been heard; `None` while that may not be so.
    pub(super) fn settled_at(&self) -> Option<Instant> {
        self.is_connected.then(|| self.since + SILENCE)
    }

    /// Ends the service of this node for good.
    pub(super) const fn end(&mut self) {
        self.drain = Some(Drain {
            until: self.since,
            is_over: true,
        });
    }

    pub(super) fn away_for(&self, now: Instant) -> Duration {
        match self.is_connected {
            true => Duration::ZERO,
            false => now - self.since,
        }
    }

    const fn state(&self) -> NodeState {
        match self.drain {
            Some(_) => NodeState::Draining,
            None => NodeState::Serving,
        }
    }
}

/// A node of another region, as its latest beat shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) load: Load,
    pub(super) ahead_ms: Option<i64>,
    at: Instant,
}

impl Seen {
    /// Whether the node sent one of its last two beats.
    pub(super) fn is_alive(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < BEAT_EVERY * FAR_EVERY * 5 / 2
    }
}

impl Node {
    /// Takes no new publishers, sources and rooms from now on, hands sources over at once, and
    /// releases the rest at `until`; [`Event::Drained`] follows then.
    pub fn drain(&mut self, now: Moment, until: Instant) {
        self.now = now;
        self.presence.drain = Some(Drain {
            until,
            is_over: false,
        });
        self.write_own_record();
        self.hand_over_sources();
        self.tell_children_to_move();
    }

    /// Serves again, as if no drain had been ordered.
    pub fn undrain(&mut self, now: Moment) {
        self.now = now;
        if self.presence.outcast.is_none() && self.presence.drain.take().is_some() {
            self.write_own_record();
            self.claims_on_connected();
        }
    }

    /// Whether a drain was ordered and not taken back.
    pub const fn is_draining(&self) -> bool {
        self.presence.is_draining()
    }

    /// Whether another node serves, as far as this one knows, so that its viewers and publishers have
    /// somewhere to go.
    pub fn has_company(&self) -> bool {
        let own = &self.config.node;
        let others = self.directory.nodes.iter().filter(|(node, _)| *node != own);
        let mut serving = others.filter(|(_, it)| it.record.state == NodeState::Serving);
        serving.any(|(node, it)| !self.peers.is_dead(node, it.record.inc))
    }

    /// Leaves the cluster for good: what is left is released, and the node's record is deleted, so that
    /// nobody looks for it.
    pub fn leave(&mut self, now: Moment) {
        self.now = now;
        self.delete_own_record();
        self.drain(now, now.at);
    }

    pub(super) fn delete_own_record(&mut self) {
        self.presence.has_left = true;
        let record = self.presence.record_version.take();
        if let Some(expected) = record.filter(|_| self.presence.is_connected) {
            self.presence.is_leaving = true;
            let key = self.own_key();
            self.call(Purpose::OwnNodeDelete, Call::DeleteIf { key, expected });
        }
    }

    pub(super) fn on_connected(&mut self) {
        // A back end may have missed to say that the connection was gone for a moment.
        self.presence.is_connected = true;
        self.presence.since = self.now.at;
        self.peers.restart(self.now.at);
        if !self.presence.is_name_ours {
            // What stands in the store may be the record of a living process.
            self.presence.record_version = None;
        }
        self.write_own_record();
        self.read_everything();
        self.claims_on_connected();
        self.relays_on_connected();
    }

    pub(super) fn on_disconnected(&mut self) {
        if self.presence.is_connected {
            self.presence.is_connected = false;
            self.presence.since = self.now.at;
        }
        self.peers.restart(self.now.at);
        self.directory.is_complete = false;
    }

    /// An engine's refusal is told at most twice a minute.
    pub(super) fn on_refused(&mut self, reason: String) {
        let told = self.presence.refusal_told;
        if told.is_none_or(|at| self.now.at - at >= Duration::from_secs(30)) {
            self.presence.refusal_told = Some(self.now.at);
            self.events.push_back(Event::EngineRefused { reason });
        }
    }

    pub(super) fn on_tick(&mut self) {
        let now = self.now.at;
        self.expire_calls();
        if self.presence.is_connected {
            self.beat();
            self.write_own_record_if_due();
            self.forget_the_gone();
            if self.presence.list_due.is_some_and(|at| at <= now) {
                self.presence.list_due = None;
                self.read_everything();
            }
            self.recheck_claims();
        }
        self.balance_viewers();
        self.expire_children();
        self.expire_lost();
        if let Some(drain) = &mut self.presence.drain
            && drain.until <= now
            && !drain.is_over
        {
            drain.is_over = true;
            self.release_all();
            self.events.push_back(Event::Drained);
        }
        // Beats are one second apart; after a standstill they are not made up for.
        let due = self.presence.tick_due + BEAT_EVERY;
        self.presence.tick_due = if due > now { due } else { now + BEAT_EVERY };
        self.timers.set(self.presence.tick_due, Timer::Tick);
    }

    /// Sends a beat, unless it would count for another process of this name.
    pub(super) fn beat(&mut self) {
        if !self.presence.is_name_ours || self.presence.outcast.is_some() {
            return;
        }
        self.presence.seq += 1;
        let seq = self.presence.seq;
        let beat = Beat {
            inc: self.incarnation(),
            seq,
            state: self.presence.state(),
            unix_ms: self.now.unix_ms,
            key: self.config.key,
            load: self.load,
        };
        let payload = beat.to_payload();
        let is_far = seq % u64::from(FAR_EVERY) == 1;
        self.call(Purpose::Hint, Call::Beat { payload, is_far });
    }

    pub(super) fn on_far_beat(&mut self, node: &NodeId, payload: &[u8]) {
        let Ok(beat) = Beat::parse(payload) else {
            return;
        };
        let is_near = *node == self.config.node || self.peers.get(node).is_some();
        if is_near || self.is_stranger(node, &beat) {
            return;
        }
        let seen = Seen {
            load: beat.load,
            ahead_ms: ahead_of(&beat, self.now),
            at: self.now.at,
        };
        let far = &mut self.presence.far;
        far.retain(|_, it| self.now.at.saturating_duration_since(it.at) < FAR_KEPT_FOR);
        if far.len() < FAR_MAX || far.contains_key(node) {
            far.insert(node.clone(), seen);
        }
    }

    pub(super) fn on_beat(&mut self, node: &NodeId, payload: &[u8]) {
        let Ok(beat) = Beat::parse(payload) else {
            return;
        };
        if *node == self.config.node {
            match beat.inc == self.incarnation() {
                true => self.peers.on_echo(beat.seq, self.now.at),
                false => self.on_rival(&beat),
            }
            return;
        }
        if self.is_stranger(node, &beat) {
            return;
        }
        match self.peers.on_beat(node, &beat, self.now) {
            BeatEffect::Known => {}
            BeatEffect::New => {
                let at = self.now.at + SILENCE;
                self.timers.set(at, Timer::Peer(node.clone()));
            }
            BeatEffect::Restarted => {
                // The record of the new process may have come before its first beat.
                let known = self.directory.nodes.get(node);
                if known.is_some_and(|it| it.record.inc != beat.inc) {
                    self.directory.nodes.remove(node);
                }
                self.sources_of_gone(node);
            }
        }
    }

    pub(super) fn check_peer(&mut self, node: &NodeId) {
        let now = self.now.at;
        match self.peers.check(node, now) {
            Check::Again(at) => self.timers.set(at, Timer::Peer(node.clone())),
            Check::Nothing => {}
            Check::Dies => self.sources_of_gone(node),
            Check::Probe => {
                let probe = self.next_probe();
                self.peers.probing(node, probe, now);
                self.probe(probe, node);
                let at = now + Duration::from_millis(100);
                self.timers.set(at, Timer::Peer(node.clone()));
            }
        }
    }

    fn probe(&mut self, probe: ProbeId, node: &NodeId) {
        let known = self.directory.nodes.get(node);
        self.events.push_back(Event::Probe {
            probe,
            node: node.clone(),
            record: known.map(|it| Box::new(it.record.clone())),
            question: bytes::Bytes::new(),
        });
    }

    fn own_key(&self) -> Key {
        Key::Node(self.config.region.clone(), self.config.node.clone())
    }

    pub(super) fn write_own_record(&mut self) {
        let is_over = self.presence.outcast.is_some() || self.presence.has_left;
        if !self.presence.is_connected || is_over {
            return;
        }
        let spread = self.jitter(Duration::ZERO, RECORD_EVERY / 10);
        self.presence.record_due = Some(self.now.at + RECORD_EVERY - spread);
        let record = NodeRecord {
            region: self.config.region.clone(),
            state: self.presence.state(),
            ..self.config.record.clone()
        };
        let call = Call::PutIf {
            key: self.own_key(),
            value: record.to_value(),
            expected: self.presence.record_version,
        };
        self.call(Purpose::OwnNodePut, call);
    }

    pub(super) fn on_own_node_put(&mut self, result: &Result<Answered, CallError>) {
        match result {
            Ok(Answered::Put(version)) => {
                self.presence.record_version = Some(*version);
                self.presence.record_failures = 0;
                // Nothing stood there, or what stood there was this node's.
                self.name_is_ours();
            }
            Err(CallError::Conflict) => {
                let key = self.own_key();
                self.call(Purpose::OwnNodeRead, Call::Get { key });
            }
            _ => self.write_own_record_again(),
        }
    }

    pub(super) fn on_own_node_read(&mut self, result: Result<Answered, CallError>) {
        let Ok(Answered::Got(entry)) = result else {
            return self.write_own_record_again();
        };
        let record = entry.as_ref();
        let record = record.and_then(|it| NodeRecord::parse(&it.value).ok());
        let is_own = record.is_none_or(|it| it.inc == self.incarnation());
        self.presence.record_version = entry.map(|it| it.version);
        if is_own || self.presence.is_name_ours {
            self.presence.record_due = None;
        } else {
            self.greet();
        }
    }

    /// Somebody took the own record for that of a node which is gone.
    pub(super) fn own_record_deleted(&mut self) {
        if self.presence.is_name_ours {
            self.presence.record_version = None;
            self.write_own_record();
        }
    }

    fn write_own_record_again(&mut self) {
        let (least, most) = RECORD_AGAIN;
        let pause = (least * (1 << self.presence.record_failures.min(5))).min(most);
        self.presence.record_failures += 1;
        let at = self.now.at + self.jitter(pause / 2, pause);
        self.presence.record_due = Some(at);
        self.timers.set(at, Timer::OwnRecord);
    }

    pub(super) fn write_own_record_if_due(&mut self) {
        let now = self.now.at;
        if self.presence.record_due.is_none_or(|at| at <= now) {
            self.write_own_record();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Answer, Incoming, Request};
    use crate::node::tests::{at, node, requests};

    /// Returns the requests that would write the node's own record.
    fn writes(node: &mut Node) -> Vec<Request> {
        let is_own = |it: &Request| {
            matches!(
                &it.call,
                Call::PutIf {
                    key: Key::Node(..),
                    ..
                }
            )
        };
        requests(node).into_iter().filter(is_own).collect()
    }

    #[test]
    fn a_store_that_refuses_the_own_record_at_first_is_asked_again_soon() {
        let mut node = node(at(0));
        node.handle_incoming(at(0), Incoming::Connected);
        let mut attempts = Vec::new();
        for ms in 0..10_000 {
            if node.poll_timeout().is_some_and(|due| due <= at(ms).at) {
                node.handle_timeout(at(ms));
            }
            for request in writes(&mut node) {
                attempts.push(ms);
                let result = match attempts.len() {
                    1..6 => Err(CallError::Away),
                    _ => Ok(Answered::Put(Version(1))),
                };
                let id = request.id;
                node.handle_answer(at(ms), Answer { id, result });
            }
        }
        let pauses: Vec<u64> = attempts.windows(2).map(|it| it[1] - it[0]).collect();
        assert_eq!(attempts.len(), 6, "once written, it stays for a minute");
        assert!((50..=101).contains(&pauses[0]), "{pauses:?}");
        assert!(attempts[3] < 800, "{attempts:?}");
        let least = [50, 100, 200, 400, 800];
        let grows = pauses
            .iter()
            .zip(least)
            .all(|(pause, least)| *pause >= least);
        assert!(grows, "a store in trouble is spared: {pauses:?}");
    }
}
