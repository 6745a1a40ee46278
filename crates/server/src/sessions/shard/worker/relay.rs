//! Messages beside media, from the exchanges to the sessions of this shard.

use std::sync::Arc;
use std::time::Instant;

use super::Worker;
use crate::messages::{Exchange, Inbox, Posted, Side};
use crate::runtime::Key;
use crate::sessions::peer::Peer;

/// One side of one stream's exchange, and who is on it here.
#[derive(Debug)]
pub(super) struct BrokerSubscription {
    exchange: Arc<Exchange>,
    side: Side,
    inbox: Arc<Inbox>,
    sessions: Vec<Key>,
}

impl Worker {
    /// Takes what was posted since the last turn, once for all who get it here.
    pub(super) fn relay(&mut self) {
        if self.brokers.is_empty() {
            return;
        }
        let mut posted: Vec<Arc<Posted>> = Vec::new();
        let mut place = 0;
        while let Some(broker) = self.brokers.get(place) {
            place += 1;
            broker.inbox.take(&mut posted);
            if posted.is_empty() {
                continue;
            }
            // A copy: whoever is served in between may leave.
            for key in broker.sessions.clone() {
                let now = Instant::now();
                if let Some(peer) = self.peers.get_mut(key) {
                    peer.deliver(&posted, now, &self.counters);
                }
                self.serve(key, now);
                if self.outbox.is_ripe() {
                    let now = self.dispatch();
                    // With many sessions this takes a while, and media does not wait.
                    self.publish();
                    if self.timers.next().is_some_and(|at| at <= now) {
                        self.expire();
                    }
                }
            }
            posted.clear();
        }
        self.dispatch();
    }

    /// Lets messages reach a session that this shard owns now, if it has data channels.
    pub(super) fn join_relay(&mut self, key: Key) {
        let peer = self.peers.get_mut(key);
        let Some((exchange, side)) = peer.and_then(|peer| peer.exchange()) else {
            return;
        };
        let same = |broker: &&mut BrokerSubscription| {
            Arc::ptr_eq(&broker.exchange, exchange) && broker.side == side
        };
        if let Some(broker) = self.brokers.iter_mut().find(same) {
            broker.sessions.push(key);
            return;
        }
        let wake = Arc::clone(&self.waker);
        self.brokers.push(BrokerSubscription {
            exchange: Arc::clone(exchange),
            side,
            inbox: exchange.subscribe(side, wake),
            sessions: vec![key],
        });
    }

    /// The session is no longer this shard's.
    pub(super) fn leave_relay(&mut self, key: Key, peer: &Peer) {
        if peer.exchange().is_none() {
            return;
        }
        for broker in &mut self.brokers {
            broker.sessions.retain(|other| *other != key);
        }
        // One that moves to another's place is read in the next turn.
        self.brokers.retain(|broker| !broker.sessions.is_empty());
        self.waker.wake();
    }
}
