//! A call in a room: an account with each of the others.
//!
//! Each participant hears each other one in a session of its own, and the server passes
//! on what both note of it (`client::call::Leg`). Timestamps stay as they were spoken;
//! SSRCs are each session's own, so all of a voice's are one here.

use std::collections::VecDeque;

use glassline_client::call::{PlayoutStamps, Record, Records, Room, RoomRecord, Ssrc, far};

use super::accounts::Accounts;
use super::two_way::TwoWay;

#[cfg(test)]
mod tests;

/// So many others have an account; who comes and goes and comes again has several.
const OTHERS_MAX: usize = 64;
/// Records of voices that nobody has named yet: seconds of them.
const STRANGE_MAX: usize = 4_096;
/// All numbers of a voice.
const VOICE: Ssrc = Ssrc(0);

/// The accounts of a call in a room, from one of its ends.
#[derive(Debug, Default)]
pub struct RoomAccounts {
    /// For where nobody else comes.
    alone: Accounts,
    others: Vec<Other>,
    /// Who came when there were as many as there may be.
    uncounted: u64,
    records: Records,
    /// What was heard of voices that are not named yet.
    strange: VecDeque<Record>,
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
    /// Takes what happened in `room` since the last time: call it every few seconds, and
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

    /// Takes what is noted of one of the others.
    pub fn note(&mut self, record: RoomRecord) {
        match record {
            RoomRecord::Joined { id, name } => self.come(id, name),
            RoomRecord::Left { id } => self.with(&id, |it| it.is_here = false),
            RoomRecord::Voice { id, voice } => self.with(&id, |it| it.voices.push(voice)),
            RoomRecord::Remote { id, remote } => self.with(&id, |it| {
                let record = under(remote.record, VOICE);
                it.accounts.told(&far::RemoteRecord { record, ..remote });
            }),
            RoomRecord::Far { id, report } => self.with(&id, |it| it.far = report),
        }
    }

    fn come(&mut self, id: String, called: String) {
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

    /// Takes what this end saw: what it said is said to everybody who is here.
    pub fn take(&mut self, records: &Records) {
        let here = self.others.iter_mut().filter(|it| it.is_here);
        let here = here.map(|it| &mut it.accounts);
        for accounts in here.chain([&mut self.alone]) {
            for spoken in &records.sent {
                accounts.said.spoken(VOICE, *spoken, None);
            }
            for at in &records.capture_calls {
                accounts.said.capture_called(*at);
            }
            for at in &records.playout_calls {
                accounts.heard.playout_called(*at);
            }
        }
        self.strange
            .extend(records.played.iter().map(|it| Record::Played(*it)));
        self.strange
            .extend(records.duplicates.iter().map(|it| Record::Duplicate(*it)));
        for _ in 0..self.strange.len() {
            let Some(record) = self.strange.pop_front() else {
                break;
            };
            if !self.place(record) {
                self.strange.push_back(record);
            }
        }
        // Of whom there is no account.
        let over = self.strange.len().saturating_sub(STRANGE_MAX);
        self.strange.drain(..over);
    }

    /// False if nobody is known by that voice.
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
        match under(record, VOICE) {
            Record::Played(it) => other.accounts.heard.heard(it, None),
            Record::Duplicate(it) => other.accounts.heard.duplicate(it),
            _ => {}
        }
        true
    }

    /// The whole way so far of what is heard here, of whom it takes longest: the quantile
    /// `share`, in ms; some seconds old, since far records wait.
    pub fn mouth_to_ear_ms(&self, share: f64) -> Option<f64> {
        let here = self.others.iter().filter(|it| it.is_here);
        let all = here.filter_map(|it| it.accounts.mouth_to_ear_ms(share));
        all.max_by(f64::total_cmp)
    }

    /// Where the milliseconds went: what is said to each of the others and heard from it,
    /// in the order in which they came. `room` is where that was.
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
                "{count} more came, of whom there are no tables: {OTHERS_MAX} are kept"
            ));
        }
        all
    }
}

/// The same, of `voice`.
fn under(record: Record, voice: Ssrc) -> Record {
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
