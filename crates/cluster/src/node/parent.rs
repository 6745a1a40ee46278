//! Choosing the node that a stream is pulled from, and beginning the pull.

use std::time::Duration;

use super::pulls::{FAILED_FOR, STARTS_WITHIN};
use super::relay::{PATH_MAX, Starting};
use super::{Node, Purpose, Timer};
use crate::engine::{Answered, CallError, RequestId};
use crate::event::Event;
use crate::name::{NodeId, StreamName};
use crate::question::{Holder, Live, Report};

/// How many nodes are asked, one below the other, for a place for a pull.
const DEPTH_MAX: u32 = 3;

/// How long a node may take to say which nodes have the stream.
const ASKED_WITHIN: Duration = Duration::from_secs(1);

/// Attempts after which a pull that finds no place goes to the owner. Children that were promised a
/// place have begun their pulls by then, and have places of their own.
const PATIENT_AFTER: u32 = 4;

impl Node {
    pub(super) fn find_source_if_needed(&mut self, name: &StreamName) {
        let relay = self.relays.get(name);
        let is_open = relay.is_some_and(|it| it.is_needed() && it.request.is_none());
        if is_open && !self.is_current(name) {
            self.find_source(name);
        }
    }

    /// Whether a pull of the highest known epoch runs or starts, or the media is this node's.
    pub(super) fn is_current(&self, name: &StreamName) -> bool {
        let Some(relay) = self.relays.get(name) else {
            return true;
        };
        let runs = relay.running.as_ref();
        let runs = runs
            .is_some_and(|it| it.fence >= relay.highest && !relay.failed.contains_key(&it.from));
        runs || relay.starting.is_some() || self.claims.is_serving(name)
    }

    /// Asks for a node to pull from.
    pub(super) fn find_source(&mut self, name: &StreamName) {
        if self.is_current(name) {
            return;
        }
        let me = &self.config.node;
        let owner = self.known(name).map(|it| it.node.clone());
        let Some(owner) = owner.filter(|it| it != me) else {
            return self.retry_pull(name);
        };
        if !self.presence.is_connected {
            return self.choose_source(name);
        }
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        if relay.request.is_some() {
            return;
        }
        relay.depth = 0;
        if !relay.is_watched {
            relay.is_watched = true;
            self.watch(name);
        }
        let first = self.whom_to_ask(name, owner);
        self.ask_for_parents(name, first);
    }

    /// The owner, whose children are the fewest hops away; in another region, the contact of this
    /// one; or, if the owner cannot be reached from here, a third node that may reach it.
    fn whom_to_ask(&mut self, name: &StreamName, owner: NodeId) -> NodeId {
        let is_near = self.region_of(name, &owner).as_ref() == Some(&self.config.region);
        let Some(relay) = self.relays.get(name) else {
            return owner;
        };
        let is_cut = relay.failed.contains_key(&owner) && relay.attempts > 2;
        if is_near && !is_cut {
            return owner;
        }
        let contact = relay
            .contact
            .clone()
            .filter(|it| !relay.failed.contains_key(it));
        if let Some(contact) = contact {
            return contact;
        }
        let peers = self.peers.iter().filter(|(node, it)| {
            !it.is_dead && **node != owner && !relay.failed.contains_key(*node)
        });
        let peers: Vec<&NodeId> = peers.map(|(node, _)| node).collect();
        if !is_cut || peers.is_empty() {
            return owner;
        }
        let drawn = usize::try_from(self.rng.below(peers.len() as u64)).unwrap_or_default();
        let third = peers.get(drawn).map_or(owner, |it| (*it).clone());
        if let Some(relay) = self.relays.get_mut(name) {
            relay.contact = Some(third.clone());
        }
        third
    }

    /// Asks a node which nodes have the stream and a place for a pull.
    fn ask_for_parents(&mut self, name: &StreamName, node: NodeId) {
        let stall = self.relays.get(name).and_then(|it| it.stall.as_ref());
        let live = Live {
            pull: true,
            lost: stall.and_then(|it| it.lost.clone()),
            ..self.live(name)
        };
        let id = self.ask(Purpose::Parents(name.clone()), &node, live, ASKED_WITHIN);
        if let Some(relay) = self.relays.get_mut(name) {
            (relay.request, relay.asked) = (Some(id), Some(node));
        }
    }

    pub(super) fn on_parents(
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
        let report = Report::in_answer(result);
        let report = report.filter(|it| it.epoch > 0 || !it.holders.is_empty());
        if report.is_none() {
            // A contact that no longer has the stream: its owner knows.
            relay.contact.take_if(|it| asked.as_ref() == Some(it));
        }
        relay.holders = report.map_or_else(Vec::new, |it| it.holders);
        let region = &self.config.region;
        let near = relay.holders.iter().filter(|it| it.region == *region);
        let near = near.filter(|it| it.node != self.config.node);
        let has_room = near.clone().any(|it| it.slots > 0);
        let below = near.filter(|it| Some(&it.node) != asked.as_ref());
        let below = below.max_by_key(|it| it.rank(region, it.room));
        let below = below.map(|it| it.node.clone());
        if let Some(below) = below.filter(|_| !has_room && relay.depth < DEPTH_MAX) {
            relay.depth += 1;
            return self.ask_for_parents(name, below);
        }
        self.choose_source(name);
        self.serve_waiting(name);
    }

    /// Chooses among the holders that were reported, and begins to pull.
    pub(super) fn choose_source(&mut self, name: &StreamName) {
        let Some(relay) = self.relays.get(name) else {
            return;
        };
        if self.is_current(name) || relay.request.is_some() || !relay.is_needed() {
            return;
        }
        let now = self.now.at;
        let owner = self.known(name).map(|it| it.node.clone());
        let (region, me) = (&self.config.region, &self.config.node);
        let is_failed = |node: &NodeId| {
            relay
                .failed
                .get(node)
                .is_some_and(|at| now - *at < FAILED_FOR)
                || self.peers.get(node).is_some_and(|it| it.is_dead)
        };
        let fits = |it: &&Holder| {
            it.slots > 0 && it.node != *me && (it.hops as usize) < PATH_MAX && !is_failed(&it.node)
        };
        let holders = relay.holders.iter().filter(fits);
        let best = holders.max_by_key(|it| it.rank(region, it.slots));
        let is_patient = relay.attempts >= PATIENT_AFTER
            || !self.presence.is_connected
            || relay.holders.is_empty();
        let from = match best {
            Some(holder) => Some(holder.node.clone()),
            // Limits are soft: a pull that finds no slot goes to the owner after some tries.
            None => owner
                .filter(|it| it != me && is_patient && (!is_failed(it) || relay.attempts % 2 == 0)),
        };
        match from {
            Some(from) => {
                if let Some(relay) = self.relays.get_mut(name) {
                    relay.contact = Some(from.clone());
                }
                self.begin_pull(name, &from);
            }
            None => self.retry_pull(name),
        }
    }

    fn begin_pull(&mut self, name: &StreamName, from: &NodeId) {
        let since = self.now.at;
        let address = self.address(from).cloned();
        let region = self.region_of(name, from);
        let pull = address.as_ref().map(|_| self.next_pull());
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        relay.starting = Some(Starting {
            pull,
            from: from.clone(),
            since,
        });
        let timer = Timer::Relay(name.clone());
        self.timers.set(since + STARTS_WITHIN, timer);
        if let (Some(record), Some(pull)) = (address, pull) {
            let (name, from) = (name.clone(), from.clone());
            let record = Box::new(record);
            self.events.push_back(Event::Pull {
                pull,
                name,
                from,
                record,
            });
        } else if let Some(region) = region {
            self.read_node(from, &region);
        }
    }

    /// The address of a node was read: pulls that waited for it begin.
    pub(super) fn on_address(&mut self, node: &NodeId) {
        let relays = self.relays.iter();
        let waits = relays.filter(|(_, relay)| {
            let starting = relay.starting.as_ref();
            starting.is_some_and(|it| it.pull.is_none() && it.from == *node)
        });
        let names: Vec<StreamName> = waits.map(|(name, _)| name.clone()).collect();
        let is_known = self.address(node).is_some();
        for name in names {
            if let Some(relay) = self.relays.get_mut(&name) {
                relay.starting = None;
                if !is_known {
                    relay.failed.insert(node.clone(), self.now.at);
                }
            }
            match is_known {
                true => self.begin_pull(&name, node),
                false => self.retry_pull(&name),
            }
        }
    }
}
