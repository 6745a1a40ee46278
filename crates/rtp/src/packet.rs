use glassline_media::Ssrc;

use crate::error::{need, u16_at, u32_at};
use crate::{Extensions, ParseError, extensions};

/// Bytes of an RTP header without CSRCs and extensions (RFC 3550 §5.1).
pub const HEADER_BYTES: usize = 12;

/// The fixed fields of an RTP header (RFC 3550 §5.1).
///
/// CSRCs are skipped on parsing and never written: nothing here mixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Video: the last packet of an access unit. Sound: the first of a talkspurt.
    pub marker: bool,
    /// Payload type, 0–127.
    pub payload_type: u8,
    /// Sequence number as on the wire; widen it with [`SequenceExtender`](crate::SequenceExtender).
    pub sequence: u16,
    /// Media time in ticks of the payload's clock, from a random start.
    pub timestamp: u32,
    /// Whose packet it is.
    pub ssrc: Ssrc,
}

impl Header {
    /// Reads the fixed fields, which SRTP leaves in the clear. Does not look
    /// at CSRCs, extensions or padding.
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

/// A parsed RTP packet; borrows the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The fixed fields.
    pub header: Header,
    /// Header extension elements.
    pub extensions: Extensions<'a>,
    /// Payload without padding; empty for a packet of padding only.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a decrypted packet. Takes no memory.
    ///
    /// Padding is removed; for a packet still encrypted use [`Header::parse`]
    /// and [`Packet::header_len`], since its padding is not readable yet.
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
            payload = without_padding(payload, bytes.len())?;
        }
        Ok(Self {
            header,
            extensions,
            payload,
        })
    }

    /// Offset of the payload: fixed header, CSRCs and header extension.
    ///
    /// SRTP leaves these bytes in the clear and authenticates them (RFC 3711 §3.1).
    pub fn header_len(bytes: &[u8]) -> Result<usize, ParseError> {
        Header::parse(bytes)?;
        let csrc_end = csrc_end(bytes)?;
        if bytes[0] & EXTENSION_BIT == 0 {
            return Ok(csrc_end);
        }
        extensions::block(bytes, csrc_end).map(|(_, end)| end)
    }
}

/// Bytes that [`write_header`] will write for these extension elements.
pub fn header_size(elements: &[(u8, &[u8])]) -> usize {
    HEADER_BYTES + extensions::size(elements)
}

/// Writes a header with extension elements (id, data) to the front of `out`;
/// returns the bytes written. Takes no memory.
///
/// One-byte extension headers are used where ids are 1–14 and data 1–16 bytes,
/// two-byte ones else. Constant ids and sizes give a constant header size, as
/// equal segments need. Panics if `out` is shorter than [`header_size`], an id
/// is 0 or data has more than 255 bytes: all of them the caller's own.
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

const VERSION_BITS: u8 = 2 << 6;
const PADDING_BIT: u8 = 0x20;
const EXTENSION_BIT: u8 = 0x10;
const CSRC_COUNT_BITS: u8 = 0x0f;

/// Where the CSRC list ends; the fixed header was checked before.
fn csrc_end(bytes: &[u8]) -> Result<usize, ParseError> {
    let csrcs = usize::from(bytes[0] & CSRC_COUNT_BITS) * 4;
    need("CSRC list", bytes.len(), HEADER_BYTES, csrcs)?;
    Ok(HEADER_BYTES + csrcs)
}

/// Removes the padding that the last byte counts, itself included (RFC 3550 §5.1).
fn without_padding(payload: &[u8], packet_len: usize) -> Result<&[u8], ParseError> {
    let count = payload.last().copied().unwrap_or(0);
    match payload.len().checked_sub(usize::from(count)) {
        Some(end) if count > 0 => Ok(&payload[..end]),
        _ => Err(ParseError::Value {
            what: "padding count",
            offset: packet_len.saturating_sub(1),
            value: u32::from(count),
        }),
    }
}
