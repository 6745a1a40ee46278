//! FEC packets (FlexFEC) that a session seals beside its media, and takes to rebuild lost media.

use std::time::Instant;

use glassline_rtp as rtp;

use super::fec_stream::Fec;
use super::index::PayloadKind;
use super::rebuilding::FecCounts;
use super::sender::wire;
use super::template::{Outgoing, TEMPLATE_BYTES};
use super::{LayerIndex, Received, Receiver, ReceiverIndex, Sender, SenderIndex, Session, State};

/// The header of a packet as FEC protects it.
#[derive(Clone, Copy, Debug)]
pub struct ProtectedHeader {
    bytes: [u8; TEMPLATE_BYTES],
    length: usize,
}

impl ProtectedHeader {
    /// Returns the RTP header with its extensions.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Sender {
    /// Returns payload type and SSRC of FEC packets; `None` if FlexFEC is not negotiated.
    pub fn fec(&self) -> Option<Fec> {
        Some(self.fec.as_ref()?.agreed)
    }

    /// Returns the header that FEC protects of the packet that left under the extended sequence number
    /// `sequence`: the transport-wide number counts as zero.
    pub fn protected_header(
        &self,
        sequence: u64,
        timestamp: u32,
        marker: bool,
        padding: u8,
    ) -> ProtectedHeader {
        let mut bytes = [0; TEMPLATE_BYTES];
        let packet = Outgoing {
            timestamp,
            marker,
            payload: &[],
            padding,
        };
        self.header.write(&mut bytes, &packet, 0);
        bytes[2..4].copy_from_slice(&wire(sequence).to_be_bytes());
        bytes[8..12].copy_from_slice(&self.ssrc.0.to_be_bytes());
        ProtectedHeader {
            bytes,
            length: self.header.len,
        }
    }
}

impl Session {
    /// Seals the payload of a FEC packet, which [`Encoder`](rtp::flexfec::Encoder) made of packets of
    /// `sender`. Returns the length of the datagram in bytes; `None` without FlexFEC, before the session
    /// is connected, or if `out` has no room.
    pub fn seal_fec(
        &mut self,
        sender: SenderIndex,
        timestamp: u32,
        payload: &[u8],
        now: Instant,
        out: &mut [u8],
    ) -> Option<usize> {
        if self.state != State::Connected {
            return None;
        }
        let keys = self.keys.as_mut()?;
        let fec = self.senders.get(sender.0)?.fec.as_ref()?;
        let header = fec.header.len;
        if out.len() < header + payload.len() + keys.outbound.overhead() {
            return None;
        }
        let packet = Outgoing {
            timestamp,
            marker: false,
            payload,
            padding: 0,
        };
        fec.header
            .write(out, &packet, wire(self.transport_sequence));
        let sealed = keys.outbound.seal(fec.stream?, header, payload, 0, out)?;
        if fec.header.transport.is_some() {
            self.on_sent(sealed.bytes, now);
        }
        Some(sealed.bytes)
    }

    /// Returns the next packet that was rebuilt from FEC packets, which is written to `out`. Call it
    /// after each datagram until it returns `None`, in
    /// [`ReceiveMode::Rebuild`](super::ReceiveMode::Rebuild).
    pub fn poll_rebuilt<'a>(&mut self, now: Instant, out: &'a mut Vec<u8>) -> Option<Received<'a>> {
        let mut receivers = self.receivers.iter_mut().enumerate();
        let (place, sequence) =
            receivers.find_map(|(place, it)| Some((place, it.poll_rebuilt(now, out)?)))?;
        self.timeout = None;
        Some(Received::Rtp {
            receiver: ReceiverIndex(place),
            layer: LayerIndex(0),
            sequence,
            repaired: true,
            packet: rtp::Packet::parse(out).ok()?,
        })
    }
}

impl Receiver {
    /// Returns the counts of FEC packets; `None` if FlexFEC is not agreed on.
    pub fn fec_counts(&self) -> Option<FecCounts> {
        Some(self.rebuilding.as_ref()?.counts)
    }

    /// Takes a decrypted packet of the media, from which lost ones are rebuilt.
    pub(super) fn keep_for_rebuilding(&mut self, clear: &[u8]) {
        let transport = self.transport_extension();
        let Some(rebuilding) = &mut self.rebuilding else {
            return;
        };
        let mut protected = clear.to_vec();
        let packet = rtp::Packet::parse(clear).ok();
        let element = packet.and_then(|it| it.extensions.get(transport?));
        if let Some(element) = element {
            let at = element.as_ptr().addr() - clear.as_ptr().addr();
            protected[at..at + element.len()].fill(0);
        }
        rebuilding.decoder.on_media(&protected);
    }

    /// Takes a decrypted FEC packet.
    pub(super) fn on_fec(&mut self, packet: &rtp::Packet<'_>) {
        if let Some(rebuilding) = &mut self.rebuilding {
            rebuilding.counts.received += 1;
            rebuilding.counts.bytes += packet.payload.len() as u64;
            // A payload that cannot be used rebuilds nothing, and NACKs are there.
            let _ = rebuilding.decoder.on_repair(packet.payload);
        }
    }

    /// Writes the next packet that was rebuilt and had not arrived otherwise to `out`. Returns its
    /// extended sequence number.
    fn poll_rebuilt(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<u64> {
        loop {
            *out = self.rebuilding.as_mut()?.decoder.poll()?;
            let Ok(packet) = rtp::Packet::parse(out) else {
                continue;
            };
            let Some(PayloadKind::Media(codec)) = self.kind_by_payload_type(&packet.header) else {
                continue;
            };
            let (original, bytes) = (packet.header.sequence, packet.payload.len());
            let found = self.on_rtx(LayerIndex(0), codec, original, bytes, now);
            if let (Some((_, _, sequence)), Some(it)) = (found, &mut self.rebuilding) {
                it.counts.rebuilt += 1;
                return Some(sequence);
            }
        }
    }
}
