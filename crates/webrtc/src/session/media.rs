use std::time::{Duration, Instant};

use glassline_rtp as rtp;
use glassline_rtp::nack::Arrival;
use glassline_rtp::twcc::{self, Recorder};

use super::index::PayloadKind;
use super::{Dropped, LayerIndex, ReceiveMode, Received, ReceiverIndex, Session};

impl Session {
    pub(super) fn handle_rtp<'a>(
        &mut self,
        now: Instant,
        datagram: &'a mut [u8],
    ) -> Result<Received<'a>, Dropped> {
        let header = rtp::Header::parse(datagram).map_err(|_| Dropped::MalformedRtp)?;
        let header_bytes = rtp::Packet::header_len(datagram).map_err(|_| Dropped::MalformedRtp)?;
        let counts_only = self.mode == ReceiveMode::CountOnly;
        let found = self.find(&header, counts_only);
        if found.is_none() && !self.has_payload_type(&header) {
            self.reports.unnegotiated_packets += 1;
            return Err(Dropped::UnknownStream);
        }
        let keys = self.keys.as_mut().ok_or(Dropped::TooEarly)?;
        if let (true, Some((receiver, layer, PayloadKind::Media(codec)))) = (counts_only, found) {
            let sealed_bytes = datagram.len().saturating_sub(header_bytes);
            let payload_bytes = sealed_bytes.saturating_sub(keys.outbound.overhead());
            self.record_clear(now, datagram, header_bytes);
            let (sequence, arrival) =
                self.receivers[receiver].on_media(layer, codec, &header, payload_bytes, now);
            return Ok(Received::Counted {
                receiver: ReceiverIndex(receiver),
                sequence,
                repaired: is_repaired(arrival),
                header,
            });
        }
        let opened = keys.inbound.open(header_bytes, datagram)?;
        let clear = &datagram[..opened.payload.end];
        let packet = rtp::Packet::parse(clear).map_err(|_| Dropped::MalformedRtp)?;
        self.record(now, &packet);
        let found = found.or_else(|| self.bind(&packet));
        let (receiver, layer, kind) = found.ok_or(Dropped::UnknownStream)?;
        match kind {
            PayloadKind::Media(codec) => {
                let bytes = packet.payload.len();
                self.receivers[receiver].keep_for_rebuilding(clear);
                let (sequence, arrival) =
                    self.receivers[receiver].on_media(layer, codec, &header, bytes, now);
                Ok(Received::Rtp {
                    receiver: ReceiverIndex(receiver),
                    layer,
                    sequence,
                    repaired: is_repaired(arrival),
                    packet,
                })
            }
            PayloadKind::Rtx(codec) => self.unwrap(now, receiver, layer, codec, packet),
            PayloadKind::Fec => {
                self.receivers[receiver].on_fec(&packet);
                Ok(Received::Consumed)
            }
        }
    }

    /// Restores a retransmission to the packet that it repairs (RFC 4588 §4).
    fn unwrap<'a>(
        &mut self,
        now: Instant,
        receiver: usize,
        layer: LayerIndex,
        codec: usize,
        packet: rtp::Packet<'a>,
    ) -> Result<Received<'a>, Dropped> {
        // An empty retransmission is padding of a bandwidth probe.
        let Some((original, payload)) = rtp::rtx::unwrap(packet.payload) else {
            return Ok(Received::Consumed);
        };
        let (ssrc, payload_type, sequence) = self.receivers[receiver]
            .on_rtx(layer, codec, original, payload.len(), now)
            .ok_or(Dropped::Duplicate)?;
        let header = rtp::Header {
            payload_type,
            sequence: original,
            ssrc,
            ..packet.header
        };
        if self.mode == ReceiveMode::CountOnly {
            return Ok(Received::Counted {
                receiver: ReceiverIndex(receiver),
                sequence,
                repaired: true,
                header,
            });
        }
        Ok(Received::Rtp {
            receiver: ReceiverIndex(receiver),
            layer,
            sequence,
            repaired: true,
            packet: rtp::Packet {
                header,
                payload,
                ..packet
            },
        })
    }

    /// Returns the receiver of a packet by its SSRC; with `by_payload_type`, otherwise by its
    /// payload type.
    fn find(
        &self,
        header: &rtp::Header,
        by_payload_type: bool,
    ) -> Option<(usize, LayerIndex, PayloadKind)> {
        let each = || self.receivers.iter().enumerate();
        let known = each().find_map(|(index, receiver)| {
            let (layer, kind) = receiver.find_by_ssrc(header)?;
            Some((index, layer, kind))
        });
        known.or_else(|| {
            each().filter(|_| by_payload_type).find_map(|(index, it)| {
                Some((index, LayerIndex(0), it.kind_by_payload_type(header)?))
            })
        })
    }

    /// Returns whether a payload type was agreed on.
    fn has_payload_type(&self, header: &rtp::Header) -> bool {
        let mut receivers = self.receivers.iter();
        receivers.any(|receiver| receiver.kind_by_payload_type(header).is_some())
    }

    /// Returns the receiver of an authentic packet of an SSRC that is not known yet.
    fn bind(&mut self, packet: &rtp::Packet<'_>) -> Option<(usize, LayerIndex, PayloadKind)> {
        let mut receivers = self.receivers.iter_mut().enumerate();
        receivers.find_map(|(index, receiver)| {
            let (layer, kind) = receiver.bind(packet)?;
            Some((index, layer, kind))
        })
    }

    /// Records the transport-wide number of a decrypted packet. The extension has one id within a
    /// bundle (RFC 9143 §7.1).
    /// Sets the interval of transport feedback to the peer, where any was agreed to.
    pub fn set_feedback_interval(&mut self, interval: Duration) {
        if let Some(recorder) = &mut self.recorder {
            **recorder = Recorder::new(interval);
        }
    }

    fn record(&mut self, now: Instant, packet: &rtp::Packet<'_>) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        let mut receivers = self.receivers.iter();
        let number = receivers
            .find_map(super::Receiver::transport_extension)
            .and_then(|id| packet.extensions.get(id))
            .and_then(twcc::sequence);
        if let Some(number) = number {
            recorder.record(number, now);
        }
    }

    /// Records the transport-wide number of a packet that is not decrypted.
    fn record_clear(&mut self, now: Instant, datagram: &mut [u8], header_bytes: usize) {
        if self.recorder.is_none() {
            return;
        }
        // The padding count is encrypted; without the padding bit, the header parses alone.
        let first = datagram[0];
        datagram[0] &= !PADDING_BIT;
        if let Ok(packet) = rtp::Packet::parse(&datagram[..header_bytes]) {
            self.record(now, &packet);
        }
        datagram[0] = first;
    }
}

/// Bit of the first byte of an RTP packet: padding follows the payload.
const PADDING_BIT: u8 = 0x20;

/// Returns whether a packet was retransmitted. Without RTX a retransmission looks like the
/// original packet, so only the request tells.
fn is_repaired(arrival: Arrival) -> bool {
    matches!(arrival, Arrival::Recovered { requests, .. } if requests > 0)
}
