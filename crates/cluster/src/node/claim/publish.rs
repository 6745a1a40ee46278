//! Publishers that connect to this node, and the release of what they leave.

use super::super::directory::Found;
use super::super::{Node, Purpose};
use super::{CLAIMS_MAX, DECIDE_WITHIN, Holding, Phase};
use crate::config::Moment;
use crate::engine::{Answered, Call, CallError, RequestId};
use crate::event::{Event, Policy, PublishDecision, PublisherId, Refusal};
use crate::name::{Key, StreamName};
use crate::record::Kind;

impl Node {
    /// A publisher wants a name. [`Event::Publish`] follows within 1.5 s, whatever the engine
    /// and other nodes do.
    pub fn publish(
        &mut self,
        now: Moment,
        publisher: PublisherId,
        name: &StreamName,
        policy: Policy,
    ) {
        self.now = now;
        if self.presence.is_draining() || self.claims.held.len() >= CLAIMS_MAX {
            let refused = PublishDecision::Refused(Refusal::Draining);
            return self.publish_event(publisher, name, refused);
        }
        let by = self.config.node.clone();
        if self.claims.sources.contains_key(name) {
            let refused = PublishDecision::Refused(Refusal::Configured { by });
            return self.publish_event(publisher, name, refused);
        }
        let is_taken = self.claims.held.get(name).is_some_and(|holding| {
            let is_left = holding.publisher.is_none();
            let may_replace = policy == Policy::Replace && holding.is_serving;
            holding.kind != Kind::Pushed || !(is_left || may_replace)
        });
        if is_taken {
            let refused = PublishDecision::Refused(Refusal::Taken { by });
            return self.publish_event(publisher, name, refused);
        }
        let mut holding = Holding::new(Kind::Pushed, now.at);
        if let Some(before) = self.claims.held.remove(name) {
            if let Some(at) = before.check_at {
                self.claims.checks.remove(&(at, name.clone()));
            }
            if let Some(first) = before.publisher {
                let by = self.config.node.clone();
                let name = name.clone();
                let publisher = first;
                self.events.push_back(Event::Superseded {
                    publisher,
                    name,
                    by,
                });
            }
        }
        holding.publisher = Some(publisher);
        holding.policy = policy;
        holding.decide_by = Some(now.at + DECIDE_WITHIN);
        self.claims.held.insert(name.clone(), holding);
        self.timers.set(
            now.at + DECIDE_WITHIN,
            super::super::Timer::Holding(name.clone()),
        );
        self.watch(name);
        if !self.presence.is_connected {
            self.decide_without_engine(name);
        } else if self.known(name).is_none() && self.lost_record(name).is_none() {
            // Most names are free, and the store refuses the write if this one is not.
            self.write_claim(name, None);
        } else {
            self.read_claim(name);
        }
    }

    /// A publisher left. Its name is free on all nodes as soon as the store answers.
    pub fn publish_ended(&mut self, now: Moment, publisher: PublisherId, name: &StreamName) {
        self.now = now;
        let holding = self.claims.held.get_mut(name);
        let Some(holding) = holding.filter(|it| it.publisher == Some(publisher)) else {
            return;
        };
        holding.publisher = None;
        holding.is_serving = false;
        holding.decide_by = None;
        match holding.phase {
            // What is being written is released when it stands.
            Phase::Writing => {}
            _ => self.release(name),
        }
    }

    pub(super) fn publish_event(
        &mut self,
        publisher: PublisherId,
        name: &StreamName,
        decision: PublishDecision,
    ) {
        let name = name.clone();
        self.events.push_back(Event::Publish {
            publisher,
            name,
            decision,
        });
    }

    /// Nobody can be asked, or the time is over: a publisher is served here and unannounced,
    /// unless the last known record names another node that lives.
    pub(super) fn decide_without_engine(&mut self, name: &StreamName) {
        let me = &self.config.node;
        let other = self.known(name).filter(|it| it.node != *me);
        let other = other.filter(|it| !self.peers.is_dead(&it.node, it.inc));
        let is_source = other.is_some_and(|it| it.kind == Kind::Source);
        let other = other.map(|it| it.node.clone());
        let previous = self.highest_epoch(name);
        let Some(holding) = self.claims.held.get_mut(name) else {
            return;
        };
        if holding.decide_by.take().is_none() {
            return;
        }
        let may_take = holding.policy == Policy::Replace;
        let (publisher, kind) = (holding.publisher, holding.kind);
        if let Some(by) = other.filter(|_| !may_take || is_source) {
            if kind == Kind::Room {
                return self.room_times_out(name, Some(by));
            }
            if let Some(publisher) = publisher {
                let refusal = match is_source {
                    true => Refusal::Configured { by },
                    false => Refusal::Taken { by },
                };
                self.publish_event(publisher, name, PublishDecision::Refused(refusal));
            }
            // A write may be under way: what it leaves is released.
            if let Some(holding) = self.claims.held.get_mut(name) {
                holding.publisher = None;
                match holding.phase {
                    Phase::Writing => {}
                    _ => self.release(name),
                }
            }
            return;
        }
        holding.is_serving = true;
        let mut epoch = holding.epoch;
        if epoch == 0 {
            epoch = self.draw_epoch(previous);
            if let Some(holding) = self.claims.held.get_mut(name) {
                holding.epoch = epoch;
            }
        }
        self.end_pulls_of(name);
        match (kind, publisher) {
            (Kind::Room, _) => self.room_is_here(name),
            (_, Some(publisher)) => {
                let decision = PublishDecision::Admitted {
                    epoch,
                    provisional: true,
                };
                self.publish_event(publisher, name, decision);
            }
            _ => {}
        }
        self.serve_waiting(name);
        let is_idle = self
            .claims
            .held
            .get(name)
            .is_some_and(|it| it.request.is_none());
        if is_idle {
            self.retry_claim(name);
        }
    }

    /// Deletes the record of this node, if it still is this node's.
    pub(super) fn release(&mut self, name: &StreamName) {
        let since = self.now.at;
        let Some(holding) = self.claims.held.get_mut(name) else {
            return;
        };
        holding.is_serving = false;
        if let Some(at) = holding.check_at.take() {
            self.claims.checks.remove(&(at, name.clone()));
        }
        let version = holding.version;
        let is_releasing = matches!(holding.phase, Phase::Releasing { .. });
        if !is_releasing {
            holding.phase = Phase::Releasing { since };
        }
        holding.request = None;
        match version {
            Some(expected) => {
                let key = Key::Stream(name.clone());
                let call = Call::DeleteIf { key, expected };
                let id = self.call(Purpose::ClaimDelete(name.clone()), call);
                if let Some(holding) = self.claims.held.get_mut(name) {
                    holding.request = Some(id);
                }
            }
            None => self.read_claim(name),
        }
        self.pull_instead(name);
    }

    pub(in crate::node) fn on_claim_deleted(
        &mut self,
        name: &StreamName,
        id: RequestId,
        result: &Result<Answered, CallError>,
    ) {
        let holding = self.claims.held.get(name);
        if holding.is_none_or(|it| it.request != Some(id)) {
            return;
        }
        match result {
            Ok(_) => {
                self.note(name, &Found::Nothing);
                self.released(name);
            }
            Err(CallError::Conflict | CallError::Unknown) => self.read_claim(name),
            Err(_) => self.engine_failed(name),
        }
    }

    /// The record was read again, since the answer to the deletion was lost.
    pub(super) fn release_read(&mut self, name: &StreamName, found: &Found) {
        let inc = self.incarnation();
        match found {
            Found::Record(record, version)
                if record.node == self.config.node && record.inc == inc =>
            {
                if let Some(holding) = self.claims.held.get_mut(name) {
                    holding.version = Some(*version);
                }
                self.release(name);
            }
            _ => self.released(name),
        }
    }

    fn released(&mut self, name: &StreamName) {
        let is_source = self.claims.sources.contains_key(name);
        self.forget_claim(name);
        if !is_source {
            self.pull_instead(name);
        }
    }

    /// Deletes a record of this node that stands although nobody publishes here: an earlier
    /// process left it, or a write that was given up was applied later.
    pub(in crate::node) fn release_orphan(&mut self, name: &StreamName, found: &Found) {
        // A record of a living process of this name is not left behind.
        if let Found::Record(record, expected) = found
            && record.node == self.config.node
            && self.presence.is_name_ours
        {
            let key = Key::Stream(name.clone());
            let expected = *expected;
            self.call(Purpose::Hint, Call::DeleteIf { key, expected });
        }
    }
}
