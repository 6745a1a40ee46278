//! The RTP stream of one track: numbers, counts, and sender reports.

use glassline_media::{MediaTime, NtpTime, PAYLOAD_BYTES_MAX, Ssrc, Track, TrackIndex};
use glassline_rtp::rtcp::{SenderReport, SourceDescription};
use glassline_rtp::{HEADER_BYTES, Header, write_header};
use glassline_rtsp::sdp;

use crate::publish::uplink::outgoing::OutgoingPacket;
use crate::publish::uplink::packetized::timestamp;

/// Random numbers with which the RTP stream of a track begins (RFC 3550 §5.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) ssrc: u32,
    pub(super) sequence: u16,
    pub(super) timestamp: u32,
}

/// The RTP stream of one track.
#[derive(Debug)]
pub(super) struct RtpTrack {
    pub(super) ssrc: Ssrc,
    payload_type: u8,
    clock_rate: u32,
    timestamp_start: u32,
    /// Number of the next packet, with the wraps in the upper bits.
    next_sequence: u64,
    packets: u64,
    pub(super) payload_bytes: u64,
}

/// A packet without encryption.
pub(super) type Datagram = [u8; PAYLOAD_BYTES_MAX + HEADER_BYTES];

impl RtpTrack {
    pub(super) fn new(track: &Track, index: TrackIndex, start: Start) -> Self {
        Self {
            ssrc: Ssrc(start.ssrc),
            payload_type: sdp::payload_type(track, index),
            clock_rate: track.clock_rate,
            timestamp_start: start.timestamp,
            next_sequence: start.sequence.into(),
            packets: 0,
            payload_bytes: 0,
        }
    }

    /// Writes a packet with the next number to `out`; returns the length.
    // Sequence numbers wrap around.
    pub(super) fn write(&self, packet: &OutgoingPacket<'_>, out: &mut Datagram) -> usize {
        let header = Header {
            marker: packet.marker,
            payload_type: self.payload_type,
            sequence: self.next_sequence as u16,
            timestamp: packet.timestamp,
            ssrc: self.ssrc,
        };
        let start = write_header(out, &header, &[]);
        let end = start + packet.payload.len();
        out[start..end].copy_from_slice(packet.payload);
        end
    }

    /// Records that the packet that was written has left; returns its number.
    pub(super) const fn on_sent(&mut self, payload_bytes: usize) -> u64 {
        self.packets += 1;
        self.payload_bytes += payload_bytes as u64;
        self.next_sequence += 1;
        self.next_sequence - 1
    }

    /// Returns a sender report for the media time `time`, which is `ntp` by the calendar, with the
    /// canonical name; `None` before the first packet.
    // Counts wrap around.
    pub(super) fn report(&self, ntp: NtpTime, time: MediaTime, name: &str) -> Option<Vec<u8>> {
        if self.packets == 0 {
            return None;
        }
        let mut out = Vec::new();
        SenderReport {
            ssrc: self.ssrc,
            ntp,
            rtp_timestamp: timestamp(time, self.clock_rate, self.timestamp_start),
            packet_count: self.packets as u32,
            octet_count: self.payload_bytes as u32,
            reports: Vec::new(),
        }
        .write(&mut out);
        SourceDescription::cname(self.ssrc, name.as_bytes()).write(&mut out);
        Some(out)
    }
}
