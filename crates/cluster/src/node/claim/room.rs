//! Rooms: the first node that a participant enters holds the room, others send participants
//! there.

use std::time::Duration;

use super::super::Node;
use super::{DECIDE_WITHIN, Holding, Phase};
use crate::config::Moment;
use crate::event::{Event, ViewDecision, ViewerId};
use crate::name::{NodeId, StreamName};
use crate::record::{Kind, StreamRecord};

/// Most participants who wait for one room at the same time.
const WAITING_MAX: usize = 1_000;

impl Node {
    /// A participant enters a room. [`Event::Room`] follows within 1.5 s.
    ///
    /// Rooms and streams share their names; a server puts a prefix before the one or the other.
    pub fn enter_room(&mut self, now: Moment, viewer: ViewerId, name: &StreamName) {
        self.now = now;
        if let Some(holding) = self.claims.held.get_mut(name) {
            let decision = match holding.kind {
                Kind::Room if holding.is_serving => Some(ViewDecision::Here),
                Kind::Room if holding.is_undecided() && holding.waiting.len() < WAITING_MAX => {
                    holding.waiting.push(viewer);
                    None
                }
                Kind::Room => Some(ViewDecision::Unavailable),
                Kind::Pushed | Kind::Source => Some(ViewDecision::NotFound),
            };
            if let Some(decision) = decision {
                self.room_event(viewer, name, decision);
            }
            return;
        }
        if let Some(record) = self.known(name).cloned()
            && self.presence.is_connected
            && record.node != self.config.node
            && !self.peers.is_dead(&record.node, record.inc)
            && !self.may_be_lost(&record.node)
            && self.fresh(name).is_some()
        {
            let decision = self.redirect_to(&record.node);
            return self.room_event(viewer, name, decision);
        }
        if self.presence.is_draining() {
            return self.room_event(viewer, name, ViewDecision::Unavailable);
        }
        let mut holding = Holding::new(Kind::Room, now.at);
        holding.waiting.push(viewer);
        holding.decide_by = Some(now.at + DECIDE_WITHIN);
        self.claims.held.insert(name.clone(), holding);
        let timer = super::super::Timer::Holding(name.clone());
        self.timers.set(now.at + DECIDE_WITHIN, timer);
        self.watch(name);
        if self.presence.is_connected {
            self.read_claim(name);
        } else {
            self.decide_without_engine(name);
        }
    }

    /// Whether `node`, which is not known to be dead, may be so: it was never heard, or its beats are
    /// missing. Participants who notice the loss of their server are quicker than its death is certain,
    /// and wait for an answer of the others.
    pub(super) fn may_be_lost(&self, node: &NodeId) -> bool {
        self.is_unheard(node) || self.peers.is_overdue(node, self.now.at)
    }

    /// The last participant of a room on this node left.
    pub fn leave_room(&mut self, now: Moment, name: &StreamName) {
        self.now = now;
        let holding = self.claims.held.get(name);
        if holding.is_some_and(|it| it.kind == Kind::Room && it.is_serving) {
            self.release(name);
        }
    }

    pub(super) fn room_is_here(&mut self, name: &StreamName) {
        self.answer_room(name, &ViewDecision::Here);
    }

    /// Another node has the room.
    pub(super) fn room_is_elsewhere(&mut self, name: &StreamName, record: &StreamRecord) {
        let was_serving = self.claims.is_serving(name);
        let decision = self.redirect_to(&record.node);
        self.answer_room(name, &decision);
        if was_serving {
            let (name, to) = (name.clone(), record.node.clone());
            self.events.push_back(Event::RoomMoved { name, to });
        }
        self.forget_claim(name);
    }

    pub(super) fn room_times_out(&mut self, name: &StreamName, owner: Option<NodeId>) {
        let decision = match owner {
            Some(owner) => self.redirect_to(&owner),
            None => ViewDecision::Unavailable,
        };
        self.answer_room(name, &decision);
        match self.claims.held.get(name).map(|it| &it.phase) {
            Some(Phase::Reading | Phase::Waiting | Phase::Standby) => self.forget_claim(name),
            // A write may be under way: what it leaves is released.
            Some(_) => {
                let at = self.now.at + Duration::from_secs(1);
                self.set_phase(name, Phase::Releasing { since: self.now.at });
                self.wake_claim(name, at);
            }
            None => {}
        }
    }

    fn answer_room(&mut self, name: &StreamName, decision: &ViewDecision) {
        let Some(holding) = self.claims.held.get_mut(name) else {
            return;
        };
        holding.decide_by = None;
        for viewer in std::mem::take(&mut holding.waiting) {
            self.room_event(viewer, name, decision.clone());
        }
    }

    fn room_event(&mut self, viewer: ViewerId, name: &StreamName, decision: ViewDecision) {
        let name = name.clone();
        self.events.push_back(Event::Room {
            viewer,
            name,
            decision,
        });
    }

    fn redirect_to(&self, node: &NodeId) -> ViewDecision {
        let Some(record) = self.address(node) else {
            return ViewDecision::Unavailable;
        };
        ViewDecision::Redirect {
            node: node.clone(),
            http: record.http.clone(),
            rtsp: record.rtsp.clone(),
        }
    }
}
