//! A pull that brings nothing although its owner has frames: another node is looked for long before
//! the pull fails.
//!
//! ```text
//! silent ─► ask the owner ─ it has a newer frame ─► wait for that frame ─► pull from another node,
//!              ▲                                        │                  until the next keyframe
//!              └─ no reply, or it has none either ◄─────┴─ a frame came: everything stays
//! ```
//!
//! An owner that is stopped does not reply, so that nobody moves away from nodes that are as silent
//! as everybody.

use std::time::{Duration, Instant};

use super::{Node, Purpose, Timer};
use crate::config::Moment;
use crate::engine::{Answered, CallError, RequestId};
use crate::event::{Event, PullId};
use crate::name::{NodeId, StreamName};
use crate::question::Report;

/// Longest time that a frame takes from its owner to a node that pulls it.
const ON_ITS_WAY: Duration = Duration::from_millis(250);

/// How long the owner may take to say what it has. A late reply is one of a process that stood still.
const REPLY_WITHIN: Duration = Duration::from_millis(300);

/// Time until the owner of a pull that is still silent is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// A pull that has been silent for a while.
#[derive(Debug)]
pub(super) struct Stall {
    pull: PullId,
    /// When its latest frame came.
    heard: Instant,
    asked: Option<RequestId>,
    /// Whether the owner has had a frame that should be here.
    is_blamed: bool,
    /// Node that is given up for another one.
    pub(super) lost: Option<NodeId>,
}

impl Node {
    /// Tells that a pull which feeds the hub has brought no frame since `heard`, which is longer than
    /// its frames are apart.
    pub fn pull_stalled(&mut self, now: Moment, pull: PullId, name: &StreamName, heard: Instant) {
        self.now = now;
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        let runs = relay.running.as_ref().is_some_and(|it| it.pull == pull);
        if runs && relay.stall.as_ref().is_none_or(|it| it.pull != pull) {
            relay.stall = Some(Stall {
                pull,
                heard,
                asked: None,
                is_blamed: false,
                lost: None,
            });
            self.ask_about_stall(name);
        }
    }

    /// Tells that a pull which was silent brings frames again: nothing takes its place.
    pub fn pull_resumed(&mut self, now: Moment, pull: PullId, name: &StreamName) {
        self.now = now;
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        let stall = relay.stall.take_if(|it| it.pull == pull);
        relay.dues.stall = None;
        let Some(lost) = stall.and_then(|it| it.lost) else {
            return;
        };
        relay.failed.remove(&lost);
        relay.dues.retry = None;
        if let Some(pull) = relay.starting.take().and_then(|it| it.pull) {
            let name = name.clone();
            self.events.push_back(Event::EndPull { pull, name });
        }
    }

    fn ask_about_stall(&mut self, name: &StreamName) {
        let owner = self.known(name).map(|it| it.node.clone());
        let owner = owner.filter(|it| *it != self.config.node && self.presence.is_connected);
        let Some(node) = owner else {
            return self.look_at_stall(name, self.now.at + ASK_AGAIN);
        };
        let purpose = Purpose::Stall(name.clone());
        let id = self.ask(purpose, &node, self.live(name), REPLY_WITHIN);
        let relay = self.relays.get_mut(name);
        if let Some(stall) = relay.and_then(|it| it.stall.as_mut()) {
            stall.asked = Some(id);
        }
    }

    pub(super) fn on_stall_asked(
        &mut self,
        name: &StreamName,
        id: RequestId,
        result: &Result<Answered, CallError>,
    ) {
        let now = self.now.at;
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        let (Some(stall), Some(running)) = (&mut relay.stall, &relay.running) else {
            return;
        };
        if stall.asked.take_if(|it| *it == id).is_none() {
            return;
        }
        let report = Report::in_answer(result);
        let report = report.filter(|it| it.epoch == running.fence.epoch);
        let silent = report.and_then(|it| it.silent_ms);
        let newest = silent.and_then(|ms| now.checked_sub(Duration::from_millis(ms)));
        let at = match newest.filter(|at| *at > stall.heard) {
            Some(newest) => {
                stall.is_blamed = true;
                (newest + ON_ITS_WAY).max(now)
            }
            None => now + ASK_AGAIN,
        };
        self.look_at_stall(name, at);
    }

    fn look_at_stall(&mut self, name: &StreamName, at: Instant) {
        if let Some(relay) = self.relays.get_mut(name) {
            relay.dues.stall = Some(at);
            self.timers.set(at, Timer::Relay(name.clone()));
        }
    }

    /// A pull is still silent: its node is given up if the owner has what it should have brought.
    pub(super) fn stall_due(&mut self, name: &StreamName) {
        let now = self.now.at;
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        let (Some(stall), Some(running)) = (&mut relay.stall, &relay.running) else {
            return;
        };
        if stall.lost.is_some() {
            return;
        }
        if !stall.is_blamed {
            return self.ask_about_stall(name);
        }
        let from = running.from.clone();
        stall.lost = Some(from.clone());
        relay.failed.insert(from.clone(), now);
        relay.contact.take_if(|it| *it == from);
        self.find_source(name);
    }
}
