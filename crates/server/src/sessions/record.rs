//! What is known of one session, wherever it is.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use glassline_hub::StreamName;

use super::peer::Peer;
use crate::runtime::SessionId;

/// What the registry knows of one session.
#[derive(Debug)]
pub struct SessionRecord {
    /// Its name in URLs.
    pub id: SessionId,
    /// What it watches, speaks as, or publishes beside.
    pub stream: StreamName,
    created: Instant,
    state: Mutex<SessionState>,
}

/// What changes in the life of a session.
#[derive(Debug)]
pub struct SessionState {
    /// Where the session is.
    pub location: SessionLocation,
    /// Which ICE generation it is in.
    pub ice: IceGeneration,
}

/// Where a session is.
#[derive(Debug)]
pub enum SessionLocation {
    /// Nobody came for it yet.
    Waiting(Box<Peer>),
    /// A shard owns it.
    Shard(usize),
    /// Closed.
    Gone,
}

/// One generation of ICE credentials, which a restart replaces (RFC 8445 §9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IceGeneration {
    /// Our user name fragment, which names the generation.
    pub ours: String,
    /// The peer's; another one means an ICE restart.
    pub theirs: String,
}

impl SessionRecord {
    /// The record of `peer`, for which nobody came yet.
    pub(super) fn new(peer: Box<Peer>, ice: IceGeneration, now: Instant) -> Self {
        Self {
            id: peer.id().clone(),
            stream: peer.stream().name().clone(),
            created: now,
            state: Mutex::new(SessionState {
                location: SessionLocation::Waiting(peer),
                ice,
            }),
        }
    }

    /// Its state; hold the lock only briefly. The registry's lock may be taken under it,
    /// never the other way round.
    ///
    /// Commands to the shard named here are sent under the lock, and so is the
    /// peer itself when it moves: whoever comes later finds it before them in
    /// the inbox of its new shard.
    pub fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long ago it was made.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.created)
    }
}
