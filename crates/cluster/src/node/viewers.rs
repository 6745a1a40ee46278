//! Where a viewer is served: here, at a node that has the stream and keeps a place, or here by a pull.
//!
//! ```text
//! waiting ─► here: room, or no way to follow a redirect
//!    └─ ask one node after the other: the owner or the last one that had room, its children, and,
//!       when this node is full, any other ─► as many redirects as it keeps places
//!    └─ nobody has room ─► here
//! ```

use std::time::Duration;

use super::directory::Found;
use super::relay::{Relay, Waiting};
use super::{Node, Purpose, Timer};
use crate::config::Moment;
use crate::engine::{Answered, Call, CallError, RequestId};
use crate::event::{Access, Event, ViewDecision, ViewerId};
use crate::name::{Key, NodeId, Region, StreamName};

/// Time after which a viewer gets a decision, whatever other nodes do.
const DECIDE_WITHIN: Duration = Duration::from_secs(2);

/// How long the reply that nobody has room is taken for true.
const FULL_FRESH: Duration = Duration::from_secs(3);

/// How long it is remembered who had room for viewers, after the last one was sent there.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// Most viewers who wait for a decision about one stream.
const WAITING_MAX: usize = 4_096;

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
    /// all of them at once. Whichever count is higher holds. Each further viewer takes a place that
    /// was kept.
    pub fn set_viewers(&mut self, now: Moment, name: &StreamName, count: u32) {
        self.now = now;
        if let Some(relay) = self.relays.get_mut(name) {
            let arrived = count.saturating_sub(relay.counted);
            let is_last_gone = count == 0 && relay.counted > 0;
            relay.counted = count;
            self.places_taken(name, arrived);
            if is_last_gone {
                self.consider_linger(name);
            }
        }
    }

    /// Returns how many viewers of a stream are served here.
    pub fn viewers(&self, name: &StreamName) -> u32 {
        let relay = self.relays.get(name);
        relay.map_or(0, |it| it.viewers.max(it.counted))
    }

    /// Decides about the viewers who wait, as far as enough is known.
    pub(super) fn serve_waiting(&mut self, name: &StreamName) {
        if self.relays.get(name).is_none_or(|it| it.waiting.is_empty()) {
            return;
        }
        if self.has_media(name) {
            self.serve_here(name);
            return self.place_elsewhere(name);
        }
        if self.relays.get(name).is_some_and(|it| it.request.is_some()) {
            return;
        }
        let found = self.fresh(name);
        let record = match found {
            None if self.presence.is_connected => return self.look_up(name),
            None | Some(Found::Nothing) => return self.answer_all(name, &ViewDecision::NotFound),
            Some(Found::Newer | Found::Damaged(_)) => {
                return self.answer_all(name, &ViewDecision::Unavailable);
            }
            Some(Found::Record(record, _)) => record,
        };
        if record.node == self.config.node {
            // This process does not publish it: the record is one of an earlier process, or is
            // about to be deleted.
            return self.answer_all(name, &ViewDecision::NotFound);
        }
        self.place_elsewhere(name);
    }

    /// Whether the stream is here, or on its way.
    pub(super) fn has_media(&self, name: &StreamName) -> bool {
        let relay = self.relays.get(name);
        let is_pulled = relay.is_some_and(|it| it.running.is_some() || it.starting.is_some());
        self.claims.is_serving(name) || is_pulled
    }

    /// Serves the waiting viewers here up to the limit, and those who can go nowhere else.
    fn serve_here(&mut self, name: &StreamName) {
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        let waiting = std::mem::take(&mut relay.waiting);
        let mut left = Vec::new();
        for waiting in waiting {
            if waiting.access == Access::Here || self.room(name) > 0 {
                self.decide(&waiting, name, ViewDecision::Here);
            } else {
                left.push(waiting);
            }
        }
        if let Some(relay) = self.relays.get_mut(name) {
            relay.waiting = left;
        }
        self.end_round(name);
    }

    /// Asks other nodes for places for the viewers who wait. Whoever finds none is served here.
    fn place_elsewhere(&mut self, name: &StreamName) {
        let now = self.now.at;
        let Some(relay) = self.relays.get(name) else {
            return;
        };
        if relay.waiting.is_empty() || relay.request.is_some() {
            return;
        }
        let may_all_wait = relay.waiting.iter().all(|it| it.access == Access::Here);
        let is_full = relay.places.full_at.is_some_and(|at| now - at < FULL_FRESH);
        if may_all_wait || is_full || !self.presence.is_connected {
            return self.serve_rest_here(name);
        }
        if let Some(node) = self.next_to_ask(name) {
            return self.ask_for_places(name, node);
        }
        // Nobody who has the stream has room: this node takes them, and once it is full, any other.
        self.serve_here(name);
        if !self.has_media(name) && self.relays.get(name).is_some_and(Relay::is_needed) {
            self.find_source(name);
        }
        let relay = self.relays.get(name);
        if relay.is_none_or(|it| it.waiting.is_empty() || it.request.is_some()) {
            return;
        }
        if let Some(node) = self.next_to_ask(name) {
            return self.ask_for_places(name, node);
        }
        if let Some(relay) = self.relays.get_mut(name) {
            relay.places.full_at = Some(now);
        }
        self.serve_rest_here(name);
    }

    /// Serves all who wait here, by a pull where the stream is not here.
    fn serve_rest_here(&mut self, name: &StreamName) {
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        for waiting in std::mem::take(&mut relay.waiting) {
            self.decide(&waiting, name, ViewDecision::Here);
        }
        self.end_round(name);
        if !self.has_media(name) {
            self.find_source(name);
        }
    }

    pub(super) fn decide(&mut self, waiting: &Waiting, name: &StreamName, decision: ViewDecision) {
        if decision == ViewDecision::Here {
            if waiting.access == Access::Here {
                if let Some(relay) = self.relays.get_mut(name) {
                    relay.viewers += 1;
                    relay.dues.linger = None;
                }
            } else {
                self.keep_places(name, 1);
            }
        }
        self.view_event(waiting.viewer, name, decision);
    }

    /// Ends the search for places once nobody waits. What it found out is kept for a while: more
    /// viewers may come.
    pub(super) fn end_round(&mut self, name: &StreamName) {
        let at = self.now.at + KNOWN_FOR;
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        if !relay.waiting.is_empty() {
            return;
        }
        relay.places.round = None;
        if !relay.is_needed() && relay.dues.linger.is_none() {
            relay.dues.linger = Some(at);
            self.timers.set(at, Timer::Relay(name.clone()));
        }
    }

    fn answer_all(&mut self, name: &StreamName, decision: &ViewDecision) {
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        relay.places.round = None;
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
                self.read_again(name, entry.as_ref());
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

    /// Decides about viewers who waited too long.
    pub(super) fn waited_too_long(&mut self, name: &StreamName) {
        let now = self.now.at;
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        if relay.waiting.iter().any(|it| it.until <= now) {
            (relay.request, relay.places.round) = (None, None);
            match self.known(name) {
                Some(_) => self.serve_rest_here(name),
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
