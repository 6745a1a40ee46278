//! Delivers messages from the brokers to the sessions of this shard.

use std::sync::Arc;
use std::time::Instant;

use glassline_messages::{Inbox, MessageBroker, Posted, Side};
use glassline_runtime::Key;

use super::Worker;
use crate::sessions::peer::Peer;

/// A subscription to one side of one stream's broker, with the sessions of this shard on that side.
#[derive(Debug)]
pub(super) struct BrokerSubscription {
    broker: Arc<MessageBroker>,
    side: Side,
    inbox: Arc<Inbox>,
    sessions: Vec<Key>,
}

impl Worker {
    /// Takes the messages that were posted since the last turn, and delivers them to the sessions
    /// here.
    pub(super) fn deliver_messages(&mut self) {
        if self.subscriptions.is_empty() {
            return;
        }
        let mut posted: Vec<Arc<Posted>> = Vec::new();
        let mut index = 0;
        while let Some(subscription) = self.subscriptions.get(index) {
            self.serving.end();
            index += 1;
            subscription.inbox.take(&mut posted);
            if posted.is_empty() {
                continue;
            }
            // A copy, because a session that is served in between may leave.
            for key in subscription.sessions.clone() {
                let now = Instant::now();
                if let Some(peer) = self.peers.get_mut(key) {
                    self.serving.begin(key);
                    peer.deliver(&posted, now, &self.counters);
                }
                self.serve(key, now);
                if self.outbox.is_ripe() {
                    let now = self.dispatch();
                    // With many sessions this takes a while, and media must not wait for it.
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

    /// Subscribes a session of this shard to its broker, if it has data channels.
    pub(super) fn subscribe_to_broker(&mut self, key: Key) {
        let peer = self.peers.get_mut(key);
        let Some((broker, side)) = peer.and_then(|peer| peer.broker()) else {
            return;
        };
        let same =
            |it: &&mut BrokerSubscription| Arc::ptr_eq(&it.broker, broker) && it.side == side;
        if let Some(subscription) = self.subscriptions.iter_mut().find(same) {
            subscription.sessions.push(key);
            return;
        }
        let wake = Arc::clone(&self.waker);
        self.subscriptions.push(BrokerSubscription {
            broker: Arc::clone(broker),
            side,
            inbox: broker.subscribe(side, wake),
            sessions: vec![key],
        });
    }

    /// Removes a session from its broker's subscription on this shard.
    pub(super) fn unsubscribe_from_broker(&mut self, key: Key, peer: &Peer) {
        if peer.broker().is_none() {
            return;
        }
        for subscription in &mut self.subscriptions {
            subscription.sessions.retain(|other| *other != key);
        }
        // A subscription that moves to another index in the list is read in the next turn.
        self.subscriptions.retain(|it| !it.sessions.is_empty());
        self.waker.wake();
    }
}
