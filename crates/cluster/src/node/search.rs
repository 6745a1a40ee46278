//! The search for places for viewers: one node after the other is asked how many it keeps.
//!
//! Only the asked node itself keeps places. What it says about its children makes them candidates,
//! which are asked next.

use std::cmp::Reverse;
use std::time::Duration;

use super::relay::Round;
use super::{Node, Purpose};
use crate::engine::{Answered, CallError, RequestId};
use crate::event::{Access, ViewDecision};
use crate::name::{NodeId, StreamName};
use crate::question::{Holder, Live, Report};
use crate::record::NodeState;

/// How long a node may take to say how many places it keeps. Viewers wait meanwhile.
const PLACES_WITHIN: Duration = Duration::from_millis(500);

/// Most nodes that are asked for places, one after the other.
const ASKED_MAX: usize = 5;

/// Nodes without the stream that are asked for places when all that have it are full.
const STRANGERS: usize = 2;

impl Node {
    /// The next node that may have places: with the stream before without, and in this region first.
    pub(super) fn next_to_ask(&mut self, name: &StreamName) -> Option<NodeId> {
        if self.relays.get(name)?.places.round.is_none() {
            let first = self.first_to_ask(name);
            self.relays.get_mut(name)?.places.round = Some(Round::default());
            self.add_candidates(name, first);
        }
        let round = self.relays.get(name)?.places.round.as_ref()?;
        let may_ask_strangers = !round.has_strangers && self.room(name) == 0;
        let spreads = self.is_sending_away();
        if may_ask_strangers && (round.candidates.is_empty() || spreads) {
            let strangers = self.draw_strangers();
            self.relays
                .get_mut(name)?
                .places
                .round
                .as_mut()?
                .has_strangers = true;
            self.add_candidates(name, strangers);
        }
        let region = &self.config.region;
        let round = self.relays.get(name)?.places.round.as_ref()?;
        if round.asked.len() >= ASKED_MAX {
            return None;
        }
        let candidates = round.candidates.iter().enumerate();
        // Whoever is sent away goes where the fewest viewers are.
        let by_viewers = |it: &Holder| spreads.then(|| Reverse(self.viewers_of(it)));
        let rank = |(_, it): &(usize, &Holder)| (by_viewers(it), it.rank(region, it.room));
        let (best, _) = candidates.max_by_key(rank)?;
        let round = self.relays.get_mut(name)?.places.round.as_mut()?;
        let node = round.candidates.swap_remove(best).node;
        round.asked.push(node.clone());
        Some(node)
    }

    /// Nodes to begin with: those that pull from here, or else whoever had room last, or the owner.
    fn first_to_ask(&self, name: &StreamName) -> Vec<Holder> {
        let Some(relay) = self.relays.get(name) else {
            return Vec::new();
        };
        if self.has_media(name) {
            let children = relay.children.values();
            return children.filter_map(|it| it.holder.clone()).collect();
        }
        let contact = relay.contact.clone();
        contact
            .or_else(|| Some(self.known(name)?.node.clone()))
            .map(|node| self.unknown_holder(name, node))
            .into_iter()
            .collect()
    }

    /// A node of which only its own reply will say what it has.
    fn unknown_holder(&self, name: &StreamName, node: NodeId) -> Holder {
        let own = &self.config.record;
        let known = self.directory.nodes.get(&node).map(|it| &it.record);
        let region = self.region_of(name, &node);
        Holder {
            http: known.map_or(own.http.clone(), |it| it.http.clone()),
            rtsp: known.map_or(own.rtsp.clone(), |it| it.rtsp.clone()),
            region: region.unwrap_or_else(|| self.config.region.clone()),
            room: 1,
            slots: 0,
            hops: 0,
            busy: 0,
            node,
        }
    }

    /// Some nodes that serve, whether they have the stream or not: drawn, so that not all ask the
    /// same ones, or those with the fewest viewers while this node sends viewers away.
    fn draw_strangers(&mut self) -> Vec<Holder> {
        let peers = self.peers.iter();
        let free = peers.filter(|(_, it)| it.takes_viewers());
        let mut free: Vec<(NodeId, u32)> = free
            .map(|(node, it)| (node.clone(), it.load.busy))
            .collect();
        let spreads = self.is_sending_away();
        if spreads {
            let viewers = |node: &NodeId| self.peers.get(node).map_or(0, |it| it.load.viewers);
            free.sort_by_key(|(node, _)| viewers(node));
        }
        let mut drawn = Vec::new();
        while drawn.len() < STRANGERS && !free.is_empty() {
            let index = match spreads {
                true => 0,
                false => usize::try_from(self.rng.below(free.len() as u64)).unwrap_or(0),
            };
            let (node, busy) = free.remove(index);
            let Some(record) = self.address(&node) else {
                continue;
            };
            drawn.push(Holder {
                region: record.region.clone(),
                http: record.http.clone(),
                rtsp: record.rtsp.clone(),
                room: 1,
                slots: 0,
                hops: u32::MAX,
                busy,
                node,
            });
        }
        drawn
    }

    /// Adds nodes that a viewer who waits can be sent to.
    fn add_candidates(&mut self, name: &StreamName, holders: Vec<Holder>) {
        let (me, region) = (&self.config.node, &self.config.region);
        let may_go_far = self.config.redirects_far;
        let peers = &self.peers;
        let serves = |node: &NodeId| {
            let peer = peers.get(node);
            peer.is_none_or(|it| !it.is_dead && it.state == NodeState::Serving)
        };
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        let (waiting, Some(round)) = (&relay.waiting, &mut relay.places.round) else {
            return;
        };
        for holder in holders {
            let is_new = !round.asked.contains(&holder.node)
                && round.candidates.iter().all(|it| it.node != holder.node);
            let fits = waiting.iter().any(|it| url(&holder, it.access).is_some());
            let is_near = may_go_far || holder.region == *region;
            let is_open = holder.room > 0 && holder.node != *me && serves(&holder.node);
            if is_new && fits && is_near && is_open {
                round.candidates.push(holder);
            }
        }
    }

    pub(super) fn ask_for_places(&mut self, name: &StreamName, node: NodeId) {
        let Some(relay) = self.relays.get(name) else {
            return;
        };
        let follow = relay.waiting.iter().filter(|it| it.access != Access::Here);
        let places = u32::try_from(follow.count()).unwrap_or(u32::MAX);
        let live = Live {
            places,
            ..self.live(name)
        };
        let id = self.ask(Purpose::Places(name.clone()), &node, live, PLACES_WITHIN);
        if let Some(relay) = self.relays.get_mut(name) {
            (relay.request, relay.asked) = (Some(id), Some(node));
            if let Some(round) = &mut relay.places.round {
                round.wanted = places;
            }
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
        let Some(asked) = relay.asked.take() else {
            return;
        };
        let mut holders = Report::in_answer(result).map_or_else(Vec::new, |it| it.holders);
        let own = holders.iter().position(|it| it.node == asked);
        let own = own.map(|index| holders.swap_remove(index));
        let kept = own.as_ref().map_or(0, |it| it.room);
        if let Some(own) = own {
            self.send_to(name, &own);
            let relay = self.relays.get_mut(name);
            let round = relay.and_then(|it| it.places.round.as_mut());
            if let Some(round) = round.filter(|it| it.wanted == kept) {
                // It kept all that it was asked for, and may have more for those who came meanwhile.
                round.asked.retain(|it| *it != asked);
                holders.push(own);
            }
        }
        if kept == 0 {
            holders.extend(self.owner_instead_of(name, &asked));
        }
        self.add_candidates(name, holders);
        self.serve_waiting(name);
        self.find_source_if_needed(name);
    }

    /// Sends as many waiting viewers to a node as it keeps places.
    fn send_to(&mut self, name: &StreamName, holder: &Holder) {
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        if holder.room > 0 && holder.hops > 0 && holder.region == self.config.region {
            relay.contact = Some(holder.node.clone());
        }
        let mut places = holder.room;
        let waiting = std::mem::take(&mut relay.waiting);
        let mut left = Vec::new();
        for waiting in waiting {
            if places > 0 && url(holder, waiting.access).is_some() {
                places -= 1;
                self.decide(&waiting, name, redirect(holder));
            } else {
                left.push(waiting);
            }
        }
        if let Some(relay) = self.relays.get_mut(name) {
            // Viewers who came while the node was asked were not among those it keeps places for.
            relay.waiting = left;
            let child = relay.children.get_mut(&holder.node);
            if let Some(child) = child.and_then(|it| it.holder.as_mut()) {
                child.room = places.max(u32::from(holder.room > 0));
            }
        }
        self.end_round(name);
    }

    /// The owner, to be asked after a contact that has no room any more.
    fn owner_instead_of(&mut self, name: &StreamName, asked: &NodeId) -> Option<Holder> {
        let relay = self.relays.get_mut(name)?;
        relay.contact.take_if(|it| it == asked)?;
        let owner = self.known(name)?.node.clone();
        Some(self.unknown_holder(name, owner))
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
