//! A publisher wants a name that another node holds: is the other publisher still there?

use std::time::{Duration, Instant};

use super::super::directory::Found;
use super::super::{Node, Purpose};
use super::Phase;
use crate::config::Moment;
use crate::engine::{Answered, CallError, RequestId, Version};
use crate::event::{Event, Policy, ProbeId, PublishDecision, Refusal};
use crate::name::StreamName;
use crate::question::{Question, Report};
use crate::record::{Kind, StreamRecord};

/// How long the owner may be silent on both ways.
const SILENT_FOR: Duration = Duration::from_secs(1);

/// Shorter time for an owner whose heartbeats have been missing for longer than that already.
const SILENT_FOR_THE_OVERDUE: Duration = Duration::from_millis(600);

/// Time until a candidate looks again at a source whose owner said that it has it.
const LOST_AGAIN: Duration = Duration::from_secs(2);

/// Facts about the owner so far.
#[derive(Debug)]
pub(super) struct Inquiry {
    record: StreamRecord,
    /// Version of the record in the store; `None` if it is gone from there.
    version: Option<Version>,
    probe: ProbeId,
    is_silent_on_engine: bool,
    is_silent_on_quic: bool,
    /// Whether the owner answers over QUIC, which says that it lives. Its word about the publisher
    /// counts more, and comes over the engine.
    is_reached: bool,
    until: Instant,
}

/// Result of a probe over QUIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// The node did not answer within 1 s, or its certificate was another.
    Silent,
    /// The node answered, and could not be asked.
    Reached,
    /// The node answered, and this is its reply to the question.
    Replied(bytes::Bytes),
}

impl Node {
    /// Takes the result of an [`Event::Probe`].
    pub fn handle_probe(&mut self, now: Moment, probe: ProbeId, result: &ProbeResult) {
        self.now = now;
        self.peers
            .on_probe(probe, *result != ProbeResult::Silent, now.at);
        let mut held = self.claims.held.iter_mut();
        let asked = held.find_map(|(name, holding)| match &mut holding.phase {
            Phase::Asking(inquiry) if inquiry.probe == probe => Some((name.clone(), inquiry)),
            _ => None,
        });
        let Some((name, inquiry)) = asked else {
            return;
        };
        match result {
            ProbeResult::Silent => {
                inquiry.is_silent_on_quic = true;
                self.consider_inquiry(&name);
            }
            ProbeResult::Reached => {
                inquiry.is_reached = true;
                self.consider_inquiry(&name);
            }
            ProbeResult::Replied(payload) => {
                self.owner_replied(&name, Report::parse(payload).ok().as_ref());
            }
        }
    }

    /// Asks the owner over both ways, or takes over at once where the policy says so.
    pub(super) fn ask_owner(
        &mut self,
        name: &StreamName,
        record: StreamRecord,
        version: Option<Version>,
    ) {
        let Some(holding) = self.claims.held.get(name) else {
            return;
        };
        if holding.policy == Policy::Replace && !holding.is_serving {
            return self.write_claim(name, version);
        }
        let live = self.live(name);
        let probe = self.next_probe();
        let node = record.node.clone();
        let known = self.directory.nodes.get(&node);
        self.events.push_back(Event::Probe {
            probe,
            node: node.clone(),
            record: known.map(|it| Box::new(it.record.clone())),
            question: Question::Live(live.clone()).to_payload(),
        });
        let patience = match self.peers.is_overdue(&node, self.now.at) {
            true => SILENT_FOR_THE_OVERDUE,
            false => SILENT_FOR,
        };
        let until = self.now.at + patience;
        let inquiry = Inquiry {
            record,
            version,
            probe,
            is_silent_on_engine: false,
            is_silent_on_quic: known.is_none(),
            is_reached: false,
            until,
        };
        self.set_phase(name, Phase::Asking(Box::new(inquiry)));
        let purpose = Purpose::ClaimAsk(name.clone());
        let id = self.ask(purpose, &node, live, patience);
        if let Some(holding) = self.claims.held.get_mut(name) {
            holding.request = Some(id);
        }
        self.wake_claim(name, until);
    }

    pub(in crate::node) fn on_claim_asked(
        &mut self,
        name: &StreamName,
        id: RequestId,
        result: &Result<Answered, CallError>,
    ) {
        let holding = self.claims.held.get_mut(name);
        let Some(holding) = holding.filter(|it| it.request == Some(id)) else {
            return;
        };
        let Phase::Asking(inquiry) = &mut holding.phase else {
            return;
        };
        match result {
            Ok(Answered::Reply(_)) => {
                self.owner_replied(name, Report::in_answer(result).as_ref());
            }
            // A node without connection is no proof of the owner's silence.
            Err(CallError::Away) => self.engine_failed(name),
            _ => {
                inquiry.is_silent_on_engine = true;
                self.consider_inquiry(name);
            }
        }
    }

    /// The time of an inquiry is over: who has not answered by now is silent.
    pub(super) fn inquiry_due(&mut self, name: &StreamName) {
        let now = self.now.at;
        let Some(holding) = self.claims.held.get_mut(name) else {
            return;
        };
        let Phase::Asking(inquiry) = &mut holding.phase else {
            return;
        };
        if now > inquiry.until + super::super::STOOD_STILL {
            // This process stood still, and its answers may wait unread: ask again.
            self.read_claim(name);
        } else {
            inquiry.is_silent_on_engine = true;
            inquiry.is_silent_on_quic = !inquiry.is_reached;
            self.consider_inquiry(name);
        }
    }

    fn consider_inquiry(&mut self, name: &StreamName) {
        let Some(holding) = self.claims.held.get(name) else {
            return;
        };
        let Phase::Asking(inquiry) = &holding.phase else {
            return;
        };
        if inquiry.is_silent_on_engine && inquiry.is_reached {
            return self.owner_publishes(name);
        }
        if !(inquiry.is_silent_on_engine && inquiry.is_silent_on_quic) {
            return;
        }
        if self.presence.is_connected {
            let version = inquiry.version;
            self.write_claim(name, version);
        } else {
            self.owner_publishes(name);
        }
    }

    /// `report`: what the owner replied; `None` if that cannot be read.
    fn owner_replied(&mut self, name: &StreamName, report: Option<&Report>) {
        let Some(holding) = self.claims.held.get(name) else {
            return;
        };
        let Phase::Asking(inquiry) = &holding.phase else {
            return;
        };
        let version = inquiry.version;
        match report {
            // Another process of that node: the one that claimed is gone.
            Some(report) if report.inc != inquiry.record.inc => self.write_claim(name, version),
            Some(report) if !report.publishing => self.write_claim(name, version),
            _ => self.owner_publishes(name),
        }
    }

    /// The owner's publisher sends: this node's is refused, or sent away if it was served
    /// while nobody could be asked.
    fn owner_publishes(&mut self, name: &StreamName) {
        let Some(holding) = self.claims.held.get(name) else {
            return;
        };
        let Phase::Asking(inquiry) = &holding.phase else {
            return;
        };
        let record = inquiry.record.clone();
        match holding.kind {
            Kind::Source => {
                if holding.is_serving {
                    self.events.push_back(Event::HangUp { name: name.clone() });
                }
                self.stand_by(name);
                self.lost_is_alive(name);
                self.wake_claim(name, self.now.at + LOST_AGAIN);
                return self.pull_instead(name);
            }
            Kind::Room => return self.room_is_elsewhere(name, &record),
            Kind::Pushed => {}
        }
        let publisher = holding.publisher;
        let by = record.node.clone();
        if holding.is_undecided()
            && let Some(publisher) = publisher
        {
            let refused = PublishDecision::Refused(Refusal::Taken { by });
            self.publish_event(publisher, name, refused);
            self.forget_claim(name);
        } else {
            self.fence(name, &record);
        }
    }

    /// Takes a record that the store showed, beside what the claim itself does with it.
    pub(super) fn note(&mut self, name: &StreamName, found: &Found) {
        self.note_lost(name, found);
        let known = super::super::directory::Known {
            record: found.clone(),
            read_at: self.now.at,
        };
        self.directory.set_stream(name, known);
        self.relay_learns(name, found);
    }
}
