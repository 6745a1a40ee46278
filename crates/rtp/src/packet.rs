use glassline_media::Ssrc;
use glassline_media::fields::{need, u16_at, u32_at};

use crate::{Extensions, ParseError, extensions};

/// Length of an RTP header without CSRCs and extensions, in bytes (RFC 3550 §5.1).
pub const HEADER_BYTES: usize = 12;

/// The fixed fields of an RTP header (RFC 3550 §5.1).
///
/// CSRCs are skipped when a packet is parsed and are never written: this crate does not mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Marker bit. Video: the last packet of an access unit. Audio: the first of a talk spurt.
    pub marker: bool,
    /// Payload type in 0–127.
    pub payload_type: u8,
    /// Sequence number as on the wire; extend it with
    /// [`SequenceExtender`](crate::SequenceExtender) before comparing it.
    pub sequence: u16,
    /// RTP timestamp in ticks of the payload's clock; it starts at a random value and wraps.
    pub timestamp: u32,
    /// Synchronization source of the packet.
    pub ssrc: Ssrc,
}

impl Header {
    /// Reads the fixed fields, which SRTP does not encrypt. CSRCs, extensions and padding are
    /// not checked.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        need("RTP header", bytes.len(), 0, HEADER_BYTES)?;
        let version = bytes[0] >> 6;
        if version != 2 {
            return Err(ParseError::Version { offset: 0, version });
        }
        Ok(Self {
            marker: bytes[1] & 0x80 != 0,
            payload_type: bytes[1] & 0x7f,
            sequence: u16_at(bytes, 2),
            timestamp: u32_at(bytes, 4),
            ssrc: Ssrc(u32_at(bytes, 8)),
        })
    }
}

/// A parsed RTP packet, which borrows the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Fixed fields of the header.
    pub header: Header,
    /// Elements of the header extension.
    pub extensions: Extensions<'a>,
    /// Payload without padding; empty if the packet contains only padding.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a decrypted packet without allocating.
    ///
    /// Padding is removed, if its length is possible. For a packet that is still encrypted use [`Header::parse`] and
    /// [`Packet::header_len`] instead: its padding cannot be read yet.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let header = Header::parse(bytes)?;
        let csrc_end = csrc_end(bytes)?;
        let (extensions, start) = if bytes[0] & EXTENSION_BIT != 0 {
            let (profile, end) = extensions::block(bytes, csrc_end)?;
            let data = &bytes[csrc_end + extensions::PREFIX_BYTES..end];
            (Extensions::new(profile, data), end)
        } else {
            (Extensions::default(), csrc_end)
        };
        let mut payload = &bytes[start..];
        if bytes[0] & PADDING_BIT != 0 {
            payload = without_padding(payload);
        }
        Ok(Self {
            header,
            extensions,
            payload,
        })
    }

    /// Returns the offset of the payload, behind fixed header, CSRCs and header extension.
    ///
    /// SRTP does not encrypt these bytes, but authenticates them (RFC 3711 §3.1).
    pub fn header_len(bytes: &[u8]) -> Result<usize, ParseError> {
        Header::parse(bytes)?;
        let csrc_end = csrc_end(bytes)?;
        if bytes[0] & EXTENSION_BIT == 0 {
            return Ok(csrc_end);
        }
        extensions::block(bytes, csrc_end).map(|(_, end)| end)
    }
}

/// Returns the number of bytes that [`write_header`] writes for these extension elements.
pub fn header_size(elements: &[(u8, &[u8])]) -> usize {
    HEADER_BYTES + extensions::size(elements)
}

/// Writes a header with extension elements, as (id, data), to the front of `out`, without
/// allocating. Returns the number of bytes written.
///
/// One-byte extension headers are used if all ids are 1–14 and all data have 1–16 bytes,
/// two-byte headers otherwise. Elements of constant ids and sizes give a header of constant
/// size, as segmented sends (GSO) need.
///
/// # Panics
/// If `out` is shorter than [`header_size`], an id is 0, or data are longer than 255 bytes; the
/// caller chooses all of these.
pub fn write_header(out: &mut [u8], header: &Header, elements: &[(u8, &[u8])]) -> usize {
    let (fixed, rest) = out
        .split_first_chunk_mut::<HEADER_BYTES>()
        .expect("room for an RTP header");
    fixed[0] = VERSION_BITS
        | if elements.is_empty() {
            0
        } else {
            EXTENSION_BIT
        };
    fixed[1] = u8::from(header.marker) << 7 | header.payload_type & 0x7f;
    fixed[2..4].copy_from_slice(&header.sequence.to_be_bytes());
    fixed[4..8].copy_from_slice(&header.timestamp.to_be_bytes());
    fixed[8..12].copy_from_slice(&header.ssrc.0.to_be_bytes());
    HEADER_BYTES + extensions::write(rest, elements)
}

/// RTP version 2, in the upper two bits of the first byte.
const VERSION_BITS: u8 = 2 << 6;
/// Bit of the first byte: padding follows the payload.
const PADDING_BIT: u8 = 0x20;
/// Bit of the first byte: a header extension follows the CSRC list.
const EXTENSION_BIT: u8 = 0x10;
/// Bits of the first byte: number of CSRCs.
const CSRC_COUNT_BITS: u8 = 0x0f;

/// Returns the offset behind the CSRC list. The fixed header was checked before.
fn csrc_end(bytes: &[u8]) -> Result<usize, ParseError> {
    let csrcs = usize::from(bytes[0] & CSRC_COUNT_BITS) * 4;
    need("CSRC list", bytes.len(), HEADER_BYTES, csrcs)?;
    Ok(HEADER_BYTES + csrcs)
}

/// Removes the padding; its last byte is its length, itself included (RFC 3550 §5.1). A length of 0, or
/// beyond the payload, means that there is none: many devices set the bit without padding.
fn without_padding(payload: &[u8]) -> &[u8] {
    let count = payload.last().copied().unwrap_or(0);
    let end = payload.len().checked_sub(usize::from(count));
    end.map_or(payload, |end| &payload[..end])
}

#[cfg(test)]
mod tests {
    use glassline_media::fields::Truncated;

    use super::*;
    use proptest::prelude::*;

    const HEADER: Header = Header {
        marker: true,
        payload_type: 96,
        sequence: 0x1234,
        timestamp: 0x89ab_cdef,
        ssrc: Ssrc(0xdead_beef),
    };

    fn written(header: &Header, elements: &[(u8, &[u8])], payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0xaa; header_size(elements)];
        assert_eq!(write_header(&mut out, header, elements), out.len());
        out.extend_from_slice(payload);
        out
    }

    /// A header as RFC 3550 §5.1 draws it: two CSRCs, an extension, three bytes of padding.
    fn drawn() -> Vec<u8> {
        let mut bytes = vec![0xb2, 0xe0, 0x12, 0x34, 0x89, 0xab, 0xcd, 0xef];
        bytes.extend([0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 1, 0, 0, 0, 2]);
        bytes.extend([0xbe, 0xde, 0, 1, 0x31, 0xab, 0xcd, 0]);
        bytes.extend(b"payload");
        bytes.extend([0, 0, 3]);
        bytes
    }

    #[test]
    fn csrcs_extension_and_padding_are_set_aside() {
        let bytes = drawn();
        let packet = Packet::parse(&bytes).expect("a packet");
        assert_eq!(packet.header, HEADER);
        assert_eq!(packet.payload, b"payload");
        assert_eq!(packet.extensions.get(3), Some([0xab, 0xcd].as_slice()));
        assert_eq!(packet.extensions.get(4), None);
        assert_eq!(Packet::header_len(&bytes), Ok(28));
    }

    #[test]
    fn every_truncation_of_the_header_is_an_error() {
        let bytes = drawn();
        for len in 0..28 {
            assert!(Packet::header_len(&bytes[..len]).is_err(), "{len}");
            assert!(Packet::parse(&bytes[..len]).is_err(), "{len}");
        }
        assert_eq!(
            Packet::parse(&bytes[..22]).map(|_| ()),
            Err(ParseError::Truncated(Truncated {
                what: "header extension",
                offset: 20,
                needed: 4,
                available: 2
            }))
        );
    }

    #[test]
    fn a_padding_bit_without_padding_costs_no_packet() {
        let mut bytes = written(&HEADER, &[], &[1, 2, 3]);
        bytes[0] |= 0x20;
        assert_eq!(Packet::parse(&bytes).expect("padding only").payload, b"");
        for count in [0, 4, 255] {
            bytes[14] = count;
            let packet = Packet::parse(&bytes).expect("pion/rtp#274");
            assert_eq!(packet.payload, &[1, 2, count]);
        }
        bytes[14] = 1;
        assert_eq!(Packet::parse(&bytes).expect("one byte").payload, &[1, 2]);
        let empty = Packet::parse(&bytes[..12]).expect("nothing to remove");
        assert_eq!(empty.payload, b"");
    }

    #[test]
    fn other_versions_are_refused() {
        let mut bytes = drawn();
        bytes[0] = 0x40;
        let error = Packet::parse(&bytes).expect_err("version 1");
        assert_eq!(
            error.to_string(),
            "version 1 at byte 0; RTP and RTCP have version 2"
        );
    }

    #[test]
    fn one_byte_elements_stop_at_fifteen_and_skip_padding() {
        let data = [0x10, 7, 0, 0, 0x20, 8, 0xf0, 9, 0x30, 9];
        let extensions = Extensions::new(0xbede, &data);
        let ids: Vec<u8> = extensions.iter().map(|(id, _)| id).collect();
        assert_eq!(ids, [1, 2]);
    }

    #[test]
    fn two_byte_elements_may_be_empty_and_ignore_application_bits() {
        let data = [200, 0, 0, 15, 2, 1, 2];
        for profile in [0x1000, 0x100f] {
            let extensions = Extensions::new(profile, &data);
            assert_eq!(extensions.get(200), Some([].as_slice()));
            assert_eq!(extensions.get(15), Some([1, 2].as_slice()));
        }
        assert!(Extensions::new(0x1234, &data).is_empty(), "another profile");
    }

    #[test]
    fn an_element_past_the_end_ends_the_list() {
        let extensions = Extensions::new(0xbede, &[0x10, 1, 0x2f, 1, 2, 3]);
        assert_eq!(extensions.iter().count(), 1);
    }

    #[test]
    fn elements_that_one_byte_headers_cannot_hold_take_two() {
        for element in [(1, [0u8; 17].as_slice()), (15, &[1]), (1, &[])] {
            let bytes = written(&HEADER, &[element], b"x");
            let packet = Packet::parse(&bytes).expect("a packet");
            assert_eq!(bytes[12..14], [0x10, 0x00]);
            assert_eq!(packet.extensions.get(element.0), Some(element.1));
            assert_eq!(packet.payload, b"x");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            marker: bool,
            payload_type in 0u8..128,
            sequence: u16,
            timestamp: u32,
            ssrc: u32,
            elements in prop::collection::vec(
                (1u8..=255, prop::collection::vec(any::<u8>(), 0..40)), 0..6),
            payload in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let header = Header { marker, payload_type, sequence, timestamp, ssrc: Ssrc(ssrc) };
            let elements: Vec<(u8, &[u8])> =
                elements.iter().map(|(id, data)| (*id, data.as_slice())).collect();
            let bytes = written(&header, &elements, &payload);
            let packet = Packet::parse(&bytes).expect("what we write is well-formed");
            prop_assert_eq!(packet.header, header);
            prop_assert_eq!(packet.payload, payload.as_slice());
            prop_assert_eq!(packet.extensions.iter().collect::<Vec<_>>(), elements);
            prop_assert_eq!(Packet::header_len(&bytes), Ok(bytes.len() - payload.len()));
        }

        #[test]
        fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..80), rtp: bool) {
            if rtp && !bytes.is_empty() {
                bytes[0] = bytes[0] & 0x3f | 0x80;
            }
            if let Ok(packet) = Packet::parse(&bytes) {
                let start = Packet::header_len(&bytes).expect("it parsed");
                prop_assert!(packet.payload.len() <= bytes.len() - start);
                prop_assert!(packet.extensions.iter().count() <= bytes.len());
            }
        }
    }
}
