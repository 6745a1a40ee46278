//! The role of a peer that talks to a camera.

use glassline_media::{Codec, PAYLOAD_BYTES_MAX};
use glassline_rtp::Packet;
use glassline_runtime::Counter;
use glassline_webrtc::Session;

use super::packet_place::PacketPlace;
use crate::talk::{VoicePacket, VoiceSender};

/// Counts of the packets from the talkers of one shard since the server started.
#[derive(Debug, Default)]
pub struct TalkCounters {
    /// Packets that were handed on to cameras.
    pub packets: Counter,
    /// Packets that were dropped: in another codec, too long, or the oldest ones for a camera that
    /// reads too slowly.
    pub dropped: Counter,
}

/// The state that only a talker needs: the way to the camera.
#[derive(Debug)]
pub(crate) struct Talker {
    codec: Codec,
    voice: VoiceSender,
}

impl Talker {
    /// Creates the role. Its packets in `codec` go to `voice`, whose end is the end of the talk.
    pub(crate) const fn new(codec: Codec, voice: VoiceSender) -> Self {
        Self { codec, voice }
    }

    /// Hands on an audio packet.
    pub(super) fn on_packet(
        &self,
        session: &Session,
        place: PacketPlace,
        packet: &Packet<'_>,
        counters: &TalkCounters,
    ) {
        let receiver = session.receivers().get(place.receiver.0);
        let is_voice = receiver.is_some_and(|it| it.codec() == self.codec)
            && (1..=PAYLOAD_BYTES_MAX).contains(&packet.payload.len());
        let sent = is_voice.then(|| {
            self.voice.send(VoicePacket {
                sequence: place.sequence,
                timestamp: packet.header.timestamp,
                payload: packet.payload.into(),
            })
        });
        match sent.flatten() {
            Some(dropped) => {
                counters.packets.add(1);
                counters.dropped.add(dropped);
            }
            None => counters.dropped.add(1),
        }
    }
}
