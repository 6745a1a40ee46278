//! What clients by UDP get, many of them with one system call.

use std::time::Instant;

use super::worker::{Channel, Worker};
use crate::egress::rtsp::connection_writer::Sent;
use crate::egress::rtsp::udp::Recipient;
use crate::runtime::Key;

impl Worker {
    /// Sends what is new of the stream `key` to its clients by UDP.
    pub(super) fn offer_datagrams(&mut self, key: Key, now: Instant) {
        let Some(Channel { source, .. }) = self.channels.get_mut(key) else {
            return;
        };
        let Some(udp) = &mut self.udp else {
            return;
        };
        if udp.is_full() {
            return;
        }
        let budget = &self.shared.budget;
        let mut sent = Sent::default();
        let mut left = Vec::new();
        let mut hopeless = Vec::new();
        for client in &source.feed.viewers {
            let Some(it) = self.clients.get_mut(*client) else {
                continue;
            };
            let from = it.local.ip();
            let Some(session) = it.session.as_deref_mut() else {
                continue;
            };
            if !session.is_udp() {
                continue;
            }
            if session.paced_until.is_some_and(|at| at > now) {
                continue;
            }
            session.paced_until = None;
            let Some(place) = &mut session.place else {
                continue;
            };
            let before = sent.skips;
            let recipient = Recipient {
                client: *client,
                from: Some(from),
                targets: &session.targets,
                seals: &mut session.seals,
                place,
                paced_until: &mut session.paced_until,
                bytes: &mut session.bytes,
            };
            if !udp.plan(recipient, &mut source.ring, budget, now, &mut sent) {
                hopeless.push(*client);
            }
            self.paced_until = [self.paced_until, session.paced_until]
                .into_iter()
                .flatten()
                .min();
            if sent.skips > before {
                it.tell_of_skip(&sent);
            }
            if udp.is_ripe() {
                udp.flush(&source.ring, &self.counters, &mut sent, &mut left);
                if udp.is_full() {
                    break;
                }
            }
        }
        udp.flush(&source.ring, &self.counters, &mut sent, &mut left);
        self.counters.add(&sent);
        for (client, entry) in left {
            let session = self.clients.get_mut(client);
            let session = session.and_then(|client| client.session.as_deref_mut());
            if let Some(place) = session.and_then(|session| session.place.as_mut())
                && entry < place.cursor()
            {
                place.advance(entry, &source.ring);
            }
        }
        for client in hopeless {
            self.counters.closed_hopeless.add(1);
            self.release(client);
        }
    }

    /// The same for every stream: the socket has room again, or chunks are due.
    pub(super) fn offer_datagrams_to_all(&mut self, now: Instant) {
        if self.udp.is_none() {
            return;
        }
        for key in self.channels.keys() {
            self.offer_datagrams(key, now);
        }
    }

    /// The same for the stream of one client, which has just begun to play.
    pub(super) fn offer_datagrams_to(&mut self, client: Key, now: Instant) {
        let session = self
            .clients
            .get(client)
            .and_then(|it| it.session.as_deref());
        if let Some(session) = session.filter(|session| session.is_udp()) {
            self.offer_datagrams(session.source, now);
        }
    }
}
