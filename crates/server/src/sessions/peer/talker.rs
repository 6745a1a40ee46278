//! The role of a peer that talks to a camera.

use glassline_media::{Codec, PAYLOAD_BYTES_MAX};
use glassline_rtp::Packet;
use glassline_webrtc::{ReceiverIndex, Session};
use tokio::sync::mpsc;

use crate::runtime::Counter;
use crate::talk::VoicePacket;

/// Counts of the packets from the talkers of one shard since the server started.
#[derive(Debug, Default)]
pub struct TalkCounters {
    /// Packets that were handed on to cameras.
    pub packets: Counter,
    /// Packets that were dropped: in another codec, too long, or for a camera that reads too slowly.
    pub dropped: Counter,
}

/// The state that only a talker needs: the way to the camera.
#[derive(Debug)]
pub(crate) struct Talker {
    codec: Codec,
    voice: mpsc::Sender<VoicePacket>,
}

impl Talker {
    /// Creates the role. Its packets in `codec` go to `voice`, whose end is the end of the talk.
    pub(crate) const fn new(codec: Codec, voice: mpsc::Sender<VoicePacket>) -> Self {
        Self { codec, voice }
    }

    /// Hands on an audio packet of receiver number `receiver`.
    pub(super) fn on_packet(
        &self,
        session: &Session,
        receiver: ReceiverIndex,
        packet: &Packet<'_>,
        counters: &TalkCounters,
    ) {
        let receiver = session.receivers().get(receiver.0);
        let is_voice = receiver.is_some_and(|it| it.codec() == self.codec)
            && (1..=PAYLOAD_BYTES_MAX).contains(&packet.payload.len());
        let voice = || VoicePacket {
            timestamp: packet.header.timestamp,
            payload: packet.payload.into(),
        };
        match is_voice && self.voice.try_send(voice()).is_ok() {
            true => counters.packets.add(1),
            false => counters.dropped.add(1),
        }
    }
}
