//! The node among the others: its connection, its beats, its own record, deaths, and drain.

use std::time::{Duration, Instant};

use super::{Node, Purpose, Timer};
use crate::config::Moment;
use crate::engine::{Answered, Call, CallError, Version};
use crate::event::{Event, ProbeId};
use crate::liveness::{BeatEffect, Check, SILENCE};
use crate::name::{Key, NodeId};
use crate::record::{Beat, NodeRecord, NodeState};

/// Time from one beat to the next.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// How often the own record is written again; the store forgets one after 10 min.
const RECORD_EVERY: Duration = Duration::from_secs(60);

/// Shortest and longest time until the own record is written again after a failure. Nobody can pull from
/// this node before the record is written, and a store that has just started refuses at first.
const RECORD_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));

/// What a node knows of its own state.
#[derive(Debug)]
pub(super) struct Presence {
    pub(super) is_connected: bool,
    /// When the connection came or went.
    since: Instant,
    pub(super) tick_due: Instant,
    seq: u64,
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
        if self.presence.drain.take().is_some() {
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

    /// Nodes whose beats are heard, for `cluster status`: name, whether it is dead, and its beat.
    pub fn peers(&self) -> impl Iterator<Item = (&NodeId, bool, crate::record::Load)> {
        let peers = self.peers.iter();
        peers.map(|(node, peer)| (node, peer.is_dead, peer.load))
    }

    pub(super) fn on_connected(&mut self) {
        // A back end may have missed to say that the connection was gone for a moment.
        self.presence.is_connected = true;
        self.presence.since = self.now.at;
        self.peers.restart(self.now.at);
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
            self.presence.seq += 1;
            let beat = Beat {
                inc: self.incarnation(),
                seq: self.presence.seq,
                state: self.presence.state(),
                load: self.load,
            };
            let payload = beat.to_payload();
            self.call(Purpose::Hint, Call::Beat { payload });
            self.write_own_record_if_due();
            if self.presence.list_due.is_some_and(|at| at <= now) {
                self.presence.list_due = None;
                self.read_everything();
            }
            self.recheck_claims();
        }
        self.expire_children();
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

    pub(super) fn on_beat(&mut self, node: &NodeId, payload: &[u8]) {
        let Ok(beat) = Beat::parse(payload) else {
            return;
        };
        if *node == self.config.node {
            // A beat of an earlier process of this node says nothing about this one.
            if beat.inc == self.incarnation() {
                self.peers.on_echo(beat.seq, self.now.at);
            }
            return;
        }
        match self.peers.on_beat(node, &beat, self.now.at) {
            BeatEffect::Known => {}
            BeatEffect::New => {
                let at = self.now.at + SILENCE;
                self.timers.set(at, Timer::Peer(node.clone()));
            }
            BeatEffect::Restarted => {
                self.directory.nodes.remove(node);
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
        if !self.presence.is_connected {
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
            }
            Err(CallError::Conflict) => {
                let key = self.own_key();
                self.call(Purpose::OwnNodeRead, Call::Get { key });
            }
            _ => self.write_own_record_again(),
        }
    }

    pub(super) fn on_own_node_read(&mut self, result: Result<Answered, CallError>) {
        if let Ok(Answered::Got(entry)) = result {
            self.presence.record_version = entry.map(|it| it.version);
            self.presence.record_due = None;
        } else {
            self.write_own_record_again();
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
    use crate::config::Config;
    use crate::engine::{Answer, Incoming, Request};
    use crate::name::Region;

    fn node(now: Moment) -> Node {
        let region = Region::new("here").expect("a region");
        let record = NodeRecord {
            inc: 1,
            quic: "192.0.2.1:4443".to_owned(),
            sha256: "00".repeat(32),
            http: None,
            rtsp: None,
            region: region.clone(),
            state: NodeState::Serving,
            version: "1".to_owned(),
        };
        let name = NodeId::new("a").expect("a name");
        Node::new(Config::new(name, region, record, 7), now)
    }

    /// Returns the requests that would write the node's own record.
    fn writes(node: &mut Node) -> Vec<Request> {
        let requests = std::iter::from_fn(|| node.poll_request());
        let is_own = |it: &Request| {
            matches!(
                &it.call,
                Call::PutIf {
                    key: Key::Node(..),
                    ..
                }
            )
        };
        requests.filter(is_own).collect()
    }

    #[test]
    fn a_store_that_refuses_the_own_record_at_first_is_asked_again_soon() {
        let begun = glassline_sim::Clock::new().now();
        let at = |ms: u64| Moment {
            at: begun + Duration::from_millis(ms),
            unix_ms: 1_700_000_000_000 + ms,
        };
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
