//! What a shard does after a panic on its thread.

use std::time::Instant;

use glassline_runtime::{Key, PollingThread, ServedPeer, SessionId, Timers, Turn, catch};

use super::peers::PeerTable;
use super::{Scratch, Worker};
use crate::sessions::record::SessionLocation;

impl PollingThread for Worker {
    fn turn(&mut self) -> Turn {
        let turn = self.next_turn();
        // A panic between two turns, or while the thread waits, is nobody's.
        self.serving.end();
        turn
    }

    fn drop_served(&mut self) -> bool {
        match self.serving.take() {
            None => return false,
            Some(ServedPeer::Peer(key)) => self.discard(key),
            Some(ServedPeer::Joining(session)) => self.discard_joining(&session),
        }
        // The panic may have come while other peers waited for the same units, and the poll does
        // not report again the datagrams that wait in the socket.
        self.is_behind = true;
        self.waker.wake();
        true
    }

    fn start_anew(&mut self) {
        // Peers that were not served when the panic came are whole: each can still say goodbye, so
        // that its viewer knows at once that it has to come back.
        let now = Instant::now();
        for key in self.peers.keys() {
            let farewell = catch(|| {
                if let Some(peer) = self.peers.get_mut(key) {
                    peer.session.close(now);
                }
                self.serve(key, now);
            });
            if farewell.is_err() {
                self.discard(key);
            }
        }
        let _ = catch(|| self.dispatch());
        for (stream, session) in self.shared.registry.take_of_shard(self.index) {
            self.shared.latencies.forget(&stream, &session);
        }
        self.outbox.discard();
        self.peers = PeerTable::default();
        self.streams.clear();
        self.subscriptions.clear();
        self.with_new_data.clear();
        self.timers = Timers::default();
        self.scratch = Scratch::default();
        self.serving.take();
        self.waker.wake();
    }
}

impl Worker {
    /// Removes a peer that may be half changed. It gets no goodbye.
    fn discard(&mut self, key: Key) {
        let Some(peer) = self.release(key) else {
            return;
        };
        self.close_connections(&peer);
        let (session, stream) = (peer.id().clone(), peer.listed_name().clone());
        // A peer that is half changed may panic again while it is dropped.
        let _ = catch(|| drop(peer));
        self.forget(&session, &stream);
    }

    /// Removes a session that was about to become a peer of this shard, or of another one.
    fn discard_joining(&mut self, session: &SessionId) {
        if let Some(key) = self.peers.by_session(session) {
            return self.discard(key);
        }
        if let Some(record) = self.shared.registry.remove(session) {
            record.state().location = SessionLocation::Gone;
            self.shared.latencies.forget(&record.stream, session);
        }
    }

    /// Offers the units to each peer again that a panic may have kept from it, and serves it.
    pub(super) fn catch_up(&mut self) {
        // A panic for another peer sets this again.
        self.is_behind = false;
        let now = Instant::now();
        for key in self.peers.keys() {
            let Some(peer) = self.peers.get_mut(key) else {
                continue;
            };
            self.serving.begin(key);
            peer.resume(now, &self.counters);
            self.serve(key, now);
            if self.outbox.is_ripe() {
                self.dispatch();
            }
        }
        self.dispatch();
    }
}
