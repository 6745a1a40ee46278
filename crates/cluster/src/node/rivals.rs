//! Whether this node may serve: no other process has its name, and its secret is that of the others.
//!
//! A node whose name has a record of another process asks that process under its own name. Whoever
//! has sent more beats was there first and stays; the other one gives up what it holds, and sends no
//! beats that would count for the first. Beats show what the question misses.

use std::time::Duration;

use super::directory::{Found, KnownNode};
use super::{Node, Purpose};
use crate::engine::{Answered, Call, CallError};
use crate::event::{Event, Outcast};
use crate::name::{Key, NodeId, StreamName};
use crate::question::{Question, Report};
use crate::record::Beat;

/// How long another process of this name may take to say that it is there.
const GREETED_WITHIN: Duration = Duration::from_millis(400);

/// Most nodes with another secret that are remembered.
const STRANGERS_MAX: usize = 100;

/// Beats that another node has sent more than this one if it was clearly there before. Beside the one of
/// each second, a node sends some more when it begins.
const CLEARLY_BEFORE: u64 = 4;

/// How long a node is remembered that sends no more beats.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

impl Node {
    /// Asks whether another process has this node's name.
    pub(super) fn greet(&mut self) {
        let inc = self.incarnation();
        let call = Call::Ask {
            node: self.config.node.clone(),
            question: Question::Greet { inc }.to_payload(),
            within: GREETED_WITHIN,
        };
        self.call(Purpose::Greeting, call);
    }

    /// Replies to another process of this name; `None` to itself.
    pub(super) fn on_greeting(&self, from: &NodeId, inc: u64) -> Option<Report> {
        let is_rival = *from == self.config.node && inc != self.incarnation();
        (is_rival && self.presence.outcast.is_none()).then(|| Report {
            inc: self.incarnation(),
            beats: self.presence.seq,
            ..Report::default()
        })
    }

    pub(super) fn on_greeted(&mut self, result: &Result<Answered, CallError>) {
        let report = match result {
            Ok(Answered::Reply(payload)) => Report::parse(payload).ok(),
            // Not asked: the next connection is a new chance.
            Err(CallError::Away) => return,
            _ => None,
        };
        match report.filter(|it| self.was_before(it.beats, it.inc)) {
            Some(_) => self.become_outcast(Outcast::NameTaken),
            None => {
                self.name_is_ours();
                self.write_own_record();
            }
        }
    }

    /// Whether a process of this name, which has sent so many beats, was there before this one.
    fn was_before(&self, beats: u64, inc: u64) -> bool {
        (beats, inc) > (self.presence.seq, self.incarnation())
    }

    /// No other process has this node's name: what an earlier one left is this one's.
    pub(super) fn name_is_ours(&mut self) {
        if self.presence.is_name_ours || self.presence.outcast.is_some() {
            return;
        }
        self.presence.is_name_ours = true;
        // Others count this node from its first beat on.
        self.beat();
        let me = &self.config.node;
        let known = self.directory.streams.iter();
        let left = known.filter(|(name, it)| {
            let record = it.record.record();
            record.is_some_and(|it| it.node == *me) && !self.claims.has(name)
        });
        let left: Vec<(StreamName, Found)> = left
            .map(|(name, it)| (name.clone(), it.record.clone()))
            .collect();
        for (name, found) in left {
            self.release_orphan(&name, &found);
        }
    }

    /// A beat under this node's name, of another process.
    pub(super) fn on_rival(&mut self, beat: &Beat) {
        let before = self.presence.rival.replace((beat.inc, beat.seq));
        // One beat may be of a process that has just ended.
        let is_beating = before.is_some_and(|(inc, seq)| inc == beat.inc && seq < beat.seq);
        if is_beating && self.was_before(beat.seq, beat.inc) {
            self.become_outcast(Outcast::NameTaken);
        }
    }

    /// Whether a beat is of a node that has another secret, whose streams cannot be pulled.
    pub(super) fn is_stranger(&mut self, node: &NodeId, beat: &Beat) -> bool {
        let own = self.config.key;
        if beat.key == own || beat.key == 0 || own == 0 {
            self.presence.has_friend = true;
            self.presence.strangers.remove(node);
            return false;
        }
        let strangers = &mut self.presence.strangers;
        if strangers.len() < STRANGERS_MAX || strangers.contains_key(node) {
            let is_known = strangers.insert(node.clone(), self.now.at).is_some();
            let is_older = beat.seq > self.presence.seq + CLEARLY_BEFORE;
            if is_known && is_older && !self.presence.has_friend {
                self.become_outcast(Outcast::OtherSecret(node.clone()));
            }
        }
        true
    }

    fn become_outcast(&mut self, reason: Outcast) {
        if self.presence.outcast.is_some() {
            return;
        }
        if reason != Outcast::NameTaken {
            self.delete_own_record();
        }
        self.presence.outcast = Some(reason.clone());
        self.presence.end();
        self.hand_over_sources();
        self.release_all();
        self.events.push_back(Event::Outcast { reason });
    }

    /// Returns the nodes whose beats say that they have another secret.
    pub fn strangers(&self) -> impl Iterator<Item = &NodeId> {
        self.presence.strangers.keys()
    }

    /// Forgets nodes that have been gone for a while, and takes their records out of the store; called
    /// once a second.
    pub(super) fn forget_the_gone(&mut self) {
        let now = self.now.at;
        self.presence
            .strangers
            .retain(|_, at| now - *at < REMEMBERED_FOR);
        let is_due = self.presence.forget_due.is_none_or(|at| at <= now);
        if !is_due || !self.peers.hears_itself(now) {
            return;
        }
        self.presence.forget_due = Some(now + REMEMBERED_FOR / 4);
        let nodes = self.directory.nodes.iter();
        let gone = nodes.filter(|(node, it)| {
            let silent = self.silent_since(node, it);
            silent.is_some_and(|since| now.saturating_duration_since(since) >= REMEMBERED_FOR)
        });
        let gone: Vec<_> = gone
            .map(|(node, it)| (node.clone(), it.record.region.clone(), it.version))
            .collect();
        for (node, region, expected) in gone {
            let key = Key::Node(region, node);
            self.call(Purpose::Hint, Call::DeleteIf { key, expected });
        }
    }

    /// Since when a node of this region sends no beats; `None` for one that does, and for those of
    /// other regions, which others hear.
    fn silent_since(&self, node: &NodeId, known: &KnownNode) -> Option<std::time::Instant> {
        if *node == self.config.node || known.record.region != self.config.region {
            return None;
        }
        match self.peers.get(node) {
            Some(peer) => peer.dead_since,
            None => Some(known.read_at.max(self.presence.settled_at()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Moment;
    use crate::engine::{Answer, Entry, Incoming, Version};
    use crate::event::{Policy, PublisherId};
    use crate::node::tests::{START, at, node, requests};
    use crate::record::{NodeRecord, NodeState};

    fn beat(inc: u64, seq: u64, key: u64) -> bytes::Bytes {
        let beat = Beat {
            inc,
            seq,
            key,
            ..Beat::default()
        };
        beat.to_payload()
    }

    /// A node that is connected, and whose own record was refused since there is one of process 2.
    fn second(now: Moment) -> Node {
        let mut node = node(now);
        node.handle_incoming(now, Incoming::Connected);
        for request in requests(&mut node) {
            if matches!(request.call, Call::PutIf { .. }) {
                let (id, result) = (request.id, Err(CallError::Conflict));
                node.handle_answer(now, Answer { id, result });
            }
        }
        let record = NodeRecord {
            inc: 2,
            quic: "192.0.2.9:4443".to_owned(),
            sha256: "00".repeat(32),
            http: None,
            rtsp: None,
            region: node.config.region.clone(),
            state: NodeState::Serving,
            version: "1".to_owned(),
        };
        let value = record.to_value();
        for request in requests(&mut node) {
            if matches!(request.call, Call::Get { .. }) {
                let version = Version(7);
                let entry = Entry {
                    value: value.clone(),
                    version,
                };
                let (id, result) = (request.id, Ok(Answered::Got(Some(entry))));
                node.handle_answer(now, Answer { id, result });
            }
        }
        node
    }

    /// Returns the question under the node's own name.
    fn greeting(node: &mut Node) -> crate::engine::Request {
        let asked = requests(node);
        let is_ask = |it: &crate::engine::Request| matches!(it.call, Call::Ask { .. });
        asked.into_iter().find(is_ask).expect("it asks")
    }

    fn outcast(node: &mut Node) -> Option<Outcast> {
        let events = std::iter::from_fn(|| node.poll_event());
        let mut reasons = events.filter_map(|it| match it {
            Event::Outcast { reason } => Some(reason),
            _ => None,
        });
        reasons.next()
    }

    #[test]
    fn a_server_whose_name_is_taken_does_not_serve() {
        let now = at(0);
        let mut node = second(now);
        let id = greeting(&mut node).id;
        let first = Report {
            inc: 2,
            beats: 300,
            ..Report::default()
        };
        let result = Ok(Answered::Reply(first.to_payload()));
        node.handle_answer(at(5), Answer { id, result });
        assert_eq!(outcast(&mut node), Some(Outcast::NameTaken));
        let name = StreamName::new("cam").expect("a name");
        node.publish(at(10), PublisherId(1), &name, Policy::Refuse);
        for ms in (0..3_000).step_by(100) {
            node.handle_timeout(at(ms));
            for request in requests(&mut node) {
                let is_harmless = matches!(request.call, Call::Get { .. } | Call::Ask { .. });
                assert!(is_harmless, "{request:?} after {ms} ms");
            }
        }
    }

    #[test]
    fn a_server_is_heard_as_soon_as_its_name_is_its_own() {
        let now = at(0);
        let mut node = node(now);
        node.handle_incoming(now, Incoming::Connected);
        let put = requests(&mut node)
            .into_iter()
            .find(|it| matches!(it.call, Call::PutIf { .. }))
            .expect("it writes its record");
        let result = Ok(Answered::Put(Version(1)));
        node.handle_answer(at(1), Answer { id: put.id, result });
        let is_beat = |it: &crate::engine::Request| matches!(it.call, Call::Beat { .. });
        assert!(requests(&mut node).iter().any(is_beat));
    }

    #[test]
    fn a_server_that_starts_again_after_a_crash_takes_its_name_back() {
        let mut node = second(at(0));
        let asked = greeting(&mut node);
        let result = Err(CallError::Unknown);
        node.handle_answer(
            at(400),
            Answer {
                id: asked.id,
                result,
            },
        );
        assert_eq!(outcast(&mut node), None);
        let writes = requests(&mut node).into_iter().filter(|it| {
            let expected = Some(Version(7));
            matches!(&it.call, Call::PutIf { key: Key::Node(..), expected: it, .. } if *it == expected)
        });
        assert_eq!(writes.count(), 1);
    }

    #[test]
    fn the_first_of_two_servers_of_one_name_goes_on() {
        let now = at(0);
        let mut node = node(now);
        node.presence.is_name_ours = true;
        node.presence.seq = 100;
        node.handle_incoming(now, Incoming::Connected);
        let name = node.id().clone();
        for seq in 1..5 {
            let payload = beat(2, seq, 0);
            let node_beat = Incoming::Beat {
                node: name.clone(),
                payload,
            };
            node.handle_incoming(at(seq * 1_000), node_beat);
        }
        assert_eq!(outcast(&mut node), None);
        let greeted = node.on_question(&name, &Question::Greet { inc: 2 }.to_payload());
        let report = Report::parse(&greeted.expect("it replies")).expect("a reply");
        assert_eq!((report.inc, report.beats), (START, 100));
        let own = Question::Greet { inc: START }.to_payload();
        assert_eq!(node.on_question(&name, &own), None, "its own question");
    }

    #[test]
    fn a_server_with_another_secret_does_not_serve_beside_the_others() {
        let other = NodeId::new("b").expect("a name");
        let hears = |own_seq: u64, seq: u64| {
            let mut node = node(at(0));
            (node.config.key, node.presence.seq) = (5, own_seq);
            node.handle_incoming(at(0), Incoming::Connected);
            for step in 0..3 {
                let incoming = Incoming::Beat {
                    node: other.clone(),
                    payload: beat(2, seq + step, 6),
                };
                node.handle_incoming(at(1_000 * step), incoming);
            }
            assert!(node.peers.get(&other).is_none(), "no member of the cluster");
            assert_eq!(node.strangers().collect::<Vec<_>>(), [&other]);
            outcast(&mut node)
        };
        assert_eq!(hears(0, 400), Some(Outcast::OtherSecret(other.clone())));
        assert_eq!(hears(400, 1), None, "the newcomer has to go");
        assert_eq!(hears(1, 2), None, "both have just begun");
    }
}
