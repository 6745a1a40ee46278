//! Hubs and pulls: what is shown under a name at a node, and where it comes from.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{Happening, World};
use glassline_cluster::name::{NodeId, StreamName};
use glassline_cluster::record::{Fence, NodeRecord};
use glassline_cluster::{Admission, Catalog, PullId};

/// Silence after which a server tells its node that a pull brings nothing.
const STALLED_AFTER: Duration = Duration::from_millis(400);

/// Interval at which the simulation looks which pulls bring frames.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// The stream that a node shows under one name.
#[derive(Debug, Default)]
pub(super) struct Hub {
    pub(super) source: Option<Source>,
    /// When a frame came last, by the looks at it.
    pub(super) heard: Option<Instant>,
    /// Whether the node was told that its pull brings nothing.
    is_stalled: bool,
    /// Pulls of other nodes from here.
    pub(super) dependents: BTreeSet<(usize, PullId)>,
}

/// Where the media of a hub comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Own(Fence),
    Pull {
        pull: PullId,
        from: usize,
        fence: Fence,
        path: Vec<NodeId>,
    },
}

impl Source {
    pub(super) const fn fence(&self) -> Fence {
        match self {
            Self::Own(fence) | Self::Pull { fence, .. } => *fence,
        }
    }
}

impl World {
    /// Number of the running process, by which events for an earlier one are told apart.
    pub(super) fn inc(&self, index: usize) -> u64 {
        self.processes[index].config.record.inc
    }

    fn is_same(&self, index: usize, inc: u64) -> bool {
        self.processes[index].node.is_some() && self.inc(index) == inc
    }

    pub(super) fn pull_begins(
        &mut self,
        index: usize,
        pull: PullId,
        name: StreamName,
        from: &NodeId,
        record: &NodeRecord,
    ) {
        self.processes[index].counts.pulls += 1;
        let inc = self.inc(index);
        let source = self.index.get(from).copied();
        let reached = source.filter(|it| self.is_reachable(index, *it));
        let is_right = |it: &usize| self.processes[*it].config.record.quic == record.quic;
        match reached.filter(is_right) {
            Some(source) => {
                let time = Duration::from_micros(5_000 + self.rng.below(25_000));
                self.schedule_in(time, Happening::Connected(index, inc, pull, name, source));
            }
            None => {
                let time = Duration::from_secs(1);
                self.schedule_in(time, Happening::PullFails(index, inc, pull, name));
            }
        }
    }

    pub(super) fn connected(&mut self, index: usize, pull: PullId, name: StreamName, from: usize) {
        let inc = self.inc(index);
        if self.offers(index, from, &name) {
            // Until the next keyframe, or at once from the keyframe cache.
            let time = Duration::from_micros(self.rng.below(400_000));
            self.schedule_in(time, Happening::Keyframe(index, inc, pull, name, from));
        } else {
            let time = Duration::from_millis(10);
            self.schedule_in(time, Happening::PullFails(index, inc, pull, name));
        }
    }

    fn offers(&self, index: usize, from: usize, name: &StreamName) -> bool {
        let source = &self.processes[from];
        let node = source.node.as_ref();
        let has_media = source.hubs.get(name).is_some_and(|it| it.source.is_some());
        has_media && self.is_reachable(index, from) && node.is_some_and(|node| node.announced(name))
    }

    pub(super) fn keyframe(&mut self, index: usize, pull: PullId, name: &StreamName, from: usize) {
        if !self.offers(index, from, name) {
            let (inc, name) = (self.inc(index), name.clone());
            let time = Duration::from_millis(10);
            return self.schedule_in(time, Happening::PullFails(index, inc, pull, name));
        }
        let Some(catalog) = self.catalog(from, name) else {
            return;
        };
        let moment = self.moment(index);
        let Some(node) = &mut self.processes[index].node else {
            return;
        };
        let admission = node.admit(moment, pull, name, &catalog);
        let fence = Fence {
            epoch: catalog.epoch,
            inc: catalog.inc,
        };
        let source = Source::Pull {
            pull,
            from,
            fence,
            path: catalog.path,
        };
        let now = self.clock.now();
        let hub = self.processes[index].hubs.entry(name.clone()).or_default();
        let before = hub.source.as_ref();
        let fits = match (&admission, before) {
            (Admission::Begin, None) | (Admission::End, _) => true,
            (Admission::Replace(old), Some(Source::Pull { pull, .. })) => pull == old,
            _ => false,
        };
        if !fits {
            let seen = format!("{name} at node {index}: {admission:?} while {before:?} is shown");
            self.history.break_rule(now, &seen);
        }
        if admission != Admission::End {
            let inc = self.inc(index);
            let is_replaced = matches!(admission, Admission::Replace(_));
            self.history.shown(now, inc, name, fence, is_replaced);
            self.set_source(index, name, Some(source));
            let above = self.processes[from].hubs.entry(name.clone()).or_default();
            above.dependents.insert((index, pull));
        }
        self.settle(index);
    }

    fn catalog(&self, from: usize, name: &StreamName) -> Option<Catalog> {
        let process = &self.processes[from];
        let source = process.hubs.get(name)?.source.as_ref()?;
        let mut path = match source {
            Source::Own(_) => Vec::new(),
            Source::Pull { path, .. } => path.clone(),
        };
        path.push(process.id.clone());
        let Fence { epoch, inc } = source.fence();
        Some(Catalog { epoch, inc, path })
    }

    /// Puts media into a hub or takes it out. Pulls of another epoch from there end.
    pub(super) fn set_source(&mut self, index: usize, name: &StreamName, source: Option<Source>) {
        let now = self.clock.now();
        let hub = self.processes[index].hubs.entry(name.clone()).or_default();
        let before = hub.source.take().map(|it| it.fence());
        let after = source.as_ref().map(Source::fence);
        hub.source = source;
        (hub.heard, hub.is_stalled) = (Some(now), false);
        if before != after && before.is_some() {
            self.source_gone(index, name, Duration::from_millis(20));
        }
    }

    /// Looks which pulls bring frames, and tells their nodes about those that do not.
    pub(super) fn look_at_pulls(&mut self) {
        for index in 0..self.processes.len() {
            if !self.is_up(index) {
                continue;
            }
            let hubs = self.processes[index].hubs.iter();
            let pulls = hubs.filter_map(|(name, hub)| match &hub.source {
                Some(Source::Pull { pull, .. }) => Some((name.clone(), *pull)),
                _ => None,
            });
            let pulls: Vec<_> = pulls.collect();
            for (name, pull) in pulls {
                let flows = self.flows(index, &name);
                self.note_flow(index, &name, pull, flows);
            }
            self.settle(index);
        }
    }

    /// Returns the node from which a node pulls a stream.
    pub fn parent(&self, index: usize, name: &StreamName) -> Option<usize> {
        match self.processes[index].hubs.get(name)?.source.as_ref()? {
            Source::Pull { from, .. } => Some(*from),
            Source::Own(_) => None,
        }
    }

    /// Whether frames reach a node: every node on their way works.
    pub fn flows(&self, index: usize, name: &StreamName) -> bool {
        let mut at = index;
        for _ in 0..self.processes.len() {
            let hub = self.processes[at].hubs.get(name);
            match hub.and_then(|it| it.source.as_ref()) {
                Some(Source::Own(_)) => return self.is_up(at),
                Some(Source::Pull { from, .. }) if self.is_reachable(at, *from) => at = *from,
                _ => return false,
            }
        }
        false
    }

    fn note_flow(&mut self, index: usize, name: &StreamName, pull: PullId, flows: bool) {
        let (now, moment) = (self.clock.now(), self.moment(index));
        let process = &mut self.processes[index];
        let (Some(hub), Some(node)) = (process.hubs.get_mut(name), &mut process.node) else {
            return;
        };
        let heard = hub.heard.unwrap_or(now);
        if flows {
            hub.heard = Some(now);
            if std::mem::take(&mut hub.is_stalled) {
                node.pull_resumed(moment, pull, name);
            }
        } else if !hub.is_stalled && now - heard >= STALLED_AFTER {
            hub.is_stalled = true;
            node.pull_stalled(moment, pull, name, heard);
        }
    }

    /// Everybody who pulls a name from a node loses it after a time.
    pub(super) fn source_gone(&mut self, index: usize, name: &StreamName, time: Duration) {
        let hub = self.processes[index].hubs.get_mut(name);
        let dependents = hub.map(|it| std::mem::take(&mut it.dependents));
        for (child, pull) in dependents.unwrap_or_default() {
            let inc = self.inc(child);
            let name = name.clone();
            self.schedule_in(time, Happening::PullFails(child, inc, pull, name));
        }
    }

    /// Pulls over a link that was cut end when the connection times out.
    pub(super) fn link_breaks(&mut self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            let mut lost = Vec::new();
            for (name, hub) in &mut self.processes[from].hubs {
                let gone = hub.dependents.iter().filter(|(child, _)| *child == to);
                lost.extend(gone.map(|(_, pull)| (name.clone(), *pull)));
                hub.dependents.retain(|(child, _)| *child != to);
            }
            let inc = self.inc(to);
            for (name, pull) in lost {
                let time = Duration::from_secs(3);
                self.schedule_in(time, Happening::PullFails(to, inc, pull, name));
            }
        }
    }

    pub(super) fn pull_fails(&mut self, index: usize, pull: PullId, name: &StreamName) {
        self.pull_ends(index, pull, name);
        let moment = self.moment(index);
        if let Some(node) = &mut self.processes[index].node {
            node.pull_failed(moment, pull, name);
            self.settle(index);
        }
    }

    /// Takes a pull out of the hub, if it is there.
    pub(super) fn pull_ends(&mut self, index: usize, pull: PullId, name: &StreamName) {
        let hub = self.processes[index].hubs.get(name);
        let from = match hub.and_then(|it| it.source.as_ref()) {
            Some(Source::Pull {
                pull: shown, from, ..
            }) if *shown == pull => *from,
            _ => return,
        };
        self.set_source(index, name, None);
        if let Some(above) = self.processes[from].hubs.get_mut(name) {
            above.dependents.remove(&(index, pull));
        }
    }

    pub(super) fn happen_to_media(&mut self, happening: Happening) {
        match happening {
            Happening::Connected(index, inc, pull, name, from) if self.is_same(index, inc) => {
                self.when_up(index, Happening::Connected(index, inc, pull, name, from));
            }
            Happening::Keyframe(index, inc, pull, name, from) if self.is_same(index, inc) => {
                self.when_up(index, Happening::Keyframe(index, inc, pull, name, from));
            }
            Happening::PullFails(index, inc, pull, name) if self.is_same(index, inc) => {
                self.when_up(index, Happening::PullFails(index, inc, pull, name));
            }
            Happening::Probed(index, inc, probe, result) if self.is_same(index, inc) => {
                self.when_up(index, Happening::Probed(index, inc, probe, result));
            }
            Happening::ViewerLeaves(index, inc, name) if self.is_same(index, inc) => {
                self.when_up(index, Happening::ViewerLeaves(index, inc, name));
            }
            Happening::Frame(publisher) => self.frame(publisher),
            Happening::SourceFrame(index, name) => self.source_frame(index, &name),
            Happening::Viewer(index, name, asking) => self.viewer_asks(index, &name, asking),
            _ => {}
        }
    }

    /// A process that is stopped sees what happens when it goes on.
    fn when_up(&mut self, index: usize, happening: Happening) {
        if let Some(until) = self.processes[index].paused_until {
            return self.schedule(until + Duration::from_millis(1), happening);
        }
        let moment = self.moment(index);
        match happening {
            Happening::Connected(index, _, pull, name, from) => {
                self.connected(index, pull, name, from);
            }
            Happening::Keyframe(index, _, pull, name, from) => {
                self.keyframe(index, pull, &name, from);
            }
            Happening::PullFails(index, _, pull, name) => self.pull_fails(index, pull, &name),
            Happening::Probed(index, _, probe, result) => {
                if let Some(node) = &mut self.processes[index].node {
                    node.handle_probe(moment, probe, &result);
                    self.settle(index);
                }
            }
            Happening::ViewerLeaves(index, _, name) => {
                self.processes[index].viewers -= 1;
                self.count_viewers(index, &name, -1);
                if let Some(node) = &mut self.processes[index].node {
                    node.viewer_left(moment, &name);
                    self.settle(index);
                }
            }
            _ => {}
        }
    }
}
