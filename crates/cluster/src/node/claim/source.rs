//! Cameras and files that several nodes have in their configuration: exactly one dials.

use std::time::Duration;

use super::super::Node;
use super::{CLAIMS_MAX, Holding, Phase};
use crate::config::Moment;
use crate::engine::Version;
use crate::event::{Event, PublishDecision, Refusal};
use crate::name::{NodeId, StreamName};
use crate::placement;
use crate::record::{Kind, NodeState, StreamRecord};

/// How long a candidate leaves the claim to one before it that lives, before it tries itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a candidate looks at an owner whose beats it does not hear.
const LOOK_AT_FAR: Duration = Duration::from_secs(5);

/// Age of a record of a living owner after which a candidate reads it again.
const READ_AGAIN: Duration = Duration::from_secs(50);

/// How long the engine must be away at the start before the first candidate dials alone.
const ALONE_AFTER: Duration = Duration::from_secs(5);

impl Node {
    /// Adds a source of the configuration. `candidates` are all nodes that have it; a list
    /// without this node adds nothing. [`Event::Dial`] follows when this node should connect.
    pub fn add_source(&mut self, now: Moment, name: &StreamName, candidates: &[NodeId]) {
        self.now = now;
        let is_mine = candidates.contains(&self.config.node);
        if !is_mine || self.claims.held.len() >= CLAIMS_MAX {
            return;
        }
        let order = placement::order(name, candidates);
        self.claims.sources.insert(name.clone(), order);
        if !self.claims.has(name) {
            self.stand_by(name);
            self.watch(name);
        }
    }

    /// Removes a source of the configuration; [`Event::HangUp`] follows if it was dialled.
    pub fn remove_source(&mut self, now: Moment, name: &StreamName) {
        self.now = now;
        self.claims.sources.remove(name);
        let Some(holding) = self.claims.held.get(name) else {
            return;
        };
        if holding.is_serving {
            self.events.push_back(Event::HangUp { name: name.clone() });
        }
        match holding.phase {
            Phase::Standby => self.forget_claim(name),
            _ => self.release(name),
        }
    }

    /// Waits for the turn of this node.
    pub(super) fn stand_by(&mut self, name: &StreamName) {
        let mut holding = Holding::new(Kind::Source, self.now.at);
        holding.phase = Phase::Standby;
        let before = self.claims.held.insert(name.clone(), holding);
        if let Some(at) = before.and_then(|it| it.check_at) {
            self.claims.checks.remove(&(at, name.clone()));
        }
        let at = self.now.at + self.jitter(Duration::ZERO, Duration::from_millis(200));
        self.wake_claim(name, at);
    }

    /// Looks whether it is this node's turn, and claims the name if it is.
    pub(in crate::node) fn consider_source(&mut self, name: &StreamName) {
        if self.presence.is_draining() {
            return;
        }
        if !self.presence.is_connected {
            return self.dial_alone(name);
        }
        let owner = self.known(name).cloned();
        if let Some(record) = &owner {
            let is_other = record.node != self.config.node;
            if is_other && !self.peers.is_dead(&record.node, record.inc) {
                let record = record.clone();
                return self.leave_to(name, &record);
            }
        }
        let now = self.now.at;
        let turn = now + self.wait_for_turn(name);
        let Some(holding) = self.claims.held.get_mut(name) else {
            return;
        };
        let turn = holding.turn_at.map_or(turn, |it| it.min(turn));
        holding.turn_at = Some(turn);
        if turn <= now {
            self.read_claim(name);
        } else {
            self.set_phase(name, Phase::Standby);
            self.wake_claim(name, turn);
        }
    }

    /// How long this node leaves the claim to candidates before it.
    fn wait_for_turn(&self, name: &StreamName) -> Duration {
        let Some(order) = self.claims.sources.get(name) else {
            return PATIENCE;
        };
        let before = order.iter().take_while(|it| **it != self.config.node);
        let is_settled = self.presence.is_settled(self.now.at);
        let drains = |node: &NodeId| {
            let known = self.directory.nodes.get(node);
            known.is_some_and(|it| it.record.state == NodeState::Draining)
        };
        let likely = before.filter(|node| match self.peers.get(node) {
            Some(peer) => !peer.is_dead && peer.state == NodeState::Serving && !drains(node),
            None => !is_settled,
        });
        PATIENCE * u32::try_from(likely.count()).unwrap_or(u32::MAX).min(12)
    }

    /// Another node holds the source and is not known to be dead.
    fn leave_to(&mut self, name: &StreamName, record: &StreamRecord) {
        if self.claims.is_serving(name) {
            // Dialled while the engine was away: one of the two has to hang up.
            return self.read_claim(name);
        }
        if let Some(holding) = self.claims.held.get_mut(name) {
            holding.turn_at = None;
        }
        let known = self.directory.streams.get(name);
        if known.is_some_and(|it| self.now.at - it.read_at >= READ_AGAIN) {
            // A store that was rolled back tells nobody; two nodes may each believe the other.
            return self.read_claim(name);
        }
        let hears_it = self.peers.get(&record.node).is_some();
        let wait = match hears_it {
            true => Duration::from_secs(30),
            false => LOOK_AT_FAR,
        };
        let holding = self.claims.held.get(name);
        let is_due = holding.is_none_or(|it| it.due.is_none());
        if hears_it || !self.presence.is_settled(self.now.at) {
            let at = self.now.at + wait + self.jitter(Duration::ZERO, Duration::from_secs(1));
            self.set_phase(name, Phase::Standby);
            self.wake_claim(name, at);
        } else if is_due {
            self.read_claim(name);
        }
    }

    /// Whether `node` sends no beats, though every node that lives has been heard by now.
    pub(super) fn is_unheard(&self, node: &NodeId) -> bool {
        self.peers.get(node).is_none() && self.presence.is_settled(self.now.at)
    }

    /// A read showed that another node holds the source.
    pub(super) fn source_is_elsewhere(
        &mut self,
        name: &StreamName,
        record: StreamRecord,
        version: Version,
    ) {
        if self.claims.is_serving(name) || self.is_unheard(&record.node) {
            // Served without the engine until now, or an owner that sends no beats.
            return self.ask_owner(name, record, Some(version));
        }
        let at = self.now.at + Duration::from_secs(30) + self.jitter_of_checks();
        self.set_phase(name, Phase::Standby);
        self.wake_claim(name, at);
    }

    /// A node died or drains: the next candidate of each source that it had takes over.
    pub(in crate::node) fn sources_of_gone(&mut self, node: &NodeId) {
        let names: Vec<StreamName> = self.claims.sources.keys().cloned().collect();
        for name in names {
            let is_theirs = self.known(&name).is_none_or(|it| it.node == *node);
            let holding = self.claims.held.get(&name);
            let waits = holding.is_some_and(|it| {
                matches!(it.phase, Phase::Standby | Phase::Waiting) && !it.is_serving
            });
            if is_theirs && waits {
                self.consider_source(&name);
            }
        }
    }

    /// The engine was away from the start: the first candidate of the configuration dials, as
    /// nobody else will.
    fn dial_alone(&mut self, name: &StreamName) {
        let now = self.now.at;
        let is_first = self.claims.sources.get(name).and_then(|it| it.first());
        let is_first = is_first == Some(&self.config.node);
        let is_known = self.known(name).is_some();
        let is_alone = self.presence.away_for(now) >= ALONE_AFTER;
        let epoch = self
            .highest_epoch(name)
            .saturating_add(1)
            .max(self.now.unix_ms);
        let Some(holding) = self.claims.held.get_mut(name) else {
            return;
        };
        if holding.is_serving {
            return;
        }
        if is_first && is_alone && !is_known {
            (holding.is_serving, holding.epoch) = (true, epoch);
            let name = name.clone();
            self.events.push_back(Event::Dial { name, epoch });
        }
        self.set_phase(name, Phase::Standby);
        self.wake_claim(name, now + Duration::from_secs(1));
    }

    /// Gives a source to the next candidate, since this node drains.
    pub(super) fn hand_over(&mut self, name: &StreamName) {
        if self.claims.is_serving(name) {
            self.events.push_back(Event::HangUp { name: name.clone() });
        }
        self.release(name);
    }

    /// Gives all sources to their next candidates.
    pub(in crate::node) fn hand_over_sources(&mut self) {
        let held = self.claims.held.iter();
        let sources = held.filter(|(_, it)| it.kind == Kind::Source && it.is_serving);
        let names: Vec<StreamName> = sources.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.hand_over(&name);
        }
    }

    /// Refuses publishers who wait for a decision when a drain comes to its end.
    fn refuse_undecided(&mut self) {
        let held = self.claims.held.iter();
        let waiting = held.filter(|(_, it)| it.is_undecided() && it.kind == Kind::Pushed);
        let names: Vec<StreamName> = waiting.map(|(name, _)| name.clone()).collect();
        for name in names {
            let Some(holding) = self.claims.held.get_mut(&name) else {
                continue;
            };
            holding.decide_by = None;
            let is_writing = matches!(holding.phase, Phase::Writing);
            if let Some(publisher) = holding.publisher.take() {
                let refused = PublishDecision::Refused(Refusal::Draining);
                self.publish_event(publisher, &name, refused);
            }
            // What is being written is released when it stands.
            if !is_writing {
                self.release(&name);
            }
        }
    }

    /// Releases everything that is left at the end of a drain.
    pub(in crate::node) fn release_all(&mut self) {
        self.refuse_undecided();
        let held = self.claims.held.iter().filter(|(_, it)| it.is_serving);
        let names: Vec<StreamName> = held.map(|(name, _)| name.clone()).collect();
        for name in names {
            if let Some(holding) = self.claims.held.get_mut(&name) {
                holding.publisher = None;
            }
            self.release(&name);
        }
    }
}
