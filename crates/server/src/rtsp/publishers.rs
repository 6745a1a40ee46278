//! Clients that publish, as a thread has them: what they sent goes to the hub, what
//! they are to be told goes back on their way.

use std::time::{Duration, Instant};

use super::client::Client;
use super::clients::Clients;
use crate::ingest::rtsp::Ended;
use crate::runtime::Key;

/// How long a publisher that is sent away may take to read the last words.
const FAREWELL: Duration = Duration::from_secs(2);

/// Looks after the publishers of one thread.
#[derive(Debug, Default)]
pub(super) struct Publishers {
    /// The earliest time at which a publisher's packet waited long enough for one before
    /// it.
    pub(super) held_until: Option<Instant>,
}

impl Publishers {
    /// Hands the hub what a publisher sent, and the publisher what it asks for.
    pub(super) fn publish(&mut self, clients: &mut Clients, key: Key, now: Instant) {
        let session = clients.get_mut(key).and_then(Client::publisher_mut);
        let Some(session) = session else {
            return;
        };
        if let Err(reason) = session.recording.publish(now) {
            return dismiss(clients, key, &reason, now);
        }
        let deadlines = [self.held_until, session.recording.deadline()];
        self.held_until = deadlines.into_iter().flatten().min();
        clients.tell_publisher(key, now);
    }

    /// Publishes what was held back for packets that did not come in time.
    pub(super) fn publish_held(&mut self, clients: &mut Clients, now: Instant) {
        if self.held_until.is_none_or(|at| at > now) {
            return;
        }
        self.held_until = None;
        for key in clients.keys() {
            let session = clients.get_mut(key).and_then(Client::publisher_mut);
            if let Some(session) = session
                && session.recording.deadline().is_some()
            {
                session.recording.expire(now);
                self.publish(clients, key, now);
            }
        }
    }
}

/// Looks after a publisher, a few times a second; false if it was sent away.
pub(super) fn check(clients: &mut Clients, key: Key, now: Instant) -> bool {
    let session = clients.get(key).and_then(Client::publisher);
    let Some(session) = session else {
        return true;
    };
    if let Err(reason) = session.recording.check(now) {
        dismiss(clients, key, &reason, now);
        return false;
    }
    clients.tell_publisher(key, now);
    true
}

/// Sends a publisher away.
fn dismiss(clients: &mut Clients, key: Key, reason: &Ended, now: Instant) {
    if let Some(client) = clients.get(key)
        && let Some(session) = client.publisher()
    {
        let stream = session.recording.name();
        tracing::warn!(client = %client.name(), %stream, %reason, "publisher sent away");
    }
    clients.leave(key, &reason.to_string());
    if let Some(client) = clients.get_mut(key) {
        client.closing.get_or_insert(now + FAREWELL);
    }
    clients.pump(key, now);
}
