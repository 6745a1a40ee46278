//! From which node a stream is pulled, and what replaces a pull.

use std::time::{Duration, Instant};

use super::directory::Found;
use super::relay::{PATH_MAX, Relay, Running, Starting};
use super::{Node, Timer};
use crate::config::Moment;
use crate::event::{Admission, Catalog, Event, PullId};
use crate::name::{NodeId, StreamName};
use crate::question::Question;
use crate::record::Fence;

/// A source of which a pull failed is left out for this time, if there is another.
pub(super) const FAILED_FOR: Duration = Duration::from_secs(10);

/// How long an old epoch is still shown after a new one was read, while the new pull starts.
const OLD_EPOCH_FOR: Duration = Duration::from_secs(2);

/// A pull that brought no keyframe for so long has failed.
pub(super) const STARTS_WITHIN: Duration = Duration::from_secs(5);

/// How long a lower record must stand before it is believed: longer than the 35 s within which
/// the holder of a higher one writes it back.
const HIGHEST_FOR: Duration = Duration::from_secs(40);

/// How often a child tells its parent what it has.
const ADOPT_EVERY: Duration = Duration::from_secs(20);

impl Node {
    /// Decides about a pull whose first keyframe and catalog are there.
    pub fn admit(
        &mut self,
        now: Moment,
        pull: PullId,
        name: &StreamName,
        catalog: &Catalog,
    ) -> Admission {
        self.now = now;
        let fence = Fence {
            epoch: catalog.epoch,
            inc: catalog.inc,
        };
        let Some(relay) = self.relays.get_mut(name) else {
            return Admission::End;
        };
        let starting = relay.starting.take_if(|it| it.pull == Some(pull));
        let Some(starting) = starting else {
            return Admission::End;
        };
        let is_loop = catalog.path.contains(&self.config.node);
        let highest_stands = relay.highest_at.is_some_and(|at| now.at - at < HIGHEST_FOR);
        let is_old = fence < relay.highest && highest_stands;
        let runs_lower = relay.running.as_ref().is_some_and(|it| it.fence > fence);
        if is_loop
            || is_old
            || runs_lower
            || catalog.path.len() >= PATH_MAX
            || catalog.path.is_empty()
        {
            relay.failed.insert(starting.from, now.at);
            self.retry_pull(name);
            return Admission::End;
        }
        if fence >= relay.highest || !highest_stands {
            (relay.highest, relay.highest_at) = (fence, Some(now.at));
        }
        relay.attempts = 0;
        (relay.dues.old_epoch, relay.dues.stall, relay.stall) = (None, None, None);
        let running = Running {
            pull,
            from: starting.from.clone(),
            fence,
            path: catalog.path.clone(),
        };
        let before = relay.running.replace(running);
        self.adopt_self(name);
        match before {
            None => Admission::Begin,
            Some(before) => {
                if before.from != starting.from {
                    self.leave_parent(name, &before.from);
                }
                Admission::Replace(before.pull)
            }
        }
    }

    /// A pull failed, before or after it was admitted. Another one follows while the stream is
    /// needed.
    pub fn pull_failed(&mut self, now: Moment, pull: PullId, name: &StreamName) {
        self.now = now;
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        let running = relay.running.take_if(|it| it.pull == pull);
        let starting = relay.starting.take_if(|it| it.pull == Some(pull));
        let from = running.map(|it| it.from).or(starting.map(|it| it.from));
        if let Some(from) = from {
            if relay.running.is_none() {
                (relay.stall, relay.dues.stall) = (None, None);
            }
            relay.failed.insert(from.clone(), now.at);
            if relay.contact.as_ref() == Some(&from) {
                relay.contact = None;
            }
            self.retry_pull(name);
        }
    }

    /// Returns the pull that feeds the hub, its epoch, and the path that this node's own catalog
    /// continues.
    pub fn pulled(&self, name: &StreamName) -> Option<(PullId, Fence, &[NodeId])> {
        let running = self.relays.get(name)?.running.as_ref()?;
        Some((running.pull, running.fence, &running.path))
    }

    pub(super) fn pull_may_be_offered(&self, name: &StreamName) -> bool {
        let running = self.relays.get(name).and_then(|it| it.running.as_ref());
        running.is_some_and(|it| it.path.len() + 1 < PATH_MAX)
    }

    /// Pulls a stream that this node had itself until now, if somebody watches it here.
    pub(super) fn pull_instead(&mut self, name: &StreamName) {
        if self.relays.get(name).is_some_and(Relay::is_needed) {
            self.retry_pull(name);
        }
    }

    /// Ends all pulls of a name, since this node's own media takes their place.
    pub(super) fn end_pulls_of(&mut self, name: &StreamName) {
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        let running = relay.running.take();
        let starting = relay.starting.take();
        let parent = running.as_ref().map(|it| it.from.clone());
        let pulls = running.map(|it| it.pull).into_iter();
        for pull in pulls.chain(starting.and_then(|it| it.pull)) {
            let name = name.clone();
            self.events.push_back(Event::EndPull { pull, name });
        }
        if let Some(parent) = parent {
            self.leave_parent(name, &parent);
        }
    }

    /// Tries again to pull, after a wait that grows with the failures.
    pub(super) fn retry_pull(&mut self, name: &StreamName) {
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        let most = Duration::from_millis(100) * (1 << relay.attempts.min(5));
        relay.attempts += 1;
        let at = self.now.at + self.jitter(most / 4, most);
        if let Some(relay) = self.relays.get_mut(name) {
            relay.dues.retry = Some(at);
        }
        self.timers.set(at, Timer::Relay(name.clone()));
    }

    /// Takes what stands under a name that is pulled or watched here.
    pub(super) fn relay_learns(&mut self, name: &StreamName, found: &Found) {
        let now = self.now.at;
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        let Some(fence) = found.fence() else {
            // After a release, only wall clocks carry the epoch on, and they may differ.
            if *found == Found::Nothing && relay.running.is_none() {
                relay.highest = Fence::default();
            }
            return;
        };
        if fence < relay.highest {
            return;
        }
        let is_higher = fence > relay.highest;
        (relay.highest, relay.highest_at) = (fence, Some(now));
        if !is_higher {
            return;
        }
        relay.failed.clear();
        relay.holders.clear();
        (relay.places.full_at, relay.contact, relay.attempts) = (None, None, 0);
        (relay.stall, relay.dues.stall) = (None, None);
        let starting = relay.starting.take().and_then(|it| it.pull);
        if let Some(pull) = starting {
            let name = name.clone();
            self.events.push_back(Event::EndPull { pull, name });
        }
        let is_needed = self.relays.get(name).is_some_and(Relay::is_needed);
        if !is_needed || self.claims.is_serving(name) {
            return;
        }
        // The pullers of an owner do not all ask the next one at the same moment.
        let at = now + self.jitter(Duration::ZERO, Duration::from_millis(300));
        if let Some(relay) = self.relays.get_mut(name) {
            relay.dues.retry = Some(at);
            if relay.running.is_some() {
                relay.dues.old_epoch = Some(now + OLD_EPOCH_FOR);
                let timer = Timer::Relay(name.clone());
                self.timers.set(now + OLD_EPOCH_FOR, timer);
            }
        }
        self.timers.set(at, Timer::Relay(name.clone()));
    }

    pub(super) fn on_relay_due(&mut self, name: &StreamName) {
        let now = self.now.at;
        self.waited_too_long(name);
        self.end_old_epoch(name);
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        let is_over = |it: &mut Starting| now - it.since >= STARTS_WITHIN;
        if let Some(starting) = relay.starting.take_if(is_over) {
            relay.failed.insert(starting.from, now);
            if let Some(pull) = starting.pull {
                let name = name.clone();
                self.events.push_back(Event::EndPull { pull, name });
            }
            self.retry_pull(name);
        }
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        let is_past = |at: &mut Instant| *at <= now;
        let is_stalled = relay.dues.stall.take_if(is_past).is_some();
        let must_retry = relay.dues.retry.take_if(is_past).is_some();
        let must_adopt = relay.dues.adopt.take_if(is_past).is_some();
        let must_end = relay.dues.linger.take_if(is_past).is_some();
        relay.failed.retain(|_, at| now - *at < FAILED_FOR);
        if must_end && !relay.is_needed() {
            return self.end_relay(name);
        }
        if must_adopt {
            self.adopt_self(name);
        }
        if is_stalled {
            self.stall_due(name);
        }
        if must_retry && self.relays.get(name).is_some_and(Relay::is_needed) {
            let attempts = self.relays.get(name).map_or(0, |it| it.attempts);
            // A store that was rolled back tells nobody: what is known may be over.
            let found = self
                .fresh(name)
                .filter(|_| attempts == 0 || !attempts.is_multiple_of(4));
            match found {
                None if self.presence.is_connected => self.look_up_for_pull(name),
                _ => self.find_source(name),
            }
        }
    }

    fn look_up_for_pull(&mut self, name: &StreamName) {
        if self.relays.get(name).is_some_and(|it| it.request.is_none()) {
            self.look_up(name);
        } else {
            self.retry_pull(name);
        }
    }

    fn end_old_epoch(&mut self, name: &StreamName) {
        let now = self.now.at;
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        if relay.dues.old_epoch.take_if(|at| *at <= now).is_some()
            && let Some(old) = relay.running.take_if(|it| it.fence < relay.highest)
        {
            let pull = old.pull;
            self.events.push_back(Event::EndPull {
                pull,
                name: name.clone(),
            });
            self.leave_parent(name, &old.from);
        }
    }

    /// Begins the linger if nobody needs the stream here any more.
    pub(super) fn consider_linger(&mut self, name: &StreamName) {
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        if relay.is_needed() || relay.dues.linger.is_some() {
            return;
        }
        if relay.running.is_none() && relay.starting.is_none() && relay.request.is_none() {
            return self.end_relay(name);
        }
        let at = self.now.at + self.config.linger;
        relay.dues.linger = Some(at);
        self.timers.set(at, Timer::Relay(name.clone()));
    }

    fn end_relay(&mut self, name: &StreamName) {
        self.end_pulls_of(name);
        let Some(relay) = self.relays.remove(name) else {
            return;
        };
        self.children -= relay.children.len();
        self.kept -= relay.places.kept.len();
        if relay.is_watched {
            self.unwatch(name);
        }
    }

    /// Tells the parent of a pull what this node has, and when to tell it again.
    fn adopt_self(&mut self, name: &StreamName) {
        let Some(child) = self.own_holder(name) else {
            return;
        };
        let at = self.now.at + ADOPT_EVERY;
        let Some(relay) = self.relays.get_mut(name) else {
            return;
        };
        let Some(running) = &relay.running else {
            return;
        };
        relay.dues.adopt = Some(at);
        let parent = running.from.clone();
        self.timers.set(at, Timer::Relay(name.clone()));
        let name = name.clone();
        self.tell(&parent, Question::Adopt { name, child }.to_payload());
    }

    fn leave_parent(&mut self, name: &StreamName, parent: &NodeId) {
        let name = name.clone();
        self.tell(parent, Question::Leave { name }.to_payload());
    }

    /// The engine is back: pulls that wait for it go on.
    pub(super) fn relays_on_connected(&mut self) {
        let needs = self.relays.iter().filter(|(_, it)| it.is_needed());
        let names: Vec<StreamName> = needs.map(|(name, _)| name.clone()).collect();
        for name in names {
            if !self.is_current(&name) {
                self.retry_pull(&name);
            }
        }
    }
}
