//! Packets that the other end should refuse: sealed with this session's keys, whatever they hold.
//!
//! Tests of robustness need a peer that is authentic and hostile. Nothing else calls this.

use super::{SenderIndex, Session, State};
use crate::dtls::record::ContentType;

impl Session {
    /// Seals `packet` as RTCP and queues it, without a look at its contents.
    ///
    /// Returns false before the session is connected, and for a packet under 8 bytes.
    pub fn queue_unchecked_rtcp(&mut self, packet: &[u8]) -> bool {
        if self.state != State::Connected || packet.len() < 8 {
            return false;
        }
        self.timeout = None;
        self.send_rtcp(packet.to_vec());
        true
    }

    /// Seals `packet` as RTP of a sender and queues it, without a look at its contents beyond the
    /// sender's sequence number and SSRC, which are written into it. Bytes after `header_bytes` are
    /// the payload, which is encrypted.
    ///
    /// Returns false before the session is connected, for an unknown sender, and for a header under
    /// 12 bytes or longer than the packet.
    pub fn queue_unchecked_rtp(
        &mut self,
        sender: SenderIndex,
        header_bytes: usize,
        packet: &[u8],
    ) -> bool {
        if self.state != State::Connected || !(12..=packet.len()).contains(&header_bytes) {
            return false;
        }
        let sender = self.senders.get_mut(sender.0);
        let (Some(sender), Some(keys)) = (sender, self.keys.as_mut()) else {
            return false;
        };
        let mut datagram = vec![0; packet.len() + keys.outbound.overhead()];
        datagram[..packet.len()].copy_from_slice(packet);
        let payload_bytes = packet.len() - header_bytes;
        let sealed = sender.seal_unchecked(
            &mut keys.outbound,
            header_bytes,
            payload_bytes,
            &mut datagram,
        );
        if sealed.is_some() {
            self.reports.push(datagram);
            self.timeout = None;
        }
        sealed.is_some()
    }

    /// Seals `chunks` as an SCTP packet with the association's own header and queues it, without
    /// a look at the chunks.
    ///
    /// Returns false before the association has begun, and for a packet that is too long for a
    /// record.
    pub fn queue_unchecked_chunks(&mut self, chunks: &[u8]) -> bool {
        let association = self.data.as_ref().map(|data| data.channels.association());
        let packet = association.and_then(|it| it.unchecked_packet(chunks));
        packet.is_some_and(|packet| self.queue_unchecked_record(&packet))
    }

    /// Returns the TSN that the association's next chunk of data has; `None` without data
    /// channels.
    pub fn next_tsn(&self) -> Option<u32> {
        let data = self.data.as_ref()?;
        Some(data.channels.association().next_tsn())
    }

    /// Seals `packet` as a DTLS record of data and queues it, without a look at its contents.
    ///
    /// Returns false before the session is connected, without data channels, and for a packet
    /// that is too long for a record.
    pub fn queue_unchecked_record(&mut self, packet: &[u8]) -> bool {
        let Some(dtls) = self.dtls.as_mut() else {
            return false;
        };
        let Some(sealer) = dtls.sealer() else {
            return false;
        };
        let (offset, overhead) = (sealer.payload_offset(), sealer.overhead());
        let mut datagram = vec![0; packet.len() + overhead];
        datagram[offset..offset + packet.len()].copy_from_slice(packet);
        let sealed = sealer.seal(ContentType::ApplicationData, &mut datagram, packet.len());
        let Ok(bytes) = sealed else {
            return false;
        };
        datagram.truncate(bytes);
        dtls.queue(datagram);
        self.timeout = None;
        true
    }
}
