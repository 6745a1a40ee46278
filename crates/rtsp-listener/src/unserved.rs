//! Notes connections that end before their time, and players that were granted PLAY and got nothing,
//! among the failed connections; and lets clients that play no more make room.

use std::time::Instant;

use glassline_runtime::{Key, SourcePrefix};
use mio::event::Event;

use super::client::Client;
use super::clients::Clients;
use super::command::Dismissal;
use super::failures::ConnectionEnd;
use super::reception::Departure;
use super::udp_clients::UdpClients;

impl Clients {
    /// Notes the failure that the end of a client's connection means, if it means one.
    pub(super) fn note_end(&self, key: Key, end: &ConnectionEnd<'_>, now: Instant) {
        let client = self.delivery.clients.get(key);
        let Some(failure) = client.and_then(|it| it.failure(end, now)) else {
            return;
        };
        let is_ours = matches!(end, ConnectionEnd::Lapsed | ConnectionEnd::Dismissed);
        if is_ours {
            self.shared.failures.note_end(failure, now);
        } else {
            self.shared.failures.note(failure, now);
        }
    }

    /// Returns the client whose session is to be ended, if there is one, and notes an operator's wish.
    pub(super) fn to_dismiss(&self, dismissal: &Dismissal, now: Instant) -> Option<Key> {
        let found = self.with_session(dismissal.address);
        if let Some(key) = found.filter(|_| dismissal.by_operator) {
            self.note_end(key, &ConnectionEnd::Dismissed, now);
        }
        found
    }

    /// Notes that a client is released because it takes less than it is sent, if that is why.
    pub(super) fn note_slow(&self, key: Key) {
        let client = self.delivery.clients.get(key);
        if client.is_some_and(|it| it.is_too_slow) {
            self.note_end(key, &ConnectionEnd::TooSlow, Instant::now());
        }
    }

    /// Notes the players that still wait for their first media, each once.
    pub(super) fn note_unserved(&mut self, now: Instant) {
        for key in self.delivery.clients.keys() {
            self.note_player(key, Departure::NotYet, now);
        }
    }

    /// Puts clients that were passed over when others made room, and have paused or ended their session
    /// since, behind those that make room.
    pub(super) fn line_up_unserved(&mut self) {
        for key in self.delivery.clients.keys() {
            if let Some(client) = self.delivery.clients.get_mut(key)
                && client.arrival.is_none()
                && !client.is_served()
            {
                let source = SourcePrefix::from(client.peer.ip());
                client.arrival = Some(self.newcomers.add(source, key));
            }
        }
    }

    /// Ends what a client plays or publishes, because it asked for that; the connection stays.
    pub(super) fn tear_down(&mut self, key: Key, now: Instant) {
        self.note_player(key, Departure::Left, now);
        self.leave(key, "the publisher stopped");
    }

    /// Takes what the network says of closed ports, if it says something.
    pub(super) fn take_refused(&mut self, event: &Event, now: Instant) {
        let udp = self.delivery.udp.as_ref().filter(|_| event.is_error());
        for (key, destination) in udp.map(UdpClients::take_refused).unwrap_or_default() {
            let client = self.delivery.clients.get_mut(key);
            if let Some(session) = client.and_then(Client::player_mut) {
                session.note_refused(destination, now);
            }
        }
    }

    fn note_player(&mut self, key: Key, departure: Departure, now: Instant) {
        if let Some(client) = self.delivery.clients.get_mut(key)
            && let Some(failure) = client.play_failure(departure, now)
        {
            if let Some(session) = client.player_mut() {
                session.reception.set_noted();
            }
            self.shared.failures.note(failure, now);
        }
    }
}
