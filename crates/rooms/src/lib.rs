//! Rooms of voice calls, and the participants of each.
//!
//! ```text
//! POST /call/ROOM ─► Rooms::enter ─► RoomMembership ─ kept by the session that speaks, gone with it
//!                         │ Stream "call~ROOM~ID", published by that session
//!                         ▼
//!                      Listing ── watch ──► GET /call/ROOM/SESSION: who else is here
//! ```
//!
//! A participant speaks in one session and hears each of the others in a session of its own, which
//! is an ordinary viewer's session of the other's stream. So nothing is renegotiated when
//! participants come or go, and a voice passes the server as every stream does. This module knows
//! names only: no session, no media.

mod bounds;
mod guest;
mod listed;
mod share;

use std::collections::HashMap;
use std::sync::Arc;

use glassline_hub::StreamName;
use glassline_runtime::{Current, SessionId, shrink};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

pub use bounds::Bounds;
pub use share::RoomShare;

/// Every room that has participants.
#[derive(Debug)]
pub struct Rooms {
    bounds: Current<Bounds>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    rooms: HashMap<RoomName, watch::Sender<Arc<Listing>>>,
    /// Counts changes of all rooms, so that a room that is made again has no version that it had
    /// before.
    version: u64,
}

/// The participants of a room.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Version of the list, which rises with every change.
    pub version: u64,
    /// Participants in the order in which they came.
    pub people: Vec<Participant>,
}

/// A participant of a room.
#[derive(Clone, Debug)]
pub struct Participant {
    /// Identifier of the participant for the others; it gives no right.
    pub id: ParticipantId,
    /// Name that the participant gave; 'Guest 1', 'Guest 2' and so on if it gave none.
    pub name: Box<str>,
    /// User whose right to join the participant used; `None` if a token gave the right, or if the
    /// server is open.
    pub user: Option<Box<str>>,
    /// Session that the participant speaks in. A client that knows this identifier is the
    /// participant.
    pub session: SessionId,
    /// Permits for the participant's requests that wait for a change.
    pub waits: Arc<Semaphore>,
}

/// A client that joins a room.
#[derive(Debug)]
pub struct Newcomer<'a> {
    /// Identifier for the others.
    pub id: ParticipantId,
    /// Name that the client gave; it may be empty.
    pub name: &'a str,
    /// User whose right it is; `None` if no user's.
    pub user: Option<String>,
    /// Keeps the room at this server; `None` for a server alone.
    pub share: Option<Box<dyn RoomShare>>,
}

/// Most requests of one participant that wait for a change: one, and one more that its client gave
/// up without the server knowing.
const WAITS_MAX: usize = 2;

impl Listing {
    /// Returns the participant who speaks in `session`.
    pub fn of_session(&self, session: &SessionId) -> Option<&Participant> {
        self.people.iter().find(|it| it.session == *session)
    }
}

/// A participant's membership in its room, which ends when this is dropped.
#[derive(Debug)]
pub struct RoomMembership {
    rooms: Arc<Rooms>,
    room: RoomName,
    id: ParticipantId,
    /// Dropped after the participant has left.
    _share: Option<Box<dyn RoomShare>>,
}

impl Drop for RoomMembership {
    fn drop(&mut self) {
        self.rooms.leave(&self.room, &self.id);
    }
}

impl Rooms {
    /// Creates the state without rooms.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds: Current::new(bounds),
            inner: Mutex::default(),
        }
    }

    /// Replaces the limits for participants that come from now on; others stay.
    pub fn set_bounds(&self, bounds: Bounds) {
        self.bounds.replace(bounds);
    }

    /// Adds `newcomer` to `room`, which is created if it has no participants.
    ///
    /// # Errors
    /// Returns [`Full`] with the limit that was reached.
    pub fn enter(
        self: &Arc<Self>,
        room: &RoomName,
        newcomer: Newcomer<'_>,
        session: SessionId,
    ) -> Result<RoomMembership, Full> {
        let Newcomer {
            id,
            name,
            user,
            share,
        } = newcomer;
        let bounds = self.bounds.get();
        let mut inner = self.inner.lock();
        let here = inner
            .rooms
            .get(room)
            .map_or(0, |it| it.borrow().people.len());
        if here >= bounds.participants {
            let limit = bounds.participants;
            return Err(Full::Room { limit });
        }
        if here == 0 && inner.rooms.len() >= bounds.rooms {
            let limit = bounds.rooms;
            return Err(Full::Rooms { limit });
        }
        inner.version += 1;
        let version = inner.version;
        let sender = inner.rooms.entry(room.clone()).or_default();
        sender.send_modify(|listing| {
            let listing = Arc::make_mut(listing);
            listing.version = version;
            listing.people.push(Participant {
                id: id.clone(),
                name: guest::name_for(name, &listing.people),
                user: user.map(String::into_boxed_str),
                session,
                waits: Arc::new(Semaphore::new(WAITS_MAX)),
            });
        });
        Ok(RoomMembership {
            rooms: Arc::clone(self),
            room: room.clone(),
            id,
            _share: share,
        })
    }

    /// Returns a receiver of the participants of `room` and of every change; `None` if it has none.
    pub fn watch(&self, room: &RoomName) -> Option<watch::Receiver<Arc<Listing>>> {
        self.inner
            .lock()
            .rooms
            .get(room)
            .map(watch::Sender::subscribe)
    }

    /// Returns the sessions of the participants for which `has_lost` returns true. It is called with
    /// the user and the name of the stream of each participant that joined by a user's right.
    pub fn sessions_where(&self, has_lost: impl Fn(&str, &StreamName) -> bool) -> Vec<SessionId> {
        let inner = self.inner.lock();
        let mut sessions = Vec::new();
        for (room, listing) in &inner.rooms {
            let listing = listing.borrow();
            let lost = listing.people.iter().filter(|it| {
                let user = it.user.as_deref();
                user.is_some_and(|user| has_lost(user, &room.stream(&it.id)))
            });
            sessions.extend(lost.map(|it| it.session.clone()));
        }
        sessions
    }

    /// Returns the sessions of all participants of the room called `room`.
    pub fn sessions_of(&self, room: &str) -> Vec<SessionId> {
        let inner = self.inner.lock();
        let listing = inner.rooms.iter().find(|(name, _)| &*name.0 == room);
        let people = listing.map(|(_, listing)| listing.borrow().people.clone());
        people
            .unwrap_or_default()
            .into_iter()
            .map(|it| it.session)
            .collect()
    }

    /// Returns the number of rooms with participants, and the number of participants of all of
    /// them.
    pub fn counts(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        let people = inner.rooms.values().map(|it| it.borrow().people.len());
        (inner.rooms.len(), people.sum())
    }

    fn leave(&self, room: &RoomName, id: &ParticipantId) {
        let mut inner = self.inner.lock();
        inner.version += 1;
        let version = inner.version;
        let Some(sender) = inner.rooms.get(room) else {
            return;
        };
        sender.send_modify(|listing| {
            let listing = Arc::make_mut(listing);
            listing.version = version;
            listing.people.retain(|it| it.id != *id);
        });
        if sender.borrow().people.is_empty() {
            inner.rooms.remove(room);
            shrink(&mut inner.rooms);
        }
    }
}

/// Prefix of the names of participants' streams. No room's name has a `~`.
const STREAM: &str = "call~";
const ROOM_BYTES_MAX: usize = 64;

/// The name of a room: 1–64 of `A–Z a–z 0–9 . _ -`, not beginning with `.` or `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub struct RoomName(Box<str>);

impl RoomName {
    /// Checks `text`.
    ///
    /// # Errors
    /// Returns [`RoomNameError`] with the rule that `text` breaks.
    pub fn parse(text: &str) -> Result<Self, RoomNameError> {
        if text.is_empty() || text.len() > ROOM_BYTES_MAX {
            return Err(RoomNameError::Length { bytes: text.len() });
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if let Some(found) = text.chars().find(|c| !allowed(*c)) {
            return Err(RoomNameError::Character { found });
        }
        if text.starts_with(['.', '-']) {
            return Err(RoomNameError::Start);
        }
        Ok(Self(text.into()))
    }

    /// Returns the name of a participant's stream. The right to join is the right to publish it,
    /// and others need the right to read it to hear the participant by another protocol.
    pub fn stream(&self, id: &ParticipantId) -> StreamName {
        StreamName::parse(&self.stream_of(id.as_str()))
            .expect("made of what a stream's name is made of")
    }
}

impl RoomName {
    /// Returns the name of the broker for messages between two participants. It is not a stream,
    /// but has a name of the same form.
    pub fn pair(&self, one: &ParticipantId, other: &ParticipantId) -> StreamName {
        let [first, second] = match one.0 <= other.0 {
            true => [one, other],
            false => [other, one],
        };
        let pair = format!("{}~{}", first.as_str(), second.as_str());
        StreamName::parse(&self.stream_of(&pair)).expect("made of what a stream's name is made of")
    }

    /// Returns the name of [`stream`](Self::stream) for a text that should be a participant's
    /// identifier.
    pub fn stream_of(&self, id: &str) -> String {
        format!("{STREAM}{}~{id}", self.0)
    }

    /// Returns the name under which a server of a cluster claims the room. It is not a stream, but has
    /// a name of the same form.
    pub fn claimed(&self) -> String {
        format!("{STREAM}{}", self.0)
    }

    /// Returns the pattern of the names of the room's voices.
    pub fn voices(&self) -> String {
        voices_of(&self.0)
    }
}

/// Returns the pattern of the names of all voices in the rooms of `pattern`, which is the name of a
/// room, a beginning followed by `*`, `*`, or `**`.
pub fn voices_of(pattern: &str) -> String {
    match pattern.strip_suffix('*') {
        // No room has folders, so all of a folder is all.
        Some("*") => format!("{STREAM}*"),
        Some(beginning) => format!("{STREAM}{beginning}*"),
        None => format!("{STREAM}{pattern}~*"),
    }
}

/// Returns the room that a server claims under `name`; `None` if that is no room's.
pub fn claimed_room(name: &str) -> Option<&str> {
    name.strip_prefix(STREAM)
}

/// Returns whether `stream` is the name of a voice of a room.
pub fn is_voice(stream: &str) -> bool {
    stream.starts_with(STREAM)
}

/// Identifier of a participant for the others of its room: twelve hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParticipantId(Box<str>);

impl ParticipantId {
    /// Creates an identifier of six random bytes.
    pub fn new(bytes: [u8; 6]) -> Self {
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self(text.into())
    }

    /// As it stands in URLs.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The reason why a text is not a room's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoomNameError {
    /// The name is empty or too long.
    #[error("a room's name has 1 to {ROOM_BYTES_MAX} characters, this one has {bytes}")]
    Length {
        /// Length found, in bytes.
        bytes: usize,
    },
    /// The name has a character that is not allowed.
    #[error("{found:?} in a room's name: use letters, digits, '.', '_' and '-'")]
    Character {
        /// The first such character.
        found: char,
    },
    /// The name begins with a dot or a dash.
    #[error("a room's name begins with a letter, a digit or '_'")]
    Start,
}

/// The limit that an additional participant would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// The room has as many participants as configured.
    #[error(
        "the room has {limit} participants already; wait until somebody leaves, or raise `limits.room_participants`"
    )]
    Room {
        /// Configured number of participants in a room, `limits.room_participants`.
        limit: usize,
    },
    /// The server has as many rooms as configured.
    #[error(
        "{limit} rooms are in use already; join one of them, or raise `limits.rooms` to allow more"
    )]
    Rooms {
        /// Configured number of rooms, `limits.rooms`.
        limit: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rooms() -> Arc<Rooms> {
        Arc::new(Rooms::new(Bounds {
            rooms: 1,
            participants: 2,
        }))
    }

    fn room(text: &str) -> RoomName {
        RoomName::parse(text).expect("a good name")
    }

    fn newcomer(byte: u8, user: Option<&str>) -> Newcomer<'static> {
        Newcomer {
            id: ParticipantId::new([byte; 6]),
            name: "",
            user: user.map(str::to_owned),
            share: None,
        }
    }

    fn enter(rooms: &Arc<Rooms>, name: &str, byte: u8) -> Result<RoomMembership, Full> {
        let session = SessionId::new(&format!("session {byte}"));
        rooms.enter(&room(name), newcomer(byte, None), session)
    }

    #[test]
    fn rooms_are_there_while_somebody_is_in_them_and_are_bounded() {
        let rooms = rooms();
        let first = enter(&rooms, "a", 1).expect("room");
        let other = enter(&rooms, "b", 2).expect_err("one room at most");
        assert_eq!(other, Full::Rooms { limit: 1 });
        let second = enter(&rooms, "a", 2).expect("room for two");
        let third = enter(&rooms, "a", 3).expect_err("and no more");
        assert_eq!(third, Full::Room { limit: 2 });
        assert_eq!(rooms.counts(), (1, 2));
        drop(first);
        enter(&rooms, "a", 3).expect("a place is free again");
        drop(second);
        assert_eq!(rooms.counts(), (0, 0));
        assert!(rooms.watch(&room("a")).is_none());
        let _b = enter(&rooms, "b", 2).expect("the other room is gone");
    }

    #[test]
    fn participants_of_a_user_are_found() {
        let rooms = rooms();
        let session = SessionId::new("session 1");
        let ann = rooms.enter(&room("a"), newcomer(1, Some("ann")), session.clone());
        let _ann = ann.expect("room");
        let _token = enter(&rooms, "a", 2).expect("room");
        let found = rooms.sessions_where(|user, stream| {
            assert_eq!((user, stream.as_str()), ("ann", "call~a~010101010101"));
            true
        });
        assert_eq!(found, [session]);
        assert_eq!(rooms.sessions_where(|_, _| false), []);
    }

    #[test]
    fn who_watches_sees_each_change_and_that_versions_rise() {
        let rooms = rooms();
        let first = enter(&rooms, "a", 1).expect("room");
        let mut watched = rooms.watch(&room("a")).expect("somebody is there");
        let mut look = || {
            let listing = watched.borrow_and_update();
            let ids = listing.people.iter().map(|it| it.id.as_str().to_owned());
            (listing.version, ids.collect::<Vec<_>>())
        };
        let (before, ids) = look();
        assert_eq!(ids, ["010101010101"]);
        let second = enter(&rooms, "a", 2).expect("room");
        let (now, ids) = look();
        assert!(now > before && ids.len() == 2);
        drop(first);
        assert_eq!(look().1, ["020202020202"]);
        drop(second);
        let again = enter(&rooms, "a", 3).expect("room");
        let listing = rooms.watch(&room("a")).expect("it is back");
        assert!(listing.borrow().version > now);
        let session = SessionId::new("session 3");
        assert!(listing.borrow().of_session(&session).is_some());
        drop(again);
    }

    #[test]
    fn names_are_such_that_streams_can_have_them() {
        let longest = "x".repeat(ROOM_BYTES_MAX);
        for good in ["standup", "Room_2.a-b", "7", &longest] {
            let [one, other] = [0xab, 0xcd].map(|byte| ParticipantId::new([byte; 6]));
            let pair = room(good).pair(&one, &other);
            assert_eq!(pair, room(good).pair(&other, &one));
            let stream = room(good).stream(&one);
            assert_ne!(pair, stream);
            assert_eq!(stream.as_str(), format!("call~{good}~abababababab"));
        }
        let bad = ["", "a b", "a~b", "a/b", ".a", "-a", "ü", &"x".repeat(65)];
        for bad in bad {
            assert!(RoomName::parse(bad).is_err(), "{bad}");
        }
    }
}
