//! The registry's record of one session, whichever thread owns the peer.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glassline_access::auth::{Excluded, Requester};
use glassline_hub::StreamName;
use glassline_latency::ReportAllowance;
use glassline_runtime::SessionId;
use glassline_webrtc::IceCredentials;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Mutex as AsyncMutex, watch};

use super::diagnosis::ClientView;
use super::past::{PastPlace, PastSession};
use super::peer::Peer;

/// The registry's record of one session.
#[derive(Debug)]
pub struct SessionRecord {
    /// The session's identifier in URLs.
    pub id: SessionId,
    /// Name of the stream that the peer watches, publishes its voice as, or publishes messages next
    /// to.
    pub stream: StreamName,
    /// Whether the peer watches.
    is_viewer: bool,
    /// Name of the watched file in the session's URL; unset if a stream is watched. The stream of a
    /// file may have another name, since a stream's name has no `/`.
    file: OnceLock<Box<str>>,
    /// The recordings that the peer watches; empty while it watches a stream or a file. The lock is held
    /// while the peer goes from one to the other.
    past: AsyncMutex<Option<Box<PastSession>>>,
    /// Whether the peer watches recordings.
    is_past: AtomicBool,
    created: Instant,
    /// End of the rights that the session was made with; unset if they have none.
    until: OnceLock<Instant>,
    /// How many more reports of frames are taken.
    reports: Mutex<ReportAllowance>,
    /// Name whose rights the session was made with; unset if it needed none, or a token of the
    /// configuration gave them.
    user: OnceLock<Box<str>>,
    /// Client that asked for the session; unset if a server of the cluster sent it here.
    client: OnceLock<Requester>,
    /// Ends the streams of events of the session; made for the first one.
    events: OnceLock<watch::Sender<()>>,
    /// Whether `glassline doctor` made the session, whose user is told what fails.
    is_of_check: AtomicBool,
    state: Mutex<SessionState>,
}

/// The part of a session's record that changes while the session lives.
#[derive(Debug)]
pub struct SessionState {
    /// The thread that owns the session's peer.
    pub location: SessionLocation,
    /// The present ICE generation.
    pub ice: IceGeneration,
    /// The report of the client about a connection that it gave up.
    pub(super) client_view: Option<Box<ClientView>>,
}

/// The owner of a session's peer.
#[derive(Debug)]
pub enum SessionLocation {
    /// The registry owns the peer, which waits for its first datagram.
    Waiting(Box<Peer>),
    /// The shard of this index owns the peer.
    Shard(usize),
    /// The session has ended.
    Gone,
}

/// One generation of ICE credentials, which a restart replaces (RFC 8445 §9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IceGeneration {
    /// The server's credentials. Their user name fragment identifies the generation.
    pub ours: IceCredentials,
    /// The peer's user name fragment; a request with another one is an ICE restart.
    pub theirs: String,
}

impl SessionRecord {
    /// Creates the record of `peer`, which waits for its first datagram.
    pub(super) fn new(peer: Box<Peer>, ice: IceGeneration, now: Instant) -> Self {
        Self {
            id: peer.id().clone(),
            stream: peer.stream().name().clone(),
            is_viewer: peer.is_viewer(),
            file: OnceLock::new(),
            past: AsyncMutex::default(),
            is_past: AtomicBool::new(false),
            created: now,
            until: OnceLock::new(),
            reports: Mutex::default(),
            user: OnceLock::new(),
            client: OnceLock::new(),
            events: OnceLock::new(),
            is_of_check: AtomicBool::new(false),
            state: Mutex::new(SessionState {
                location: SessionLocation::Waiting(peer),
                ice,
                client_view: None,
            }),
        }
    }

    /// Returns what ends the streams of events of the session, each of which holds a receiver.
    pub(crate) fn events(&self) -> &watch::Sender<()> {
        self.events.get_or_init(watch::Sender::default)
    }

    /// Notes that `glassline doctor` made the session.
    pub(crate) fn set_of_check(&self) {
        self.is_of_check.store(true, Ordering::Relaxed);
    }

    /// Returns whether `glassline doctor` made the session.
    pub(super) fn is_of_check(&self) -> bool {
        self.is_of_check.load(Ordering::Relaxed)
    }

    /// Returns the name in the session's URL: of its stream, or of its file.
    pub fn resource_name(&self) -> &str {
        self.file.get().map_or(self.stream.as_str(), AsRef::as_ref)
    }

    /// Sets the name of the file that the session watches.
    pub(super) fn set_file(&self, name: &str) {
        self.file.get_or_init(|| name.into());
    }

    /// Locks the recordings that the session plays, to go elsewhere.
    pub(crate) async fn past(&self) -> PastPlace<'_> {
        PastPlace {
            past: self.past.lock().await,
            is_past: &self.is_past,
        }
    }

    /// Returns whether the session plays recordings.
    pub(crate) fn plays_past(&self) -> bool {
        self.is_past.load(Ordering::Relaxed)
    }

    /// Returns whether the peer watches a stream that other servers may have, too: files are those of
    /// this server.
    pub(super) fn watches_stream(&self) -> bool {
        self.is_viewer && self.file.get().is_none()
    }

    /// Sets the end of the rights that the session was made with.
    pub(crate) fn end_at(&self, until: Instant) {
        self.until.get_or_init(|| until);
    }

    /// Returns the end of the rights that the session was made with; `None` if they have none.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until.get().copied()
    }

    /// Sets the name whose rights the session was made with.
    pub(crate) fn set_user(&self, user: &str) {
        self.user.get_or_init(|| user.into());
    }

    /// Returns the name whose rights the session was made with; `None` if it needed none, or a token of
    /// the configuration gave them.
    pub(crate) fn user(&self) -> Option<&str> {
        self.user.get().map(AsRef::as_ref)
    }

    /// Sets the client that asked for the session.
    pub(crate) fn set_client(&self, client: Requester) {
        self.client.get_or_init(|| client);
    }

    /// Returns how an exclusion knows the session's client: by its user, otherwise by its address; `None`
    /// if neither is known. The address of a proxy is that of many.
    pub(super) fn excludable(&self) -> Option<Excluded> {
        if let Some(user) = self.user() {
            return Some(Excluded::User(user.to_owned()));
        }
        let client = self.client.get().filter(|it| !it.is_forwarded());
        client.map(|it| Excluded::Address(it.address()))
    }

    /// Returns whether the rights that the session was made with have ended.
    pub(super) fn has_lapsed(&self, now: Instant) -> bool {
        self.until.get().is_some_and(|until| *until <= now)
    }

    /// Takes one report of the client's frames from what a session is allowed. Returns false if that
    /// is used up.
    pub(crate) fn take_report(&self, now: Instant) -> bool {
        let mut reports = self.reports.lock();
        reports.take(now)
    }

    /// Returns whether the client has reported frames, as the player page does, which opens a new session
    /// when the server ends one.
    pub(crate) fn has_reported(&self) -> bool {
        let reports = self.reports.lock();
        reports.has_been_taken()
    }

    /// Returns when the session was made.
    pub(crate) const fn created(&self) -> Instant {
        self.created
    }

    /// Locks the session's state. The lock is to be held briefly. The registry's lock may be taken
    /// while this one is held, never the other way round.
    ///
    /// Commands to the owning shard are sent under this lock, and so is the peer itself when it
    /// moves. A later command therefore stands behind the peer in the inbox of its new shard.
    pub fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock()
    }

    /// Returns the time since the session was made.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.created)
    }
}
