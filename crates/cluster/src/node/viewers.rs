//! Where a viewer is served: here, at a node that has the stream and room, or here by a pull.

use std::time::Duration;

use super::directory::Found;
use super::relay::Waiting;
use super::{Node, Purpose, Timer};
use crate::config::Moment;
use crate::engine::{Answered, Call, CallError, RequestId};
use crate::event::{Access, Event, ViewDecision, ViewerId};
use crate::name::{Key, NodeId, Region, StreamName};
use crate::question::{Holder, Question, Report};
use crate::record::NodeState;

/// Time after which a viewer gets a decision, whatever other nodes do.
const DECIDE_WITHIN: Duration = Duration::from_secs(2);

/// How long holders that have room are sent viewers without being asked again.
const HOLDERS_FRESH: Duration = Duration::from_secs(60);

/// How long the reply that nobody has room is taken for true.
const FULL_FRESH: Duration = Duration::from_secs(3);

/// Most viewers who wait for a decision about one stream.
const WAITING_MAX: usize = 4_096;

/// How many nodes are asked, one below the other, for room.
const DEPTH_MAX: u32 = 3;

impl Node {
    /// A viewer wants a stream. [`Event::Viewer`] follows within 2 s, at once where the answer is
    /// known.
    pub fn view(&mut self, now: Moment, viewer: ViewerId, name: &StreamName, access: Access) {
        self.now = now;
        let until = now.at + DECIDE_WITHIN;
        let relay = self.relays.entry(name.clone()).or_default();
        if relay.waiting.len() >= WAITING_MAX {
            return self.view_event(viewer, name, ViewDecision::Unavailable);
        }
        relay.waiting.push(Waiting {
            viewer,
            access,
            until,
        });
        self.serve_waiting(name);
        let relay = self.relays.get(name);
        if relay.is_some_and(|it| !it.waiting.is_empty()) {
            self.timers.set(until, Timer::Relay(name.clone()));
        }
    }

    /// A viewer who was served here left.
    pub fn viewer_left(&mut self, now: Moment, name: &StreamName) {
        self.now = now;
        if let Some(relay) = self.relays.get_mut(name) {
            relay.viewers = relay.viewers.saturating_sub(1);
        }
        self.consider_linger(name);
    }

    /// Tells how many viewers the server counts for a stream, where it asks with [`Node::view`] for
    /// all of them at once. Whichever count is higher holds.
    pub fn set_viewers(&mut self, now: Moment, name: &StreamName, count: u32) {
        self.now = now;
        if let Some(relay) = self.relays.get_mut(name) {
            relay.counted = count;
        }
    }

    /// Returns how many viewers of a stream are served here.
    pub fn viewers(&self, name: &StreamName) -> u32 {
        let relay = self.relays.get(name);
        relay.map_or(0, |it| it.viewers.max(it.counted))
    }

    /// Decides about the viewers who wait, as far as enough is known.
    pub(super) fn serve_waiting(&mut self, name: &StreamName) {
        let is_asking = self
            .relays
            .get(name)
            .is_none_or(|it| it.waiting.is_empty() || it.request.is_some());
        if is_asking && !self.claims.is_serving(name) {
            return;
        }
        if self.has_media(name) {
            return self.serve_here_or_beside(name);
        }
        let found = self.fresh(name);
        let record = match found {
            None if self.presence.is_connected => return self.look_up(name),
            None | Some(Found::Nothing) => return self.answer_all(name, &ViewDecision::NotFound),
            Some(Found::Unreadable) => {
                return self.answer_all(name, &ViewDecision::Unavailable);
            }
            Some(Found::Record(record, _)) => record,
        };
        if record.node == self.config.node {
            // This process does not publish it: the record is one of an earlier process, or is
            // about to be deleted.
            return self.answer_all(name, &ViewDecision::NotFound);
        }
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        let may_all_wait = relay.waiting.iter().all(|it| it.access == Access::Here);
        let age = relay.holders_at.map(|at| self.now.at - at);
        let has_room = relay.holders.iter().any(|it| it.room > 0);
        let most = if has_room { HOLDERS_FRESH } else { FULL_FRESH };
        if may_all_wait || age.is_some_and(|age| age < most) || !self.presence.is_connected {
            return self.place_waiting(name);
        }
        let first = relay.contact.clone().unwrap_or_else(|| record.node.clone());
        relay.depth = 0;
        self.ask_holders(name, first, false);
    }

    /// Whether the stream is here, or on its way.
    fn has_media(&self, name: &StreamName) -> bool {
        let relay = self.relays.get(name);
        let is_pulled = relay.is_some_and(|it| it.running.is_some() || it.starting.is_some());
        self.claims.is_serving(name) || is_pulled
    }

    /// Serves the waiting viewers here up to the limit, and sends the others to a node beside.
    fn serve_here_or_beside(&mut self, name: &StreamName) {
        let most = self.config.viewers_per_stream;
        let is_closed = self.presence.is_draining() || self.load.headroom == 0;
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        for waiting in std::mem::take(&mut relay.waiting) {
            let is_full = is_closed || self.viewers(name) >= most;
            let beside = match is_full {
                true => self.beside(name, waiting.access),
                false => None,
            };
            let decision = beside.unwrap_or(ViewDecision::Here);
            self.decide(waiting.viewer, name, decision);
        }
    }

    /// A node that a viewer is sent to although this one has the stream: a child with room, or
    /// a node of the region that will pull.
    fn beside(&mut self, name: &StreamName, access: Access) -> Option<ViewDecision> {
        if access == Access::Here {
            return None;
        }
        let relay = self.relays.get_mut(name)?;
        let region = &self.config.region;
        let children = relay
            .children
            .values_mut()
            .filter_map(|it| it.holder.as_mut());
        let mut near = children.filter(|it| it.room > 0 && it.region == *region);
        if let Some(child) = near.find(|it| url(it, access).is_some()) {
            child.room -= 1;
            return Some(redirect(child));
        }
        let peers = self.peers.iter();
        let free: Vec<NodeId> = peers
            .filter(|(_, it)| !it.is_dead && it.load.headroom > 0 && it.state == NodeState::Serving)
            .map(|(node, _)| node.clone())
            .collect();
        let count = free.len() as u64;
        let draw = |node: &mut Self| free.get(usize::try_from(node.rng.below(count)).ok()?);
        let (one, other) = (draw(self)?, draw(self)?);
        let headroom = |node| self.peers.get(node).map_or(0, |it| it.load.headroom);
        let best = if headroom(one) >= headroom(other) {
            one
        } else {
            other
        };
        let record = self.address(best)?;
        let base = access.base(record.http.as_deref(), record.rtsp.as_deref());
        base.map(|_| ViewDecision::Redirect {
            node: best.clone(),
            http: record.http.clone(),
            rtsp: record.rtsp.clone(),
        })
    }

    /// Sends each waiting viewer to a holder with room, or serves it here by a pull.
    fn place_waiting(&mut self, name: &StreamName) {
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        let mut is_pull_needed = false;
        for waiting in std::mem::take(&mut relay.waiting) {
            let elsewhere = match waiting.access {
                Access::Here => None,
                access => self.elsewhere(name, access),
            };
            is_pull_needed |= elsewhere.is_none();
            let decision = elsewhere.unwrap_or(ViewDecision::Here);
            self.decide(waiting.viewer, name, decision);
        }
        if is_pull_needed {
            self.find_source(name);
        }
    }

    /// The holder that takes a viewer: in this region first, then with most room.
    fn elsewhere(&mut self, name: &StreamName, access: Access) -> Option<ViewDecision> {
        let (region, me) = (self.config.region.clone(), self.config.node.clone());
        let may_go_far = self.config.redirects_far;
        let peers = &self.peers;
        let is_dead = |node: &NodeId| {
            peers
                .get(node)
                .is_some_and(|it| it.is_dead || it.state == NodeState::Draining)
        };
        let relay = self.relays.get_mut(name)?;
        let fits = |it: &&mut Holder| {
            it.room > 0
                && it.node != me
                && url(it, access).is_some()
                && (may_go_far || it.region == region)
                && !is_dead(&it.node)
        };
        let holders = relay.holders.iter_mut().filter(fits);
        let best = holders.max_by_key(|it| (it.region == region, it.room))?;
        best.room -= 1;
        Some(redirect(best))
    }

    fn decide(&mut self, viewer: ViewerId, name: &StreamName, decision: ViewDecision) {
        if decision == ViewDecision::Here
            && let Some(relay) = self.relays.get_mut(name)
        {
            relay.viewers += 1;
            relay.dues.linger = None;
        }
        self.view_event(viewer, name, decision);
    }

    fn answer_all(&mut self, name: &StreamName, decision: &ViewDecision) {
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        for waiting in std::mem::take(&mut relay.waiting) {
            self.view_event(waiting.viewer, name, decision.clone());
        }
        self.consider_linger(name);
    }

    fn view_event(&mut self, viewer: ViewerId, name: &StreamName, decision: ViewDecision) {
        let name = name.clone();
        self.events.push_back(Event::Viewer {
            viewer,
            name,
            decision,
        });
    }

    pub(super) fn look_up(&mut self, name: &StreamName) {
        let key = Key::Stream(name.clone());
        let id = self.call(Purpose::Lookup(name.clone()), Call::Get { key });
        if let Some(relay) = self.relays.get_mut(name) {
            relay.request = Some(id);
        }
    }

    pub(super) fn on_looked_up(
        &mut self,
        name: &StreamName,
        id: RequestId,
        result: Result<Answered, CallError>,
    ) {
        let relay = self.relays.get_mut(name);
        let Some(relay) = relay.filter(|it| it.request == Some(id)) else {
            return;
        };
        relay.request = None;
        match result {
            Ok(Answered::Got(entry)) => {
                self.learn(name, &Found::new(entry.as_ref()));
                self.serve_waiting(name);
                self.find_source_if_needed(name);
            }
            _ => {
                let decision = ViewDecision::Unavailable;
                self.answer_all(name, &decision);
                self.retry_pull(name);
            }
        }
    }

    /// Asks a node who has the stream and room.
    pub(super) fn ask_holders(&mut self, name: &StreamName, node: NodeId, pull: bool) {
        let question = Question::Live {
            name: name.clone(),
            region: self.config.region.clone(),
            pull,
        };
        let call = Call::Ask {
            node: node.clone(),
            question: question.to_payload(),
            within: Duration::from_secs(1),
        };
        let id = self.call(Purpose::Places(name.clone()), call);
        if let Some(relay) = self.relays.get_mut(name) {
            (relay.request, relay.asked) = (Some(id), Some(node));
        }
    }

    pub(super) fn on_places(
        &mut self,
        name: &StreamName,
        id: RequestId,
        result: &Result<Answered, CallError>,
    ) {
        let relay = self.relays.get_mut(name);
        let Some(relay) = relay.filter(|it| it.request == Some(id)) else {
            return;
        };
        relay.request = None;
        let asked = relay.asked.take();
        let report = match result {
            Ok(Answered::Reply(payload)) => Report::parse(payload).ok(),
            _ => None,
        };
        let report = report.filter(|it| it.epoch > 0 || !it.holders.is_empty());
        relay.holders_at = Some(self.now.at);
        let Some(report) = report else {
            relay.holders.clear();
            // The contact no longer has the stream: its owner knows.
            if relay.contact.take().is_some() && asked.is_some() {
                relay.holders_at = None;
            }
            self.place_waiting(name);
            return self.choose_source(name);
        };
        relay.holders = report.holders;
        let region = &self.config.region;
        let near = |it: &&Holder| it.region == *region && it.node != self.config.node;
        let near: Vec<&Holder> = relay.holders.iter().filter(near).collect();
        let has_room = near.iter().any(|it| it.room > 0 || it.slots > 0);
        // Contacts must differ from the asked node, or the question would be asked again.
        let below = near.iter().filter(|it| Some(&it.node) != asked.as_ref());
        let below = below.max_by_key(|it| it.slots).map(|it| it.node.clone());
        if below.is_some() {
            relay.contact = below.clone();
        }
        if let Some(below) = below.filter(|_| !has_room && relay.depth < DEPTH_MAX) {
            relay.depth += 1;
            return self.ask_holders(name, below, false);
        }
        self.place_waiting(name);
        self.choose_source(name);
    }

    /// Decides about viewers who waited too long.
    pub(super) fn waited_too_long(&mut self, name: &StreamName) {
        let now = self.now.at;
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        if relay.waiting.iter().any(|it| it.until <= now) {
            relay.request = None;
            match self.known(name) {
                Some(_) => self.place_waiting(name),
                None => self.answer_all(name, &ViewDecision::Unavailable),
            }
        }
    }

    /// Region of a node that has the stream.
    pub(super) fn region_of(&self, name: &StreamName, node: &NodeId) -> Option<Region> {
        let record = self.known(name).filter(|it| it.node == *node);
        let holders = self.relays.get(name).map(|it| &it.holders);
        let holder = holders.and_then(|it| it.iter().find(|it| it.node == *node));
        let known = self.directory.nodes.get(node);
        record
            .map(|it| it.region.clone())
            .or_else(|| holder.map(|it| it.region.clone()))
            .or_else(|| known.map(|it| it.record.region.clone()))
    }
}

fn url(holder: &Holder, access: Access) -> Option<&str> {
    access.base(holder.http.as_deref(), holder.rtsp.as_deref())
}

fn redirect(holder: &Holder) -> ViewDecision {
    ViewDecision::Redirect {
        node: holder.node.clone(),
        http: holder.http.clone(),
        rtsp: holder.rtsp.clone(),
    }
}
