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
/// first one on, as segmentation offload needs. Packets of a simulcast layer have MID and RID, because
/// no description states their SSRC.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) bytes: [u8; TEMPLATE_BYTES],
    pub(super) len: usize,
    /// Offset of the transport-wide number in `bytes`.
    pub(super) transport: Option<usize>,
    /// The elements that tell a layer; `None` without simulcast, as for every viewer.
    layer: Option<Box<LayerElements>>,
}

/// Extension elements behind the transport-wide number, which tell the layer of a packet.
#[derive(Debug, Default)]
pub(super) struct LayerElements {
    /// Ids with MID and RID.
    elements: Vec<(u8, Vec<u8>)>,
    /// Bytes of the header beyond those of the template.
    rest: Vec<u8>,
}

impl LayerElements {
    /// Creates the elements of these ids and texts, of which those without an id are left out.
    pub(super) fn new(elements: [(Option<u8>, &str); 2]) -> Self {
        let elements = elements.into_iter().filter_map(|(id, text)| {
            let id = id.filter(|id| (1..=14).contains(id) && (1..=16).contains(&text.len()))?;
            Some((id, text.as_bytes().to_vec()))
        });
        Self {
            elements: elements.collect(),
            rest: Vec::new(),
        }
    }
}

/// Length in bytes of fixed header, extension header, one element of two bytes, padding.
pub(super) const TEMPLATE_BYTES: usize = 20;
/// Length in bytes of the longest header: the template, and two elements of at most 16 bytes.
const HEADER_BYTES_MAX: usize = 56;
/// Offset of the number: behind the extension header of 4 bytes and the element's first byte.
const TRANSPORT_AT: usize = rtp::HEADER_BYTES + 5;

impl Template {
    pub(super) fn new(
        payload_type: u8,
        transport: Option<u8>,
        layer: Option<Box<LayerElements>>,
    ) -> Self {
        let header = rtp::Header {
            marker: false,
            payload_type,
            sequence: 0,
            timestamp: 0,
            ssrc: Ssrc(0),
        };
        // Two-byte elements would have another offset; the negotiation gives ids 1–14.
        let transport = transport.filter(|id| (1..=14).contains(id));
        let number: &[u8] = &[0, 0];
        let numbered = transport.map(|id| (id, number));
        let of_layer = layer.iter().flat_map(|it| &it.elements);
        let of_layer = of_layer.map(|(id, text)| (*id, &text[..]));
        let elements: Vec<_> = numbered.into_iter().chain(of_layer).collect();
        let mut written = [0; HEADER_BYTES_MAX];
        let len = rtp::write_header(&mut written, &header, &elements);
        let (first, rest) = written.split_at(TEMPLATE_BYTES);
        let mut bytes = [0; TEMPLATE_BYTES];
        bytes.copy_from_slice(first);
        let layer = layer.map(|mut layer| {
            layer.rest = rest[..len.saturating_sub(TEMPLATE_BYTES)].to_vec();
            layer
        });
        Self {
            bytes,
            len,
            transport: transport.map(|_| TRANSPORT_AT),
            layer,
        }
    }

    /// Has packets carry the transport-wide number in the extension with the id `transport`, or no
    /// number.
    pub(super) fn set_transport(&mut self, transport: Option<u8>) {
        *self = Self::new(self.bytes[1], transport, self.layer.take());
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
        if let Some(layer) = &self.layer {
            let end = TEMPLATE_BYTES + layer.rest.len();
            out[TEMPLATE_BYTES..end].copy_from_slice(&layer.rest);
        }
        out[0] |= u8::from(packet.padding > 0) << 5;
        out[1] |= u8::from(packet.marker) << 7;
        out[4..8].copy_from_slice(&packet.timestamp.to_be_bytes());
        if let Some(at) = self.transport {
            out[at..at + 2].copy_from_slice(&transport.to_be_bytes());
        }
    }
}
