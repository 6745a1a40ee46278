//! A WebRTC session as carrier of RTP packets.

use std::time::Instant;

use glassline_congestion::ReportedRate;
use glassline_media::PAYLOAD_BYTES_MAX;
use glassline_webrtc::{SenderIndex, Session};

use crate::publish::uplink::outgoing::{OutgoingPacket, PacketCarrier};

/// Sends the packets of a session. The session's congestion control limits them, by transport-wide
/// feedback; with a peer that gives none, the receiver reports do.
pub(super) struct SessionCarrier<'a, F> {
    pub(super) session: &'a mut Session,
    /// The rate by receiver reports; `None` with transport-wide feedback, and before the session is
    /// connected.
    pub(super) reported: Option<&'a mut ReportedRate>,
    /// Takes each datagram.
    pub(super) transmit: F,
}

/// A payload with its header, extensions and authentication tag, in bytes.
type Sealed = [u8; PAYLOAD_BYTES_MAX + 128];

impl<F: FnMut(&[u8])> PacketCarrier for SessionCarrier<'_, F> {
    fn budget(&mut self, now: Instant) -> Option<u64> {
        match &mut self.reported {
            Some(reported) => reported.budget(now),
            None => self.session.budget(now),
        }
    }

    fn budget_at(&mut self, bytes: u64, now: Instant) -> Option<Instant> {
        match &mut self.reported {
            Some(reported) => reported.budget_at(now, bytes),
            None => self.session.budget_at(bytes, now),
        }
    }

    fn send(&mut self, packet: &OutgoingPacket<'_>, now: Instant) -> Option<u64> {
        let mut out: Sealed = [0; PAYLOAD_BYTES_MAX + 128];
        let sealed = self.session.seal(
            SenderIndex(packet.sender),
            packet.timestamp,
            packet.marker,
            packet.payload,
            now,
            &mut out,
        )?;
        self.leave(&out[..sealed.len], now);
        Some(sealed.sequence)
    }

    fn send_again(&mut self, sequence: u64, packet: &OutgoingPacket<'_>, now: Instant) {
        let mut out: Sealed = [0; PAYLOAD_BYTES_MAX + 128];
        let bytes = self.session.seal_retransmission(
            SenderIndex(packet.sender),
            sequence,
            packet.timestamp,
            packet.marker,
            packet.payload,
            now,
            &mut out,
        );
        if let Some(bytes) = bytes {
            self.leave(&out[..bytes], now);
        }
    }

    fn on_app_limited(&mut self) {
        self.session.set_app_limited();
    }
}

impl<F: FnMut(&[u8])> SessionCarrier<'_, F> {
    fn leave(&mut self, datagram: &[u8], now: Instant) {
        if let Some(reported) = &mut self.reported {
            reported.on_sent(now, datagram.len() as u64);
        }
        (self.transmit)(datagram);
    }
}
