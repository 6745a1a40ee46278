//! Carries out what the core decides.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use glassline_cluster::record::NodeRecord;
use glassline_cluster::{
    Event, NodeId, Outcast, ProbeId, ProbeResult, PublishDecision, PublisherId, StreamName as Name,
    ViewDecision, ViewerId,
};
use glassline_cluster_nats::Busy;
use glassline_hub::{State, StreamName};

use super::followed::Own;
use super::{Core, Member, moment, record};

/// Most decisions that are carried out before the engine's inputs are read again.
const EVENTS_AT_ONCE: usize = 256;

impl Member {
    /// Carries out everything that the core wants.
    pub fn carry_out(self: &Arc<Self>) {
        loop {
            let mut core = self.core.lock();
            let mut events = Vec::new();
            while events.len() < EVENTS_AT_ONCE
                && let Some(event) = core.node.poll_event()
            {
                events.push(event);
            }
            let requests: Vec<_> = std::iter::from_fn(|| core.node.poll_request()).collect();
            let replies: Vec<_> = std::iter::from_fn(|| core.node.poll_reply()).collect();
            drop(core);
            if events.is_empty() && requests.is_empty() && replies.is_empty() {
                return;
            }
            if let Some(engine) = self.engine.get() {
                for reply in replies {
                    engine.reply(self.authentic.sign_reply(reply));
                }
                for request in requests {
                    let request = self.authentic.sign_request(request);
                    if let Err(Busy(answer)) = engine.request(request) {
                        let answer = self.authentic.check_answer(answer);
                        self.core.lock().node.handle_answer(moment(), answer);
                    }
                }
            }
            for event in events {
                self.on_event(event);
            }
        }
    }

    /// Takes an event of the engine, and does what the core decides then.
    pub fn on_event(self: &Arc<Self>, event: Event) {
        match event {
            Event::Publish {
                publisher,
                name,
                decision,
            } => self.on_decision(publisher, &name, decision),
            Event::Announce { name, epoch } => self.announce(&name, epoch),
            Event::Superseded {
                publisher,
                name,
                by,
            } => self.on_superseded(publisher, &name, &by),
            Event::Dial { name, epoch } => self.dial(&name, epoch),
            Event::HangUp { name } => self.hang_up(&name),
            Event::Viewer {
                viewer,
                name,
                decision,
            } => self.on_viewers(viewer, &name, &decision),
            Event::Pull {
                pull,
                name,
                from,
                record,
            } => self.begin_pull(pull, name, &from, &record),
            Event::EndPull { pull, .. } => self.core.lock().end_pull(pull),
            Event::Probe {
                probe,
                node,
                record,
                ..
            } => self.probe(probe, &node, record.as_deref()),
            Event::SendAway { count, came_before } => self.send_away(count, came_before),
            Event::Drained => self.on_drained(),
            Event::Outcast { reason } => self.on_outcast(&reason),
            Event::EngineRefused { reason } => {
                tracing::warn!(reason, "NATS refuses what this server needs");
            }
            Event::Room {
                viewer,
                name,
                decision,
            } => self.on_room(viewer, &name, decision),
            Event::RoomMoved { name, to } => self.on_room_moved(&name, &to),
        }
    }

    fn on_decision(
        self: &Arc<Self>,
        publisher: PublisherId,
        name: &Name,
        decision: PublishDecision,
    ) {
        let mut core = self.core.lock();
        let Some(publishing) = core.publishers.get_mut(&publisher) else {
            // The publisher left meanwhile, which the core was told.
            return;
        };
        let decided = publishing.decided.take();
        if let PublishDecision::Admitted { epoch, provisional } = decision {
            core.counts.admitted += 1;
            self.own(&mut core, name, Some(publisher));
            if !provisional {
                self.mark(&mut core, name, epoch);
            }
        } else {
            core.counts.refused += 1;
            core.publishers.remove(&publisher);
        }
        drop(core);
        if let Some(decided) = decided {
            // Whoever asked gives the claim back when it does not wait any more.
            let _ = decided.send(decision);
        }
    }

    fn on_viewers(&self, viewer: ViewerId, name: &Name, decision: &ViewDecision) {
        if self.on_placed(viewer, decision) {
            return;
        }
        let mut core = self.core.lock();
        let Some(followed) = core.followed.get_mut(name) else {
            return;
        };
        followed.decided(viewer, decision, Instant::now());
        let is_configured = followed.is_configured;
        drop(core);
        // Viewers of a stream of the configuration wait for its source, and learn here that there is
        // none. Other streams leave the hub.
        let stream = self.hub.stream(name.as_str());
        let stream = stream.filter(|it| is_configured && it.is_source_away());
        if let Some(stream) = stream.filter(|_| *decision != ViewDecision::Here) {
            let detail = "no server of the cluster has the stream".to_owned();
            stream.set_state(State::Down { detail });
        }
    }

    /// Notes that a stream is this server's own.
    fn own(&self, core: &mut Core, name: &Name, publisher: Option<PublisherId>) {
        let followed = core.followed.entry(name.clone()).or_default();
        if let Some(before) = followed.own.as_ref().map(|own| own.publisher) {
            followed.give_up(before, &self.provenances);
        }
        followed.own = Some(Own {
            publisher,
            since: Instant::now(),
            mark: None,
        });
    }

    /// Notes the epoch under which others get a stream of this server's own.
    fn mark(&self, core: &mut Core, name: &Name, epoch: u64) {
        let own = core.followed.get_mut(name).and_then(|it| it.own.as_mut());
        if let (Some(own), Ok(name)) = (own, StreamName::parse(name.as_str())) {
            let mark = self.provenances.begin_own(&name, epoch);
            own.mark = Some((name, mark));
        }
    }

    fn announce(&self, name: &Name, epoch: u64) {
        tracing::info!(stream = %name, epoch, "stream announced to the cluster");
        self.mark(&mut self.core.lock(), name, epoch);
    }

    fn on_superseded(&self, publisher: PublisherId, name: &Name, by: &NodeId) {
        let mut core = self.core.lock();
        core.counts.superseded += 1;
        if let Some(publishing) = core.publishers.get(&publisher) {
            publishing.is_lost.store(true, Ordering::Release);
        }
        if let Some(followed) = core.followed.get_mut(name) {
            followed.give_up(Some(publisher), &self.provenances);
        }
        drop(core);
        tracing::warn!(stream = %name, %by, "publisher sent away: another one has the stream now");
        self.revoke(name, format!("the stream is published to '{by}' now"));
    }

    /// Ends the server, which must not serve beside the others.
    fn on_outcast(&self, reason: &Outcast) {
        let name = &self.options.node;
        self.supervisor.fail(match reason {
            Outcast::NameTaken => format!(
                "another server of the cluster is '{name}' and was there first: give this one a \
                 `cluster.name` of its own"
            ),
            Outcast::OtherSecret(other) => format!(
                "'{other}' and the other servers of the cluster have another `cluster.secret`: set \
                 the one of this server, '{name}', to theirs"
            ),
        });
    }

    /// Sends the publishers away that are left at the end of a drain.
    fn on_drained(&self) {
        let core = self.core.lock();
        let left: Vec<Name> = core.publishers.values().map(|it| it.name.clone()).collect();
        for publishing in core.publishers.values() {
            publishing.is_lost.store(true, Ordering::Release);
        }
        drop(core);
        for name in left {
            tracing::warn!(stream = %name, "publisher sent away: this server stops");
            self.revoke(&name, "this server stops".to_owned());
        }
    }

    fn revoke(&self, name: &Name, detail: String) {
        if let Some(stream) = self.hub.stream(name.as_str()) {
            stream.revoke(State::Down { detail });
        }
    }

    fn dial(&self, name: &Name, epoch: u64) {
        tracing::info!(stream = %name, epoch, "this server is the one that connects to the source");
        // What was pulled until now makes way.
        self.revoke(name, "this server connects to the source".to_owned());
        let mut core = self.core.lock();
        self.own(&mut core, name, None);
        self.mark(&mut core, name, epoch);
        if let Some(dial) = core.sources.get(name) {
            dial.send_replace(true);
        }
    }

    fn hang_up(&self, name: &Name) {
        tracing::info!(stream = %name, "another server connects to the source");
        let mut core = self.core.lock();
        if let Some(dial) = core.sources.get(name) {
            dial.send_replace(false);
        }
        if let Some(followed) = core.followed.get_mut(name) {
            followed.give_up(None, &self.provenances);
        }
        drop(core);
        self.revoke(name, "another server connects to the source".to_owned());
    }

    /// Finds out whether a server answers over QUIC.
    fn probe(self: &Arc<Self>, probe: ProbeId, node: &NodeId, record: Option<&NodeRecord>) {
        let address = record.and_then(record::address);
        let (member, node) = (Arc::clone(self), node.clone());
        tokio::spawn(async move {
            let is_reached = match &address {
                Some(address) => member.pulls.reaches(address).await,
                None => false,
            };
            tracing::debug!(%node, is_reached, "a server of the cluster was probed");
            let result = match is_reached {
                true => ProbeResult::Reached,
                false => ProbeResult::Silent,
            };
            member.with_core(|core, now| core.node.handle_probe(now, probe, &result));
        });
    }
}
