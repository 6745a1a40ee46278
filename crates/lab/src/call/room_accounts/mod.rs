//! Stage delays of a call in a room, for each of the other participants.
//!
//! Each participant hears each other one in a session of its own, and the server forwards the
//! records of both (`client::call::Leg`). Timestamps stay as the speaker set them. SSRCs differ
//! from session to session, so all packets of a voice are joined under one SSRC here.

use std::collections::VecDeque;

use glassline_client::call::{PlayoutStamps, Record, Records, Room, RoomRecord, Ssrc, far};

use super::accounts::Accounts;
use super::two_way::TwoWay;

#[cfg(test)]
mod tests;

/// Most participants that are counted. A participant who leaves and joins again counts twice.
const OTHERS_MAX: usize = 64;
/// Most records of voices that are not named yet: a few seconds.
const UNNAMED_MAX: usize = 4_096;
/// The SSRC that replaces all SSRCs of a voice.
const VOICE: Ssrc = Ssrc(0);

/// Collects the records of a call in a room, from one of its ends.
#[derive(Debug, Default)]
pub struct RoomAccounts {
    /// Records for the case that nobody else joins.
    alone: Accounts,
    others: Vec<Other>,
    /// Participants who joined when there were [`OTHERS_MAX`] already.
    uncounted: u64,
    records: Records,
    /// Records of received voices that are not named yet.
    unnamed: VecDeque<Record>,
}

#[derive(Debug)]
struct Other {
    id: String,
    called: String,
    voices: Vec<Ssrc>,
    is_here: bool,
    accounts: Accounts,
    far: Option<far::Report>,
}

impl RoomAccounts {
    /// Takes what happened in `room` since the last poll. Call it every few seconds, and once
    /// after the end.
    pub fn poll(&mut self, room: &Room) {
        let mut records = std::mem::take(&mut self.records);
        records.clear();
        room.call().drain(&mut records);
        for record in room.records() {
            self.note(record);
        }
        self.take(&records);
        self.records = records;
    }

    /// Takes a record about one of the other participants.
    pub fn note(&mut self, record: RoomRecord) {
        match record {
            RoomRecord::Joined { id, name } => self.add_participant(id, name),
            RoomRecord::Left { id } => self.with(&id, |it| it.is_here = false),
            RoomRecord::Voice { id, voice } => self.with(&id, |it| it.voices.push(voice)),
            RoomRecord::Remote { id, remote } => self.with(&id, |it| {
                let record = with_ssrc(remote.record, VOICE);
                it.accounts
                    .record_remote(&far::RemoteRecord { record, ..remote });
            }),
            RoomRecord::Far { id, report } => self.with(&id, |it| it.far = report),
        }
    }

    fn add_participant(&mut self, id: String, called: String) {
        if self.others.len() >= OTHERS_MAX {
            self.uncounted += 1;
            return;
        }
        self.others.push(Other {
            id,
            called,
            voices: Vec::new(),
            is_here: true,
            accounts: Accounts::new(),
            far: None,
        });
    }

    fn with(&mut self, id: &str, change: impl FnOnce(&mut Other)) {
        self.others.iter_mut().find(|it| it.id == id).map(change);
    }

    /// Takes this end's records. The audio that this end sends goes to every participant.
    pub fn take(&mut self, records: &Records) {
        let here = self.others.iter_mut().filter(|it| it.is_here);
        let here = here.map(|it| &mut it.accounts);
        for accounts in here.chain([&mut self.alone]) {
            for send_stamps in &records.sent {
                accounts.sent.record_sent(VOICE, *send_stamps, None);
            }
            for at in &records.capture_calls {
                accounts.sent.capture_called(*at);
            }
            for at in &records.playout_calls {
                accounts.received.playout_called(*at);
            }
        }
        self.unnamed
            .extend(records.played.iter().map(|it| Record::Played(*it)));
        self.unnamed
            .extend(records.duplicates.iter().map(|it| Record::Duplicate(*it)));
        for _ in 0..self.unnamed.len() {
            let Some(record) = self.unnamed.pop_front() else {
                break;
            };
            if !self.place(record) {
                self.unnamed.push_back(record);
            }
        }
        // Records of voices that stay without a name are dropped.
        let over = self.unnamed.len().saturating_sub(UNNAMED_MAX);
        self.unnamed.drain(..over);
    }

    /// Adds a record to the participant whose voice it is; returns false if that is not known.
    fn place(&mut self, record: Record) -> bool {
        let voice = match record {
            Record::Played(it) => it.ssrc,
            Record::Duplicate(it) => it.ssrc,
            _ => return true,
        };
        let mut others = self.others.iter_mut();
        let Some(other) = others.find(|it| it.voices.contains(&voice)) else {
            return false;
        };
        match with_ssrc(record, VOICE) {
            Record::Played(it) => other.accounts.received.record_played(it, None),
            Record::Duplicate(it) => other.accounts.received.duplicate(it),
            _ => {}
        }
        true
    }

    /// Quantile `share` (0–1) of the mouth-to-ear delay of received audio so far, in ms, for the
    /// participant with the longest one. It is some seconds old, since records of far ends are
    /// delayed.
    pub fn mouth_to_ear_ms(&self, share: f64) -> Option<f64> {
        let here = self.others.iter().filter(|it| it.is_here);
        let all = here.filter_map(|it| it.accounts.mouth_to_ear_ms(share));
        all.max_by(f64::total_cmp)
    }

    /// Builds the reports of both directions with each participant, in the order in which they
    /// joined. `room` names the room.
    pub fn finish(self, room: &str) -> TwoWay {
        if self.others.is_empty() {
            return self.alone.finish_room(None, None, room);
        }
        let mut all = TwoWay::default();
        for other in self.others {
            let accounts = other.accounts;
            let both = accounts.finish_room(other.far.as_ref(), Some(&other.called), room);
            all.directions.extend(both.directions);
        }
        if self.uncounted > 0
            && let Some(report) = all.directions.first_mut()
        {
            let count = self.uncounted;
            report.notes.push(format!(
                "{count} more participants joined and have no tables: the report holds {OTHERS_MAX}"
            ));
        }
        all
    }
}

/// The record with its SSRC replaced by `voice`.
fn with_ssrc(record: Record, voice: Ssrc) -> Record {
    match record {
        Record::Sent(_, it) => Record::Sent(voice, it),
        Record::Played(it) => Record::Played(PlayoutStamps { ssrc: voice, ..it }),
        Record::Duplicate(mut it) => {
            it.ssrc = voice;
            Record::Duplicate(it)
        }
        other => other,
    }
}
