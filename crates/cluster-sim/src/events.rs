//! What the server would do about each decision of its node.

use std::time::Duration;

use super::media::Source;
use super::{Happening, Publisher, World};
use glassline_cluster::Event;
use glassline_cluster::name::{NodeId, StreamName};
use glassline_cluster::record::Fence;
use glassline_cluster::{
    Access, Policy, ProbeResult, PublishDecision, PublisherId, Refusal, ViewDecision, ViewerId,
};

/// Counts of what viewers were told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decisions {
    /// Viewers served at the node that they came to.
    pub here: u64,
    /// Viewers sent to another node.
    pub redirected: u64,
    /// Viewers who were told that there is no such stream.
    pub not_found: u64,
    /// Viewers who were told to try again.
    pub unavailable: u64,
    /// How long viewers stay; `None` for ever.
    pub stay: Option<Duration>,
}

/// Time between two frames that the simulation reports.
const FRAME_EVERY: Duration = Duration::from_millis(250);

impl World {
    /// A publisher connects to a node. Returns its number, or `None` if no process runs there.
    pub fn publish(
        &mut self,
        index: usize,
        name: &StreamName,
        policy: Policy,
    ) -> Option<PublisherId> {
        if !self.is_up(index) {
            return None;
        }
        let (now, moment, inc) = (self.clock.now(), self.moment(index), self.inc(index));
        self.next_publisher += 1;
        let id = PublisherId(self.next_publisher);
        let publisher = Publisher {
            at: index,
            name: name.clone(),
            inc,
            is_admitted: false,
        };
        self.publishers.insert(id, publisher);
        self.history.publish_begins(now, id, inc, name, policy);
        if let Some(node) = &mut self.processes[index].node {
            node.publish(moment, id, name, policy);
        }
        self.settle(index);
        Some(id)
    }

    /// A publisher leaves, admitted or not.
    pub fn unpublish(&mut self, id: PublisherId) {
        let Some(publisher) = self.publishers.get(&id) else {
            return;
        };
        let (index, name) = (publisher.at, publisher.name.clone());
        if self.processes[index].paused_until.is_some() {
            return;
        }
        self.publisher_gone(id);
        let moment = self.moment(index);
        if let Some(node) = &mut self.processes[index].node {
            node.publish_ended(moment, id, &name);
            self.settle(index);
        }
    }

    /// Returns whether a publisher is at a node.
    pub fn has_publisher(&self, index: usize) -> bool {
        self.publishers.values().any(|it| it.at == index)
    }

    /// Whether a publisher is served.
    pub fn is_admitted(&self, id: PublisherId) -> bool {
        self.publishers.get(&id).is_some_and(|it| it.is_admitted)
    }

    /// Puts a source into the configuration of several nodes; it holds from their next start.
    pub fn configure_source(&mut self, name: &StreamName, candidates: &[usize]) {
        let ids: Vec<NodeId> = candidates
            .iter()
            .map(|it| self.processes[*it].id.clone())
            .collect();
        for index in candidates {
            self.processes[*index]
                .sources
                .push((name.clone(), ids.clone()));
        }
    }

    /// Returns the nodes that are connected to a source.
    pub fn dialled(&self, name: &StreamName) -> Vec<usize> {
        let processes = self.processes.iter().enumerate();
        let dialled = processes.filter(|(_, it)| it.dialled.contains_key(name));
        dialled.map(|(index, _)| index).collect()
    }

    pub(super) fn on_event(&mut self, index: usize, event: Event) {
        let (now, inc) = (self.clock.now(), self.inc(index));
        match event {
            Event::Publish {
                publisher,
                name,
                decision,
            } => self.publish_decided(index, publisher, &name, decision),
            Event::Announce { name, epoch } => {
                let fence = Fence { epoch, inc };
                self.history.announced(now, inc, &name, epoch);
                self.set_source(index, &name, Some(Source::Own(fence)));
            }
            Event::Superseded {
                publisher, name, ..
            } => {
                self.publisher_gone(publisher);
                self.history.superseded(&name);
            }
            Event::Dial { name, epoch } => {
                self.own_media(index, &name, Fence { epoch, inc });
                self.history.dialled(now, inc, &name, epoch);
                self.processes[index].dialled.insert(name.clone(), now);
                self.schedule_in(FRAME_EVERY, Happening::SourceFrame(index, name));
            }
            Event::HangUp { name } => {
                self.processes[index].dialled.remove(&name);
                self.history.hung_up(now, inc, &name);
                self.set_source(index, &name, None);
            }
            Event::Viewer {
                viewer,
                name,
                decision,
            } => self.viewer_decided(index, viewer, name, decision),
            Event::Pull {
                pull,
                name,
                from,
                record,
            } => self.pull_begins(index, pull, name, &from, &record),
            Event::EndPull { pull, name } => self.pull_ends(index, pull, &name),
            Event::Probe {
                probe,
                node,
                question,
                ..
            } => {
                let (time, result) = self.probe(index, &node, &question);
                self.schedule_in(time, Happening::Probed(index, inc, probe, result));
            }
            Event::Room { name, decision, .. } => self.room_decided(index, name, decision),
            Event::RoomMoved { name, to } => self.room_moved(index, &name, &to),
            Event::SendAway { count, came_before } => self.send_away(index, count, came_before),
            Event::Drained => {
                self.history.drained += 1;
                self.rooms_end(index);
                let publishers = self.publishers.iter();
                let left = publishers.filter(|(_, it)| it.at == index && it.inc == inc);
                let left: Vec<PublisherId> = left.map(|(id, _)| *id).collect();
                for id in left {
                    let name = self.publishers[&id].name.clone();
                    self.publisher_gone(id);
                    let moment = self.moment(index);
                    if let Some(node) = &mut self.processes[index].node {
                        node.publish_ended(moment, id, &name);
                    }
                }
            }
            Event::EngineRefused { .. } | Event::Outcast { .. } => {}
        }
    }

    fn publish_decided(
        &mut self,
        index: usize,
        publisher: PublisherId,
        name: &StreamName,
        decision: PublishDecision,
    ) {
        let (now, inc) = (self.clock.now(), self.inc(index));
        match decision {
            PublishDecision::Admitted { epoch, provisional } => {
                self.history.admitted(now, publisher, epoch, provisional);
                if let Some(publisher) = self.publishers.get_mut(&publisher) {
                    publisher.is_admitted = true;
                }
                self.own_media(index, name, Fence { epoch, inc });
                if self.has_frames {
                    self.schedule_in(FRAME_EVERY, Happening::Frame(publisher));
                }
            }
            PublishDecision::Refused(refusal) => {
                let by = match &refusal {
                    Refusal::Taken { by } | Refusal::Configured { by } => {
                        self.index.get(by).map(|it| self.inc(*it))
                    }
                    Refusal::Draining | Refusal::Unreadable => None,
                };
                self.history.refused(now, publisher, by);
                self.publishers.remove(&publisher);
            }
        }
    }

    /// Own media may only enter a hub that shows nothing, or own media that it continues.
    fn own_media(&mut self, index: usize, name: &StreamName, fence: Fence) {
        let hub = self.processes[index].hubs.entry(name.clone()).or_default();
        if let Some(shown @ Source::Pull { .. }) = &hub.source {
            let seen = format!("{name} at node {index}: own media while {shown:?} is shown");
            self.history.break_rule(self.clock.now(), &seen);
        }
        self.set_source(index, name, Some(Source::Own(fence)));
    }

    fn publisher_gone(&mut self, id: PublisherId) {
        let Some(publisher) = self.publishers.remove(&id) else {
            return;
        };
        self.history.publish_ends(self.clock.now(), id);
        if publisher.is_admitted && self.inc(publisher.at) == publisher.inc {
            self.set_source(publisher.at, &publisher.name, None);
        }
    }

    fn viewer_decided(
        &mut self,
        index: usize,
        viewer: ViewerId,
        name: StreamName,
        decision: ViewDecision,
    ) {
        let Some(asking) = self.asking.remove(&viewer) else {
            return;
        };
        let arriving = asking.let_in();
        match decision {
            // A place is kept here: the viewer is let in, and counted, a moment later.
            ViewDecision::Here if asking.access != Access::Here => {
                let time = Duration::from_millis(30);
                self.schedule_in(time, Happening::Viewer(index, name, arriving));
            }
            ViewDecision::Here => {
                self.decisions.here += 1;
                self.viewer_arrives(index, &name, asking);
                if let Some(stay) = self.decisions.stay {
                    let time = stay.mul_f64(-(1.0 - self.rng.unit()).ln());
                    let inc = self.inc(index);
                    self.schedule_in(time, Happening::ViewerLeaves(index, inc, name));
                }
            }
            ViewDecision::Redirect { node, .. } => {
                self.decisions.redirected += 1;
                if let Some(to) = self.index.get(&node).copied() {
                    let time = Duration::from_millis(30);
                    self.schedule_in(time, Happening::Viewer(to, name, arriving));
                }
            }
            ViewDecision::NotFound => {
                self.decisions.not_found += 1;
                self.asks_again(&name, asking);
            }
            ViewDecision::Unavailable => {
                self.decisions.unavailable += 1;
                self.asks_again(&name, asking);
            }
        }
    }

    /// Counts viewers who came or left, as the server of a node does.
    pub(super) fn count_viewers(&mut self, index: usize, name: &StreamName, change: i32) {
        let moment = self.moment(index);
        let process = &mut self.processes[index];
        let count = process.audience.entry(name.clone()).or_default();
        *count = count.saturating_add_signed(change);
        if let Some(node) = &mut process.node {
            node.set_viewers(moment, name, *count);
        }
    }

    fn probe(&mut self, index: usize, node: &NodeId, question: &[u8]) -> (Duration, ProbeResult) {
        let target = self.index.get(node).copied();
        let Some(target) = target.filter(|it| self.is_reachable(index, *it)) else {
            return (Duration::from_secs(1), ProbeResult::Silent);
        };
        let time = Duration::from_micros(500 + self.rng.below(5_000));
        let from = self.processes[index].id.clone();
        let moment = self.moment(target);
        // Half of the servers can pass a question on.
        let can_ask = self.rng.chance(0.5) && target != index;
        let other = self.processes[target].node.as_mut().filter(|_| can_ask);
        let reply = other.and_then(|node| node.handle_question(moment, &from, question));
        let result = reply.map_or(ProbeResult::Reached, ProbeResult::Replied);
        (time, result)
    }

    pub(super) fn frame(&mut self, id: PublisherId) {
        let Some(publisher) = self.publishers.get(&id) else {
            return;
        };
        let (index, name, inc) = (publisher.at, publisher.name.clone(), publisher.inc);
        if self.inc(index) != inc {
            return;
        }
        self.pass_frame(index, &name);
        self.schedule_in(FRAME_EVERY, Happening::Frame(id));
    }

    pub(super) fn source_frame(&mut self, index: usize, name: &StreamName) {
        if self.processes[index].dialled.contains_key(name) {
            self.pass_frame(index, name);
            let name = name.clone();
            self.schedule_in(FRAME_EVERY, Happening::SourceFrame(index, name));
        }
    }

    fn pass_frame(&mut self, index: usize, name: &StreamName) {
        let (is_up, moment) = (self.is_up(index), self.moment(index));
        if let Some(node) = self.processes[index].node.as_mut().filter(|_| is_up) {
            node.frame_arrived(moment, name);
            node.media_arrived(moment, name, moment.at);
        }
    }
}
