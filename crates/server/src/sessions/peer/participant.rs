//! The role of a peer that speaks in a room and is sent nothing.

use std::time::Instant;

use glassline_rtp::Packet;
use glassline_webrtc::{ReceiverIndex, Session};

use crate::ingest::{Voice, VoiceCounters};

/// What only a participant of a room needs: its voice. It hears the others in sessions of
/// their own, each with a viewer's role.
#[derive(Debug)]
pub(crate) struct Participant {
    voice: Box<Voice>,
}

impl Participant {
    /// A participant whose packets go on as `voice`, which publishes the peer's stream.
    pub(crate) fn new(voice: Voice) -> Self {
        Self {
            voice: Box::new(voice),
        }
    }

    /// Takes a packet of receiver number `receiver` with this extended sequence number.
    pub(super) fn on_packet(
        &mut self,
        session: &Session,
        (receiver, sequence): (ReceiverIndex, u64),
        packet: &Packet<'_>,
        now: Instant,
        counters: &VoiceCounters,
    ) {
        let receiver = session.receivers().get(receiver.0);
        let is_red = receiver.is_some_and(|it| it.is_redundant(packet.header.payload_type));
        match self.voice.take(sequence, packet, is_red, now) {
            Some(recovered) => {
                counters.packets.add(1);
                counters.recovered.add(recovered);
            }
            None => counters.refused.add(1),
        }
    }
}
