//! The peers that one shard owns, and what leads to each.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::runtime::{Key, SessionId, Slots};
use crate::sessions::peer::Peer;

/// The peers of one shard.
#[derive(Debug, Default)]
pub(super) struct PeerTable {
    slots: Slots<Box<Peer>>,
    by_address: HashMap<SocketAddr, Key>,
    by_session: HashMap<SessionId, Key>,
}

impl PeerTable {
    /// The peer that `key` names, if it is still there.
    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Box<Peer>> {
        self.slots.get_mut(key)
    }

    /// Keys of all peers.
    pub(super) fn keys(&self) -> Vec<Key> {
        self.slots.keys()
    }

    /// The peer whose datagrams come from `address`.
    pub(super) fn by_address(&self, address: SocketAddr) -> Option<Key> {
        self.by_address.get(&address).copied()
    }

    /// The peer of `session`.
    pub(super) fn by_session(&self, session: &SessionId) -> Option<Key> {
        self.by_session.get(session).copied()
    }

    /// Takes `peer` in, with no timer set and its addresses leading to it.
    pub(super) fn insert(&mut self, mut peer: Box<Peer>) -> Key {
        peer.armed = None;
        let session = peer.id().clone();
        let (used, addresses) = (peer.session.peer(), peer.addresses().to_vec());
        let key = self.slots.insert(peer);
        for address in addresses {
            // One that it has left may be another's by now.
            if used == Some(address) {
                self.link(address, key);
            } else {
                self.by_address.entry(address).or_insert(key);
            }
        }
        self.by_session.insert(session, key);
        key
    }

    /// Lets the peer go, and nothing lead to it any more.
    pub(super) fn remove(&mut self, key: Key) -> Option<Box<Peer>> {
        let peer = self.slots.remove(key)?;
        for address in peer.addresses() {
            self.unlink(*address, key);
        }
        self.by_session.remove(peer.id());
        Some(peer)
    }

    /// Lets `address` lead to `key`. Whom it led to until now is not closed, because
    /// sources can be forged, but says no more to it: a handshake given up half way
    /// goes on repeating itself for seconds, into that of the newcomer.
    pub(super) fn link(&mut self, address: SocketAddr, key: Key) {
        if self.by_address.get(&address) == Some(&key) {
            return;
        }
        if let Some(former) = self.by_address.insert(address, key)
            && let Some(former) = self.get_mut(former)
        {
            former.mute(address);
        }
    }

    /// Lets `address` lead to `key` no more.
    pub(super) fn unlink(&mut self, address: SocketAddr, key: Key) {
        if self.by_address.get(&address) == Some(&key) {
            self.by_address.remove(&address);
        }
    }
}
