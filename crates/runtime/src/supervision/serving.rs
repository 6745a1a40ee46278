//! Whose input a polling thread handles at the moment.

#[cfg(debug_assertions)]
use std::sync::Arc;

use super::heartbeat::Heartbeat;
#[cfg(debug_assertions)]
use super::heartbeat::Pulse;
use crate::{Key, SessionId};

/// The peer that a polling thread serves at the moment. After a panic it is the peer to drop.
///
/// Setting it is one store for each peer and batch of units or datagrams, which is cheaper than
/// catching the panic of each step.
#[derive(Debug)]
pub struct Serving<K = Key> {
    peer: Option<K>,
    joining: Option<SessionId>,
    #[cfg(debug_assertions)]
    pulse: Arc<Pulse>,
}

/// The peer that was served when a turn panicked.
#[derive(Debug, PartialEq, Eq)]
pub enum ServedPeer<K = Key> {
    /// A peer of the thread.
    Peer(K),
    /// A session that was about to become a peer of the thread.
    Joining(SessionId),
}

impl<K> Serving<K> {
    /// Creates the state of the thread with this heartbeat.
    #[cfg_attr(
        not(debug_assertions),
        expect(
            unused_variables,
            reason = "faults of a thread stand next to its pulse"
        )
    )]
    pub fn new(heartbeat: &Heartbeat) -> Self {
        Self {
            peer: None,
            joining: None,
            #[cfg(debug_assertions)]
            pulse: Arc::clone(heartbeat.pulse()),
        }
    }

    /// Notes that `peer` is served from now on.
    #[inline]
    pub fn begin(&mut self, peer: K) {
        self.peer = Some(peer);
        #[cfg(debug_assertions)]
        self.pulse.faults.strike_peer();
    }

    /// Notes that the session is about to become a peer.
    pub fn begin_joining(&mut self, session: SessionId) {
        self.peer = None;
        self.joining = Some(session);
    }

    /// Notes that what is done from now on is not done for one peer.
    #[inline]
    pub fn end(&mut self) {
        self.peer = None;
    }

    /// Notes that the session that was about to become a peer is one now, or has been refused.
    pub fn end_joining(&mut self) {
        self.joining = None;
    }

    /// Returns the peer that is served, and notes that none is any more.
    pub fn take(&mut self) -> Option<ServedPeer<K>> {
        let joining = self.joining.take().map(ServedPeer::Joining);
        let peer = self.peer.take().map(ServedPeer::Peer);
        joining.or(peer)
    }
}
