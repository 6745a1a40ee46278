//! Notes players that were granted PLAY and got nothing among the failed connections.

use std::time::Instant;

use mio::event::Event;

use super::client::Client;
use super::clients::Clients;
use super::reception::Departure;
use super::udp_clients::UdpClients;
use crate::runtime::Key;

impl Clients {
    /// Notes the players that still wait for their first media, each once.
    pub(super) fn note_unserved(&mut self, now: Instant) {
        for key in self.delivery.clients.keys() {
            self.note_player(key, Departure::NotYet, now);
        }
    }

    /// Ends what a client plays or publishes, because it asked for that; the connection stays.
    pub(super) fn tear_down(&mut self, key: Key, now: Instant) {
        self.note_player(key, Departure::Left, now);
        self.leave(key, "the publisher left");
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
