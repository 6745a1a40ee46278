//! The publishers among a thread's clients: their media goes to the hub, and feedback goes back to
//! them.

use std::time::{Duration, Instant};

use glassline_ingest::Ended;
use glassline_runtime::Key;

use super::client::Client;
use super::clients::Clients;

/// Time that a publisher which is disconnected has to read the last messages.
const FAREWELL: Duration = Duration::from_secs(2);

/// Publishes the media of one thread's clients.
#[derive(Debug, Default)]
pub(super) struct Publishers {
    /// The earliest time at which a held packet is published although an earlier packet is missing.
    pub(super) held_until: Option<Instant>,
}

impl Publishers {
    /// Hands a publisher's media to the hub, and sends the publisher its feedback.
    pub(super) fn publish(&mut self, clients: &mut Clients, key: Key, now: Instant) {
        let session = clients.get_mut(key).and_then(Client::publisher_mut);
        let Some(session) = session else {
            return;
        };
        if let Err(reason) = session.recording.published(now) {
            return dismiss(clients, key, &reason, now);
        }
        let deadlines = [self.held_until, session.recording.deadline()];
        self.held_until = deadlines.into_iter().flatten().min();
        clients.tell_publisher(key, now);
    }

    /// Publishes packets that were held for missing ones that did not come in time.
    pub(super) fn publish_held(&mut self, clients: &mut Clients, now: Instant) {
        if self.held_until.is_none_or(|at| at > now) {
            return;
        }
        self.held_until = None;
        for key in clients.keys() {
            clients.delivery.serving.begin(key);
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

/// Checks a publisher, a few times a second. Returns false if it was disconnected.
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

/// Disconnects a publisher for `reason`, which the log and the stream's state name.
fn dismiss(clients: &mut Clients, key: Key, reason: &Ended, now: Instant) {
    if let Some(client) = clients.get(key)
        && let Some(session) = client.publisher()
    {
        let stream = session.recording.name();
        tracing::warn!(client = %client.name(), %stream, %reason, "publisher disconnected");
    }
    clients.note_unpublished(key, reason, now);
    clients.leave(key, &reason.to_string());
    if let Some(client) = clients.get_mut(key) {
        client.closing.get_or_insert(now + FAREWELL);
    }
    clients.pump(key, now);
}
