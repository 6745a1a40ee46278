//! The role of a peer that sends its voice to a room and receives no media.

use std::time::Instant;

use glassline_ingest::{Voice, VoiceCounters};
use glassline_rtp::Packet;
use glassline_webrtc::Session;

use super::packet_place::PacketPlace;

/// The state that only a participant of a room needs: its voice. A participant hears the others in
/// separate sessions, each with a viewer's role.
#[derive(Debug)]
pub(crate) struct Participant {
    voice: Box<Voice>,
}

impl Participant {
    /// Creates the role. Its packets are published through `voice`.
    pub(crate) fn new(voice: Voice) -> Self {
        Self {
            voice: Box::new(voice),
        }
    }

    /// Publishes an audio packet.
    pub(super) fn on_packet(
        &mut self,
        session: &Session,
        place: PacketPlace,
        packet: &Packet<'_>,
        now: Instant,
        counters: &VoiceCounters,
    ) {
        let receiver = session.receivers().get(place.receiver.0);
        let is_red = receiver.is_some_and(|it| it.is_redundant(packet.header.payload_type));
        match self.voice.take(place.sequence, packet, is_red, now) {
            Some(recovered) => {
                counters.packets.add(1);
                counters.recovered.add(recovered);
            }
            None => counters.refused.add(1),
        }
    }
}
