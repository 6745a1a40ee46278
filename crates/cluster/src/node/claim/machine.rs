//! Reading, writing and losing a record.

use std::time::Duration;

use super::super::directory::Found;
use super::super::{Node, Purpose};
use super::{Media, Phase};
use crate::engine::{Answered, Call, CallError, RequestId, Version};
use crate::event::{Event, PublishDecision, Refusal};
use crate::name::{Key, StreamName};
use crate::record::{Kind, StreamRecord};

/// Bounds of the wait before a claim is tried again.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// A record that could not be deleted for so long is left to those who find it.
const RELEASE_WITHIN: Duration = Duration::from_secs(60);

impl Node {
    pub(super) fn read_claim(&mut self, name: &StreamName) {
        let is_releasing = self
            .claims
            .held
            .get(name)
            .is_some_and(|it| matches!(it.phase, Phase::Releasing { .. }));
        if !is_releasing {
            self.set_phase(name, Phase::Reading);
        }
        let key = Key::Stream(name.clone());
        let id = self.call(Purpose::ClaimRead(name.clone()), Call::Get { key });
        if let Some(holding) = self.claims.held.get_mut(name) {
            holding.request = Some(id);
        }
    }

    pub(in crate::node) fn on_claim_read(
        &mut self,
        name: &StreamName,
        id: RequestId,
        result: Result<Answered, CallError>,
    ) {
        let holding = self.claims.held.get(name);
        let Some(holding) = holding.filter(|it| it.request == Some(id)) else {
            return;
        };
        let is_releasing = matches!(holding.phase, Phase::Releasing { .. });
        let Ok(Answered::Got(entry)) = result else {
            return self.engine_failed(name);
        };
        let found = Found::new(entry.as_ref());
        self.note(name, &found);
        if is_releasing {
            self.release_read(name, &found);
        } else {
            self.claim_found(name, &found);
        }
    }

    /// Decides what to do about a record that was read in order to claim the name.
    pub(super) fn claim_found(&mut self, name: &StreamName, found: &Found) {
        let (record, version) = match found {
            Found::Nothing => return self.claim_free(name, None),
            Found::Damaged(version) => return self.claim_free(name, Some(*version)),
            Found::Newer => return self.give_up(name, Refusal::Unreadable),
            Found::Record(record, version) => (record.clone(), *version),
        };
        let inc = self.incarnation();
        let Some(holding) = self.claims.held.get(name) else {
            return;
        };
        let is_mine = record.node == self.config.node && record.inc == inc;
        if is_mine {
            // The write whose answer was lost, or the record of an earlier publisher.
            let is_this = holding.epoch == record.epoch && holding.epoch != 0;
            return match is_this {
                true => self.claim_owned(name, version),
                false => self.write_claim(name, Some(version)),
            };
        }
        if holding.is_serving && holding.was_owned {
            let is_fenced = record.fence() > holding.fence(inc);
            return match is_fenced {
                true => self.fence(name, &record),
                false => self.write_claim(name, Some(version)),
            };
        }
        if record.node == self.config.node && !self.presence.is_name_ours {
            // Another process of this name may live.
            return self.retry_claim(name);
        }
        let is_over =
            record.node == self.config.node || self.peers.is_dead(&record.node, record.inc);
        if is_over {
            return self.write_claim(name, Some(version));
        }
        let found = Some(version);
        match holding.kind {
            Kind::Pushed if record.kind == Kind::Source => self.source_has_name(name, &record),
            Kind::Pushed => self.ask_owner(name, record, found),
            Kind::Room if self.may_be_lost(&record.node) => self.ask_owner(name, record, found),
            Kind::Room => self.room_is_elsewhere(name, &record),
            Kind::Source => self.source_is_elsewhere(name, record, version),
        }
    }

    /// Claims a name that has no record, or a damaged one. If the store lost the record of a node that lives,
    /// that node is asked first: it writes its record back with its epoch.
    fn claim_free(&mut self, name: &StreamName, damaged: Option<Version>) {
        let holding = self.claims.held.get(name);
        let is_told = holding.is_some_and(|it| it.is_serving && it.was_owned);
        match self.lost_record(name).filter(|_| !is_told) {
            Some(record) => self.ask_owner(name, record, damaged),
            None => self.write_claim(name, damaged),
        }
    }

    /// Writes the record, with the epoch that is held already or one above all that are known.
    pub(super) fn write_claim(&mut self, name: &StreamName, expected: Option<Version>) {
        let previous = self.highest_epoch(name);
        let Some(holding) = self.claims.held.get(name) else {
            return;
        };
        // An epoch that nobody was told may rise; one that viewers have may not.
        let is_told = holding.is_serving && holding.was_owned;
        if !is_told && holding.epoch <= previous {
            let fresh = self.draw_epoch(previous);
            if let Some(holding) = self.claims.held.get_mut(name) {
                holding.epoch = fresh;
            }
        }
        let Some(holding) = self.claims.held.get(name) else {
            return;
        };
        let record = self.record_of(holding);
        let is_others = self
            .known(name)
            .is_some_and(|it| it.node != self.config.node);
        let call = Call::PutIf {
            key: Key::Stream(name.clone()),
            value: record.to_value(),
            expected,
        };
        self.set_phase(name, Phase::Writing);
        let id = self.call(Purpose::ClaimWrite(name.clone()), call);
        if let Some(holding) = self.claims.held.get_mut(name) {
            holding.takes_over = is_others && !is_told;
            holding.request = Some(id);
        }
    }

    pub(in crate::node) fn on_claim_written(
        &mut self,
        name: &StreamName,
        id: RequestId,
        result: &Result<Answered, CallError>,
    ) {
        let holding = self.claims.held.get_mut(name);
        let Some(holding) = holding.filter(|it| it.request == Some(id)) else {
            return;
        };
        let is_told = holding.is_serving && holding.was_owned;
        if *result == Err(CallError::Conflict) && !is_told {
            // Another node was given an epoch meanwhile, perhaps this one, and may have left again.
            holding.epoch = 0;
        }
        match result {
            Ok(Answered::Put(version)) => self.claim_owned(name, *version),
            // The loser of a race reads at once; the next loss waits, so that claims that are
            // made at the same time part.
            Err(CallError::Conflict) if holding.retries == 0 => {
                holding.retries = 1;
                self.read_claim(name);
            }
            Err(CallError::Conflict) => self.retry_claim(name),
            Err(CallError::Unknown) => self.read_claim(name),
            _ => self.engine_failed(name),
        }
    }

    /// The record of this node stands.
    pub(super) fn claim_owned(&mut self, name: &StreamName, version: Version) {
        let next_check = self.now.at + Duration::from_secs(25) + self.jitter_of_checks();
        let Some(holding) = self.claims.held.get_mut(name) else {
            return;
        };
        if holding.kind == Kind::Pushed && holding.publisher.is_none() {
            // The publisher left while the claim was written.
            holding.version = Some(version);
            return self.release(name);
        }
        let was_serving = holding.is_serving;
        let was_owned = holding.was_owned;
        (holding.phase, holding.request, holding.due) = (Phase::Owned, None, None);
        (holding.version, holding.was_owned) = (Some(version), true);
        (holding.is_serving, holding.retries) = (true, 0);
        let (epoch, kind, publisher) = (holding.epoch, holding.kind, holding.publisher);
        let decided = holding.decide_by.take().is_some();
        self.claims.takeovers += u64::from(std::mem::take(&mut holding.takes_over));
        self.claims.newest = Some(name.clone());
        self.check_at(name, next_check);
        self.note_own(name, version);
        if !was_serving {
            self.end_pulls_of(name);
        }
        match kind {
            Kind::Pushed => {
                if let (true, Some(publisher)) = (decided, publisher) {
                    let decision = PublishDecision::Admitted {
                        epoch,
                        provisional: false,
                    };
                    self.publish_event(publisher, name, decision);
                } else if !was_owned {
                    let name = name.clone();
                    self.events.push_back(Event::Announce { name, epoch });
                }
            }
            Kind::Source if !was_serving => {
                let name = name.clone();
                self.events.push_back(Event::Dial { name, epoch });
            }
            Kind::Source if !was_owned => {
                let name = name.clone();
                self.events.push_back(Event::Announce { name, epoch });
            }
            Kind::Source => {}
            Kind::Room => self.room_is_here(name),
        }
        self.serve_waiting(name);
        if self.presence.is_draining() && kind == Kind::Source {
            self.hand_over(name);
        }
    }

    /// The engine did not answer, or said nothing that helps.
    pub(super) fn engine_failed(&mut self, name: &StreamName) {
        let Some(holding) = self.claims.held.get(name) else {
            return;
        };
        if let Phase::Releasing { since } = holding.phase {
            if self.now.at - since > RELEASE_WITHIN {
                self.forget_claim(name);
            } else {
                let at = self.now.at + self.jitter(RETRY.0, RETRY.1);
                self.wake_claim(name, at);
            }
            return;
        }
        if holding.publisher.is_none() && holding.kind == Kind::Pushed {
            // The publisher left while the claim was written.
            return self.release(name);
        }
        if holding.is_undecided() && !self.presence.is_connected {
            self.decide_without_engine(name);
        }
        self.retry_claim(name);
    }

    pub(super) fn retry_claim(&mut self, name: &StreamName) {
        let Some(holding) = self.claims.held.get_mut(name) else {
            return;
        };
        holding.retries += 1;
        // While somebody waits for a decision, the first attempts follow each other quickly.
        let most = match holding.is_undecided() {
            true => RETRY.0 * holding.retries.min(4),
            false => RETRY.1,
        };
        let least = if holding.is_undecided() {
            Duration::ZERO
        } else {
            RETRY.0
        };
        let wait = self.jitter(least, most);
        self.set_phase(name, Phase::Waiting);
        self.wake_claim(name, self.now.at + wait);
    }

    /// Another node holds the name with a higher fence.
    pub(super) fn fence(&mut self, name: &StreamName, record: &StreamRecord) {
        let Some(holding) = self.claims.held.get(name) else {
            return;
        };
        let (kind, publisher) = (holding.kind, holding.publisher);
        let (is_serving, is_undecided) = (holding.is_serving, holding.is_undecided());
        let by = record.node.clone();
        match kind {
            Kind::Pushed => {
                if let Some(publisher) = publisher {
                    if is_undecided {
                        let refusal = PublishDecision::Refused(Refusal::Taken { by });
                        self.publish_event(publisher, name, refusal);
                    } else {
                        let name = name.clone();
                        self.events.push_back(Event::Superseded {
                            publisher,
                            name,
                            by,
                        });
                    }
                }
                self.forget_claim(name);
            }
            Kind::Source => {
                if is_serving {
                    self.events.push_back(Event::HangUp { name: name.clone() });
                }
                self.stand_by(name);
            }
            Kind::Room => self.room_is_elsewhere(name, record),
        }
        self.pull_instead(name);
    }

    /// Drops everything about a name that this node no longer wants.
    pub(super) fn forget_claim(&mut self, name: &StreamName) {
        if let Some(holding) = self.claims.held.remove(name)
            && let Some(at) = holding.check_at
        {
            self.claims.checks.remove(&(at, name.clone()));
        }
        self.unwatch(name);
        if self.claims.sources.contains_key(name) {
            self.stand_by(name);
        }
    }

    /// A camera or file that nodes have in their configuration has the name: no publisher takes it
    /// over, as long as its node lives.
    fn source_has_name(&mut self, name: &StreamName, record: &StreamRecord) {
        let holding = self.claims.held.get(name);
        if holding.is_some_and(super::Holding::is_undecided) {
            let by = record.node.clone();
            self.give_up(name, Refusal::Configured { by });
        } else {
            self.fence(name, record);
        }
    }

    fn give_up(&mut self, name: &StreamName, refusal: Refusal) {
        let Some(holding) = self.claims.held.get(name) else {
            return;
        };
        let publisher = holding.publisher.filter(|_| holding.is_undecided());
        if let Some(publisher) = publisher {
            self.publish_event(publisher, name, PublishDecision::Refused(refusal));
            self.forget_claim(name);
        } else {
            self.retry_claim(name);
        }
    }

    /// Sets what the record says about the media, and writes it again where it stands.
    ///
    /// `tracks` are codec names; `bps` is the measured rate. Call it when these change, not for
    /// every measurement: each call is a write to the store.
    pub fn describe(
        &mut self,
        now: crate::config::Moment,
        name: &StreamName,
        state: crate::record::StreamState,
        tracks: Vec<String>,
        bps: u64,
    ) {
        self.now = now;
        let Some(holding) = self.claims.held.get_mut(name) else {
            return;
        };
        let media = Media { state, tracks, bps };
        if holding.media == media {
            return;
        }
        holding.media = media;
        if let (Phase::Owned, Some(version)) = (&holding.phase, holding.version) {
            self.write_claim(name, Some(version));
        }
    }
}
