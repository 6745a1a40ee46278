//! What an RTSP thread does after a panic.

use std::time::Instant;

use glassline_runtime::{Key, PollingThread, ServedPeer, Turn, catch};

use super::publishers::Publishers;
use super::worker::Worker;

impl PollingThread for Worker {
    fn turn(&mut self) -> Turn {
        let turn = self.next_turn();
        // A panic between two turns, or while the thread waits, is nobody's.
        self.clients.delivery.serving.end();
        turn
    }

    fn drop_served(&mut self) -> bool {
        let Some(ServedPeer::Peer(key)) = self.clients.delivery.serving.take() else {
            return false;
        };
        self.clients.delivery.restore_receivers();
        self.discard(key);
        self.is_behind = true;
        self.waker.wake();
        true
    }

    fn start_anew(&mut self) {
        for key in self.clients.keys() {
            self.discard(key);
        }
        self.clients.clear();
        self.publishers = Publishers::default();
        self.unread.clear();
        self.has_datagrams = true;
        // Connections that wait at the listeners are not reported again.
        self.listeners.accept_all(Instant::now());
        self.waker.wake();
    }
}

impl Worker {
    /// Closes the connection of a client that may be half changed.
    fn discard(&mut self, key: Key) {
        // A client that is half changed may panic again while it is dropped.
        let _ = catch(|| self.clients.release(key));
    }

    /// Does for all clients what the events said that a panic lost: the poll is edge-triggered and
    /// does not report them again.
    pub(super) fn catch_up(&mut self) {
        self.is_behind = false;
        self.unread = self.clients.keys();
        self.clients.tunnels.read_all_later();
        let now = Instant::now();
        self.listeners.accept_all(now);
        self.has_datagrams = true;
        self.clients.unblock_datagrams(now);
        for key in self.clients.keys() {
            self.clients.delivery.serving.begin(key);
            if let Some(client) = self.clients.get_mut(key) {
                client.is_full = false;
            }
            self.clients.pump(key, now);
        }
        self.clients.delivery.serving.end();
    }
}
