//! Nodes that pull from this one, and replies to what other nodes ask.

use std::cmp::Reverse;
use std::time::Duration;

use bytes::Bytes;

use super::directory::Found;
use super::relay::{Child, PATH_MAX};
use super::{Node, Purpose};
use crate::config::Moment;
use crate::engine::{Answered, Call, CallError};
use crate::liveness::TOO_BUSY;
use crate::name::{Key, NodeId, StreamName};
use crate::question::{HOLDERS_MAX, Holder, Live, Question, Report};

/// A child that told nothing for this time is gone: two of its reports are missing.
const CHILD_FOR: Duration = Duration::from_secs(50);

/// A node that was promised a slot has this long to begin its pull.
const PROMISE_FOR: Duration = Duration::from_secs(6);

/// Slots for each stream that remain when a node has many children over all streams.
const SLOTS_MIN: u32 = 2;

/// Most nodes that are remembered as children of one stream.
const CHILDREN_MAX: usize = 1_000;

impl Node {
    /// Replies to a question that another node sent over QUIC instead of the engine, as
    /// [`crate::Event::Probe`] asks for; `None` for what is no question.
    pub fn handle_question(&mut self, now: Moment, from: &NodeId, payload: &[u8]) -> Option<Bytes> {
        self.now = now;
        self.on_question(from, payload)
    }

    /// Replies to a question; `None` for what is no question.
    pub(super) fn on_question(&mut self, from: &NodeId, payload: &[u8]) -> Option<Bytes> {
        let question = Question::parse(payload).ok()?;
        let mut report = Report {
            inc: self.incarnation(),
            ..Report::default()
        };
        match question {
            Question::Greet { inc } => {
                return self.on_greeting(from, inc).map(|it| it.to_payload());
            }
            Question::Live(live) => self.reply_live(from, &live, &mut report),
            Question::Adopt { name, child } => {
                report.epoch = self.epoch_of(&name);
                if report.epoch > 0 && child.node == *from {
                    self.adopt(&name, child);
                }
            }
            Question::Leave { name } => {
                self.disown(&name, from);
                self.consider_linger(&name);
            }
            Question::Moving { name } => {
                let now = self.now.at;
                let relay = self.relays.get_mut(&name);
                let relay =
                    relay.filter(|it| it.running.as_ref().is_some_and(|it| it.from == *from));
                if let Some(relay) = relay {
                    relay.failed.insert(from.clone(), now);
                    self.retry_pull(&name);
                }
            }
        }
        Some(report.to_payload())
    }

    fn reply_live(&mut self, from: &NodeId, live: &Live, report: &mut Report) {
        let (now, name) = (self.now.at, &live.name);
        if let Some(lost) = live.lost.as_ref().filter(|it| *it != from) {
            self.disown(name, lost);
        }
        report.epoch = self.epoch_of(name);
        report.publishing = self.claims.is_publishing(name, now);
        if report.epoch == 0 && !self.claims.has(name) {
            // The asking node may have read a record that this node left behind.
            self.look_for_orphan(name);
        }
        report.silent_ms = self.claims.silent_for(name, now);
        report.holders = match live.places {
            0 => self.own_holder(name).into_iter().collect(),
            places => vec![self.keep_asked_places(name, places)],
        };
        report.holders.extend(self.children_for(from, live));
        if live.pull {
            self.promise_slot(from, live, &report.holders);
        }
    }

    /// The children that serve the asking node best, by places for pulls or for viewers.
    fn children_for(&self, from: &NodeId, live: &Live) -> Vec<Holder> {
        let children = self.relays.get(&live.name).into_iter();
        let children = children.flat_map(|it| it.children.iter());
        let others = children.filter(|(node, _)| *node != from);
        let mut below: Vec<&Holder> = others
            .filter_map(|(_, child)| child.holder.as_ref())
            .collect();
        let free = |it: &Holder| if live.pull { it.slots } else { it.room };
        below.sort_by_cached_key(|it| Reverse((free(it) > 0, it.rank(&live.region, free(it)))));
        below.truncate(HOLDERS_MAX - 1);
        below.into_iter().cloned().collect()
    }

    /// Keeps a place where the asking node will choose to pull: here, or at a child, of which the
    /// next asking node is told one place less.
    fn promise_slot(&mut self, from: &NodeId, live: &Live, holders: &[Holder]) {
        let Live { name, region, .. } = live;
        let free = holders.iter().filter(|it| it.slots > 0);
        let best = free.max_by_key(|it| it.rank(region, it.slots));
        let me = &self.config.node;
        let has_it = holders.iter().any(|it| it.node == *me);
        match best {
            Some(best) if best.node != *me => {
                let relay = self.relays.get_mut(name);
                let child = relay.and_then(|it| it.children.get_mut(&best.node));
                if let Some(holder) = child.and_then(|it| it.holder.as_mut()) {
                    holder.slots -= 1;
                }
            }
            Some(_) => self.promise(from, name),
            // Not here yet: the asking node may not reach the owner itself.
            None if !has_it => self.promise(from, name),
            None => {}
        }
    }

    /// Forgets a child.
    fn disown(&mut self, name: &StreamName, child: &NodeId) {
        if let Some(relay) = self.relays.get_mut(name)
            && relay.children.remove(child).is_some()
        {
            self.children -= 1;
        }
    }

    /// Reads a name that others believe to be here, whatever notices said.
    fn look_for_orphan(&mut self, name: &StreamName) {
        let key = Key::Stream(name.clone());
        self.call(Purpose::Orphan(name.clone()), Call::Get { key });
    }

    pub(super) fn on_orphan_read(
        &mut self,
        name: &StreamName,
        result: Result<Answered, CallError>,
    ) {
        if let Ok(Answered::Got(entry)) = result
            && !self.claims.has(name)
        {
            self.release_orphan(name, &Found::new(entry.as_ref()));
        }
    }

    /// Epoch of what this node holds or pulls under a name; 0 for none.
    fn epoch_of(&self, name: &StreamName) -> u64 {
        let relay = self.relays.get(name);
        let pulled = relay.and_then(|it| Some(it.running.as_ref()?.fence.epoch));
        self.claims.owned_epoch(name).or(pulled).unwrap_or(0)
    }

    /// The description of this node and of a stream that it announces, for others.
    pub(super) fn own_holder(&self, name: &StreamName) -> Option<Holder> {
        if !self.announced(name) && self.relays.get(name).is_none_or(|it| it.running.is_none()) {
            return None;
        }
        let relay = self.relays.get(name);
        let running = relay.and_then(|it| it.running.as_ref());
        let hops = running.map_or(1, |it| it.path.len() + 1);
        let children = relay.map_or(0, |it| it.children.len());
        let is_draining = self.presence.is_draining();
        let in_all = self
            .config
            .children_in_all_max
            .saturating_sub(self.children_in_all());
        let most = in_all.max(SLOTS_MIN).min(self.config.children_max);
        let slots = most.saturating_sub(u32::try_from(children).unwrap_or(u32::MAX));
        let is_last = hops >= PATH_MAX;
        let is_closed = is_draining || is_last || self.load.busy >= TOO_BUSY;
        let hops = u32::try_from(hops).unwrap_or(u32::MAX);
        let mut own = self.holder(hops, if is_closed { 0 } else { slots });
        own.room = self.room(name);
        Some(own)
    }

    /// This node as one that has room for no viewer.
    pub(super) fn holder(&self, hops: u32, slots: u32) -> Holder {
        Holder {
            node: self.config.node.clone(),
            region: self.config.region.clone(),
            http: self.config.record.http.clone(),
            rtsp: self.config.record.rtsp.clone(),
            room: 0,
            slots,
            hops,
            busy: self.load.busy,
        }
    }

    /// Returns how many pulls from this node run or were promised, over all streams.
    pub fn children_in_all(&self) -> u32 {
        u32::try_from(self.children).unwrap_or(u32::MAX)
    }

    /// Whether the number of children is that of all relays, for checks.
    pub fn counts_children_right(&self) -> bool {
        let children = self.relays.values().map(|it| it.children.len());
        children.sum::<usize>() == self.children
    }

    /// Keeps a slot for a node that is about to pull. A node without the stream begins to pull
    /// it: the asking one may not reach the owner itself.
    fn promise(&mut self, child: &NodeId, name: &StreamName) {
        let until = self.now.at + PROMISE_FOR;
        let has_it = self.claims.is_serving(name) || self.known(name).is_some();
        if !has_it {
            return;
        }
        let relay = self.relays.entry(name.clone()).or_default();
        if relay.children.len() < CHILDREN_MAX && !relay.children.contains_key(child) {
            let promised = Child {
                holder: None,
                until,
            };
            relay.children.insert(child.clone(), promised);
            self.children += 1;
        }
        relay.dues.linger = None;
        self.find_source_if_needed(name);
    }

    fn adopt(&mut self, name: &StreamName, child: Holder) {
        let until = self.now.at + CHILD_FOR;
        let relay = self.relays.entry(name.clone()).or_default();
        if relay.children.len() < CHILDREN_MAX || relay.children.contains_key(&child.node) {
            relay.dues.linger = None;
            let node = child.node.clone();
            let holder = Some(child);
            let before = relay.children.insert(node, Child { holder, until });
            self.children += usize::from(before.is_none());
        }
    }

    /// Forgets children that have told nothing for too long, and viewers who did not come; called
    /// once a second.
    pub(super) fn expire_children(&mut self) {
        let now = self.now.at;
        let mut left = Vec::new();
        for (name, relay) in &mut self.relays {
            let (children, kept) = (relay.children.len(), relay.places.kept.len());
            relay.children.retain(|_, child| child.until > now);
            relay.places.kept.retain(|until| *until > now);
            let (gone, free) = (
                children - relay.children.len(),
                kept - relay.places.kept.len(),
            );
            self.children -= gone;
            self.kept -= free;
            if gone + free > 0 && !relay.is_needed() {
                left.push(name.clone());
            }
        }
        for name in left {
            self.consider_linger(&name);
        }
    }

    /// Tells every child that this node is about to go.
    pub(super) fn tell_children_to_move(&mut self) {
        let mut told = Vec::new();
        for (name, relay) in &self.relays {
            // Where the stream is this node's own, there is no other node to pull it from.
            if !self.claims.is_serving(name) {
                told.extend(
                    relay
                        .children
                        .keys()
                        .map(|child| (name.clone(), child.clone())),
                );
            }
        }
        for (name, child) in told {
            self.tell(&child, Question::Moving { name }.to_payload());
        }
    }
}
