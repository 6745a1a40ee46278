//! RTP headers whose constant part is written once per sender.

use glassline_media::Ssrc;
use glassline_rtp as rtp;

/// A packet to be sealed, as the caller passes it.
#[derive(Clone, Copy)]
pub(super) struct Outgoing<'a> {
    pub(super) timestamp: u32,
    pub(super) marker: bool,
    pub(super) payload: &'a [u8],
    pub(super) padding: u8,
}

/// An RTP header whose constant part is written once.
///
/// The only extension is the transport-wide sequence number. MID is not sent: payload types
/// differ between our `m=` lines and our answer states the SSRCs, so the receiver can assign
/// packets without it (RFC 9143 §9.2), and the packets of a frame have equal headers from the
/// first one on, as segmentation offload needs.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) bytes: [u8; TEMPLATE_BYTES],
    pub(super) len: usize,
    /// Offset of the transport-wide number in `bytes`.
    pub(super) transport: Option<usize>,
}

/// Length in bytes of fixed header, extension header, one element of two bytes, padding.
const TEMPLATE_BYTES: usize = 20;
/// Offset of the number: behind the extension header of 4 bytes and the element's first byte.
const TRANSPORT_AT: usize = rtp::HEADER_BYTES + 5;

impl Template {
    pub(super) fn new(payload_type: u8, transport: Option<u8>) -> Self {
        let header = rtp::Header {
            marker: false,
            payload_type,
            sequence: 0,
            timestamp: 0,
            ssrc: Ssrc(0),
        };
        // Two-byte elements would have another offset; the negotiation gives ids 1–14.
        let transport = transport.filter(|id| (1..=14).contains(id));
        let mut bytes = [0; TEMPLATE_BYTES];
        let len = match transport {
            Some(id) => rtp::write_header(&mut bytes, &header, &[(id, &[0, 0])]),
            None => rtp::write_header(&mut bytes, &header, &[]),
        };
        Self {
            bytes,
            len,
            transport: transport.map(|_| TRANSPORT_AT),
        }
    }

    /// Has packets carry the transport-wide number in the extension with the id `transport`, or no
    /// number.
    pub(super) fn set_transport(&mut self, transport: Option<u8>) {
        *self = Self::new(self.bytes[1], transport);
    }

    pub(super) fn set_payload_type(&mut self, payload_type: u8) {
        self.bytes[1] = payload_type & 0x7f;
    }

    /// Writes the header to the front of `out`, without sequence number and SSRC, which
    /// `Outbound` fills in. The caller has checked that `out` has room for header and tag.
    /// The whole template is copied whatever its length, because a copy of constant length
    /// needs no call.
    #[inline]
    pub(super) fn write(&self, out: &mut [u8], packet: &Outgoing<'_>, transport: u16) {
        out[..TEMPLATE_BYTES].copy_from_slice(&self.bytes);
        out[0] |= u8::from(packet.padding > 0) << 5;
        out[1] |= u8::from(packet.marker) << 7;
        out[4..8].copy_from_slice(&packet.timestamp.to_be_bytes());
        if let Some(at) = self.transport {
            out[at..at + 2].copy_from_slice(&transport.to_be_bytes());
        }
    }
}
