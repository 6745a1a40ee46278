//! A room of a server: a participant sends in one session, and receives each other
//! participant in another.
//!
//! ```text
//! POST /call/ROOM ─► Call: devices, sent audio
//! GET  the session, repeatedly (watcher) ── who else is here ─► keeper: a leg for
//! POST the session/hear/ID, for each of them ◄───────────────────┘  each of them
//! ```
//!
//! A leg that breaks is dialled again while its participant is in the room; a participant who
//! leaves and comes back has a new id. Records about stages, ours and the others', come out
//! of [`Room::records`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Deserialize;
use thiserror::Error;
use url::Url;

use super::dial::{Dial, DialError, connect};
use super::{Call, CallError, Config, Devices, Dialling, Ended, Leg, LegConnector, Ssrc, far};
use crate::impairment::ImpairmentProxy;
use crate::whep::{self, SessionWatch};

mod record;

pub use record::RoomRecord;

/// Longest wait for a list of participants; the server itself waits for 20 s if nothing has
/// changed.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two looks at the legs.
const LOOK: Duration = Duration::from_millis(100);
/// Pause before a silent server or a broken leg is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Most records that wait: fifteen participants send 6,000 records a second, which are taken
/// every 50 ms.
const RECORDS_MAX: usize = 1 << 16;

/// A call in a room. It lasts until it ends or is dropped, which leaves the room.
#[derive(derive_more::Debug)]
#[debug("Room {{ session: {session:?}, .. }}")]
pub struct Room {
    call: Call,
    session: Url,
    dial: Dial,
    changes: Receiver<Change>,
    records: Receiver<RoomRecord>,
    alternates: Arc<Mutex<Vec<Url>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    _between: Option<ImpairmentProxy>,
}

/// A change in a room.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// This participant joined, and will be heard.
    Joined(String),
    /// This participant left the room.
    Left(String),
    /// A participant cannot be heard for now, or the list of participants is not available;
    /// it is tried again.
    Failed(String),
}

/// The reason why the room was not joined.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The session could not be made, as with any call.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The devices or the system failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The server returned no session URL.
    #[error("{0} returned no session URL: check that it is a room of a Glassline server")]
    NoSession(Url),
}

impl Room {
    /// Joins the room at `dial.url`; audio is sent and played as soon as the connection is
    /// established.
    ///
    /// # Errors
    /// [`JoinError`] says why the room was not joined.
    pub fn join(dial: Dial, config: &Config, devices: Devices) -> Result<Self, JoinError> {
        let dialled = connect(&dial, &dial.url, Dialling::speaking, config)?;
        let session = dialled.location;
        let session = session.ok_or_else(|| JoinError::NoSession(dial.url.clone()))?;
        let call = Call::start_among(dialled.transport, config.clone(), devices)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (changes_in, changes) = channel();
        let (lists_in, lists) = channel();
        let (records_in, records) = sync_channel(RECORDS_MAX);
        let alternates = Arc::new(Mutex::new(dialled.alternates));
        let list_watcher = ListWatcher {
            dial: dial.clone(),
            session: session.clone(),
            stop: Arc::clone(&stop),
            lists: lists_in,
            changes: changes_in.clone(),
            alternates: Arc::clone(&alternates),
        };
        let asked = whep::SessionAddress {
            location: session.clone(),
            token: dial.token.clone(),
            trust: dial.trust,
        };
        let leg_keeper = LegKeeper {
            connector: call.leg_connector(),
            dial: dial.clone(),
            config: config.clone(),
            watch: SessionWatch::start(asked, Instant::now()),
            session: session.clone(),
            stop: Arc::clone(&stop),
            changes: changes_in,
            records: records_in,
            others: BTreeMap::new(),
        };
        let mut room = Self {
            call,
            session,
            dial,
            changes,
            records,
            alternates,
            stop,
            threads: Vec::new(),
            _between: dialled.between,
        };
        room.spawn("room list", move || list_watcher.run())?;
        room.spawn("room legs", move || leg_keeper.run(&lists))?;
        Ok(room)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), CallError> {
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(run).map_err(|error| CallError::System {
            what: "starting a thread",
            reason: error.to_string(),
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// The call of our own participant.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// Returns the changes since the last call.
    pub fn poll(&self) -> impl Iterator<Item = Change> {
        self.changes.try_iter()
    }

    /// Returns the records of the other participants since the last call; call it at least
    /// every second.
    pub fn records(&self) -> impl Iterator<Item = RoomRecord> {
        self.records.try_iter()
    }

    /// URLs of the room at other servers of the cluster, valid for half a minute.
    pub fn alternates(&self) -> Vec<Url> {
        self.alternates.lock().clone()
    }

    /// Leaves the room, waits until the devices have stopped, and returns how the call ended.
    pub fn leave(&mut self) -> Result<Ended, CallError> {
        self.stop.store(true, Ordering::Relaxed);
        let before = self.call.ended();
        // A server that is lost needs no goodbye.
        let is_lost = matches!(before, Some(Err(CallError::ServerLost(_))));
        if !self.threads.is_empty() && !is_lost {
            // The server answers the pending GET and forgets us. If the DELETE is lost, the
            // farewell that follows tells it, or a timeout.
            let token = self.dial.token.as_deref();
            if let Err(error) = whep::delete(&self.session, token, self.dial.trust) {
                tracing::debug!(%error, "cannot DELETE our session in the room; the server will time it out");
            }
        }
        // The list may be waited for longer than a caller has time who can go to another server.
        for thread in self.threads.drain(..).skip(usize::from(is_lost)) {
            if thread.join().is_err() {
                tracing::error!("a thread of a room has panicked");
            }
        }
        let ended = self.call.hang_up();
        // After our farewell the server closes the session, which is our own end.
        match before {
            None => ended.map(|_| Ended::ByUs),
            Some(ended) => ended,
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // A caller that needs the result has called `leave` itself.
        let _ = self.leave();
    }
}

/// The participants of a room, as the server lists them.
#[derive(Debug, Deserialize)]
struct List {
    version: u64,
    others: Vec<Other>,
}

#[derive(Clone, Debug, Deserialize)]
struct Other {
    id: String,
    name: String,
}

/// The thread that requests the list of participants.
struct ListWatcher {
    dial: Dial,
    session: Url,
    stop: Arc<AtomicBool>,
    lists: Sender<List>,
    changes: Sender<Change>,
    alternates: Arc<Mutex<Vec<Url>>>,
}

impl ListWatcher {
    #[expect(clippy::disallowed_methods, reason = "a thread of a shell may wait")]
    fn run(self) {
        let (token, trust) = (self.dial.token.as_deref(), self.dial.trust);
        let mut url = self.session.clone();
        let mut reported = String::new();
        while !self.stop.load(Ordering::Relaxed) {
            let text = whep::get(&url, token, trust, PATIENCE);
            let list = text.map_err(|error| error.to_string()).and_then(|it| {
                self.note(it.alternates);
                serde_json::from_str(&it.text).map_err(|it| format!("{url}: {it}"))
            });
            let list: List = match list {
                Ok(list) => list,
                Err(error) if self.stop.load(Ordering::Relaxed) => {
                    tracing::debug!(error, "left");
                    return;
                }
                Err(error) => {
                    if error != reported {
                        reported.clone_from(&error);
                        // Without a receiver the room is about to be left.
                        let _ = self.changes.send(Change::Failed(error));
                    }
                    std::thread::sleep(RETRY);
                    continue;
                }
            };
            reported.clear();
            url.set_query(Some(&format!("since={}", list.version)));
            if self.lists.send(list).is_err() {
                return;
            }
        }
    }
}

impl ListWatcher {
    /// Notes the other servers that an answer names; an answer that names none changes nothing.
    fn note(&self, named: Vec<Url>) {
        if !named.is_empty() {
            *self.alternates.lock() = named;
        }
    }
}

/// The thread that keeps a leg to each participant, and notices that the server is lost.
struct LegKeeper {
    connector: LegConnector,
    watch: SessionWatch,
    dial: Dial,
    config: Config,
    session: Url,
    stop: Arc<AtomicBool>,
    changes: Sender<Change>,
    records: SyncSender<RoomRecord>,
    others: BTreeMap<String, Participant>,
}

/// Another participant of the room, as this end knows them.
struct Participant {
    /// Name of the participant, for people to read.
    name: String,
    leg: Option<Dialled>,
    /// SSRC of the last voice.
    voice: Option<Ssrc>,
    /// Earliest time of the next attempt.
    next: Instant,
    /// The last failure that was reported.
    failure: Option<String>,
}

/// A leg, and the URL of its session.
struct Dialled {
    leg: Leg,
    location: Option<Url>,
    _between: Option<ImpairmentProxy>,
}

impl LegKeeper {
    fn run(mut self, lists: &Receiver<List>) {
        while !self.stop.load(Ordering::Relaxed) {
            match lists.recv_timeout(LOOK) {
                Ok(list) => self.follow(&list),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.watch_over();
            self.dial_missing_legs();
        }
        for (id, mut other) in self.others {
            other.hang_up(&id, &self.records);
        }
    }

    /// Ends the call if its server is lost.
    fn watch_over(&mut self) {
        let (now, heard) = (Instant::now(), *self.connector.call.heard());
        // Before the first datagram, the session's own deadline counts.
        let Some(heard) = heard else { return };
        if let Some(why) = self.watch.look(now, heard) {
            self.connector.call.end(Err(CallError::ServerLost(why)));
        }
    }

    fn follow(&mut self, list: &List) {
        let is_here = |id: &String| list.others.iter().any(|it| it.id == *id);
        let gone: Vec<String> = self
            .others
            .keys()
            .filter(|it| !is_here(it))
            .cloned()
            .collect();
        for id in gone {
            if let Some(mut other) = self.others.remove(&id) {
                self.report(Change::Left(other.name.clone()));
                let location = other.hang_up(&id, &self.records);
                push_record(&self.records, RoomRecord::Left { id });
                self.delete_session(location);
            }
        }
        for Other { id, name } in &list.others {
            if self.others.contains_key(id) {
                continue;
            }
            let participant_name = match name.as_str() {
                "" => id.clone(),
                name => name.to_owned(),
            };
            self.report(Change::Joined(participant_name.clone()));
            let joined = RoomRecord::Joined {
                id: id.clone(),
                name: participant_name.clone(),
            };
            push_record(&self.records, joined);
            let other = Participant {
                name: participant_name,
                leg: None,
                voice: None,
                next: Instant::now(),
                failure: None,
            };
            self.others.insert(id.clone(), other);
        }
    }

    /// Dials participants without a leg.
    fn dial_missing_legs(&mut self) {
        let now = Instant::now();
        let mut failures = Vec::new();
        for (id, other) in &mut self.others {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            other.collect_records(id, &self.records);
            let ended = other.leg.as_ref().and_then(|it| it.leg.ended());
            if let Some(end) = ended {
                other.hang_up(id, &self.records);
                other.next = now + RETRY;
                tracing::debug!(participant = id, ?end, "a leg ended");
            }
            if other.leg.is_some() || now < other.next {
                continue;
            }
            let at = hear_url(&self.session, id);
            match connect_leg(&self.dial, &at, &self.config, &self.connector) {
                Ok(dialled) => {
                    other.leg = Some(dialled);
                    other.failure = None;
                }
                Err(error) => {
                    other.next = Instant::now() + RETRY;
                    let text = format!("cannot hear {}: {error}", other.name);
                    if other.failure.as_ref() != Some(&text) {
                        other.failure = Some(text.clone());
                        failures.push(Change::Failed(text));
                    }
                }
            }
        }
        for failure in failures {
            self.report(failure);
        }
    }

    /// Ends a leg's session at the server, in addition to the farewell inside the session.
    fn delete_session(&self, location: Option<Url>) {
        if let Some(location) = location {
            let token = self.dial.token.as_deref();
            if let Err(error) = whep::delete(&location, token, self.dial.trust) {
                tracing::debug!(%error, "cannot DELETE a leg's session; the server will time it out");
            }
        }
    }

    fn report(&self, change: Change) {
        // Without a receiver the room is about to be left.
        let _ = self.changes.send(change);
    }
}

impl Participant {
    /// Notes the leg's records since the last time.
    fn collect_records(&mut self, id: &str, records: &SyncSender<RoomRecord>) {
        let Some(dialled) = &self.leg else { return };
        let id = || id.to_owned();
        let voice = dialled.leg.voice();
        if let Some(voice) = voice.filter(|it| self.voice != Some(*it)) {
            self.voice = Some(voice);
            push_record(records, RoomRecord::Voice { id: id(), voice });
        }
        let mut received: Vec<far::RemoteRecord> = Vec::new();
        dialled.leg.drain(&mut received);
        for remote in received {
            push_record(records, RoomRecord::Remote { id: id(), remote });
        }
    }

    /// Ends the leg, if there is one, and notes its last records; returns the URL of its
    /// session.
    fn hang_up(&mut self, id: &str, records: &SyncSender<RoomRecord>) -> Option<Url> {
        self.leg.as_mut()?.leg.hang_up();
        self.collect_records(id, records);
        let dialled = self.leg.take()?;
        let (id, report) = (id.to_owned(), dialled.leg.far());
        push_record(records, RoomRecord::Far { id, report });
        dialled.location
    }
}

fn push_record(records: &SyncSender<RoomRecord>, record: RoomRecord) {
    if records.try_send(record).is_err() {
        // Without tables nothing takes the records.
        tracing::trace!("dropped a record of another participant");
    }
}

fn connect_leg(
    dial: &Dial,
    at: &Url,
    config: &Config,
    connector: &LegConnector,
) -> Result<Dialled, DialError> {
    let dialled = connect(dial, at, Dialling::hearing, config)?;
    Ok(Dialled {
        leg: connector.connect(dialled.transport)?,
        location: dialled.location,
        _between: dialled.between,
    })
}

fn hear_url(session: &Url, id: &str) -> Url {
    let mut url = session.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.push("hear").push(id);
    }
    url
}
