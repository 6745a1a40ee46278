//! The table of a shard's peers, by key, address and session.

use std::collections::HashMap;
use std::time::Instant;

use glassline_runtime::{Key, SessionId, Slots, shrink};
use glassline_webrtc::TransportAddress;

use super::sightings::Sightings;
use crate::sessions::peer::Peer;

/// The peers of one shard.
#[derive(Debug, Default)]
pub(super) struct PeerTable {
    slots: Slots<Box<Peer>>,
    by_address: HashMap<TransportAddress, Key>,
    by_session: HashMap<SessionId, Key>,
    /// Addresses of sessions that are not found by them yet.
    pub(super) sightings: Sightings,
}

impl PeerTable {
    /// Returns the peer of `key`, or `None` if it was removed.
    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Box<Peer>> {
        self.slots.get_mut(key)
    }

    /// Returns the keys of all peers.
    pub(super) fn keys(&self) -> Vec<Key> {
        self.slots.keys()
    }

    /// Returns the peer whose datagrams come from `address`.
    pub(super) fn by_address(&self, address: TransportAddress) -> Option<Key> {
        self.by_address.get(&address).copied()
    }

    /// Returns the peer of `session`.
    pub(super) fn by_session(&self, session: &SessionId) -> Option<Key> {
        self.by_session.get(session).copied()
    }

    /// Inserts `peer` with no timer set. Its addresses lead to it from now on.
    pub(super) fn insert(&mut self, mut peer: Box<Peer>, now: Instant) -> Key {
        peer.armed = None;
        let session = peer.id().clone();
        let (used, addresses) = (peer.session.peer(), peer.addresses().to_vec());
        let key = self.slots.insert(peer);
        for address in addresses {
            // An address that the peer no longer uses may belong to another peer by now.
            if used == Some(address) {
                self.link(address, key, now);
            } else {
                self.by_address.entry(address).or_insert(key);
            }
        }
        self.by_session.insert(session, key);
        key
    }

    /// Removes a peer, and every address that leads to it.
    pub(super) fn remove(&mut self, key: Key) -> Option<Box<Peer>> {
        let peer = self.slots.remove(key)?;
        for address in peer.addresses() {
            self.unlink(*address, key);
        }
        self.by_session.remove(peer.id());
        shrink(&mut self.by_address);
        shrink(&mut self.by_session);
        Some(peer)
    }

    /// Makes `address` lead to the peer `key`, from which an authentic datagram came.
    ///
    /// Sources can be forged. If another peer uses the address at present, it keeps the address
    /// until the newcomer has proven that it receives there. The peer that the address led to
    /// before is not closed. It sends nothing more to the address: a handshake that was given up
    /// half way repeats itself for seconds, and would disturb the newcomer's.
    pub(super) fn link(&mut self, address: TransportAddress, key: Key, now: Instant) {
        let former = self.by_address(address);
        if former == Some(key) {
            return;
        }
        if let Some(former) = former.and_then(|key| self.get_mut(key))
            && former.uses(address, now)
            && !self.is_proven(key, address, now)
        {
            return;
        }
        self.by_address.insert(address, key);
        if let Some(former) = former.and_then(|key| self.get_mut(key)) {
            former.mute(address);
        }
    }

    /// Returns whether the peer `key` has proven that it receives at `address`.
    fn is_proven(&self, key: Key, address: TransportAddress, now: Instant) -> bool {
        let peer = self.slots.get(key);
        peer.is_some_and(|peer| peer.session.is_proven(address, now))
    }

    /// Removes `address` from the peer `key`.
    pub(super) fn unlink(&mut self, address: TransportAddress, key: Key) {
        if self.by_address.get(&address) == Some(&key) {
            self.by_address.remove(&address);
        }
    }
}
