//! Data channels of a peer: their datagrams, their deadlines, and their connection to a broker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_messages::{MessageBroker, Posted, Side};

use super::{Peer, Role, ShardContext};
use crate::sessions::counters::Counters;

/// Shortest wait before data is sent again while the socket is full.
const RETRY: Duration = Duration::from_millis(1);

impl Peer {
    /// Returns the broker of the peer's messages and the side that the peer is on; `None` without
    /// data channels.
    pub(in crate::sessions) fn broker(&self) -> Option<(&Arc<MessageBroker>, Side)> {
        let messages = self.messages.as_ref()?;
        Some((messages.broker(), messages.side()))
    }

    /// Tells the session that all datagrams of one read were handed to it, so that it acknowledges
    /// them together.
    pub(in crate::sessions) fn end_batch(&mut self, now: Instant) {
        self.session.end_batch(now);
    }

    /// Queues messages that the other side posted. [`serve`](Peer::serve) then sends them.
    pub(in crate::sessions) fn deliver(
        &mut self,
        posted: &[Arc<Posted>],
        now: Instant,
        counters: &Counters,
    ) {
        let is_joined = self.is_joined();
        let Some(messages) = &mut self.messages else {
            return;
        };
        if is_joined && matches!(&self.role, Role::DataPublisher(it) if it.is_replaced()) {
            tracing::info!(session = %self.id, stream = %self.stream.name(), "publisher of messages replaced");
            self.session.close(now);
            return;
        }
        let Some(channels) = self.session.channels_mut() else {
            return;
        };
        for posted in posted {
            messages.deliver(posted, channels, now, &counters.data);
        }
    }

    /// Passes on messages that the peer sent, and sends the messages that wait for the peer.
    pub(super) fn serve_messages(&mut self, now: Instant, shard: &mut ShardContext<'_>) {
        loop {
            let blocked = self.is_blocked(shard.outbox);
            let (Some(messages), Some(channels)) =
                (&mut self.messages, self.session.channels_mut())
            else {
                break;
            };
            messages.handle_events(channels, now, &shard.counters.data);
            let moved = !blocked && messages.pump(channels, now, &shard.counters.data);
            self.transmit_data(now, shard);
            if !moved || self.is_blocked(shard.outbox) {
                break;
            }
        }
        self.show_messages(now, shard);
    }

    /// Sends control datagrams and data records until the socket is full.
    fn transmit_data(&mut self, now: Instant, shard: &mut ShardContext<'_>) {
        while !self.is_blocked(shard.outbox) {
            let Some((destination, segment)) = self.session.poll_transmit_batch(now, shard.control)
            else {
                return;
            };
            if let Some(route) = self.addresses.route(destination) {
                shard.outbox.send_segmented(shard.control, segment, route);
            }
        }
        // Control datagrams leave even if the socket is full: they join the backlog.
        self.transmit_control(shard);
    }

    /// Returns when the peer has to be served. `due` is the deadline of everything but its
    /// messages.
    pub(super) fn messages_deadline(
        &mut self,
        due: Option<Instant>,
        now: Instant,
        blocked: bool,
    ) -> Option<Instant> {
        let messages = self.messages.as_ref();
        let late = messages.and_then(|it| it.deadline());
        let shown = messages.filter(|_| self.is_joined());
        let shown = shown.and_then(|it| it.shown_again_at());
        let due = [due, late, shown].into_iter().flatten().min();
        match blocked {
            true => due.map(|at| at.max(now + RETRY)),
            false => due,
        }
    }

    /// Publishes the statistics of the peer's channels, once a second at most.
    fn show_messages(&mut self, now: Instant, shard: &ShardContext<'_>) {
        let is_joined = self.is_joined();
        let Some(messages) = self.messages.as_mut().filter(|_| is_joined) else {
            return;
        };
        if messages.shown_again_at().is_some_and(|at| at <= now) {
            let view = messages.show(now).view(messages.side());
            shard
                .latencies
                .show_data(self.listed_name(), &self.id, view);
        }
    }
}
