use glassline_media::fields::{Truncated, need, u16_at};

use super::frame::CHUNK_HEADER_BYTES;
use crate::ParseError;
use crate::packet::builder::Body;

/// Bytes of type and length before the value of a parameter or an error cause.
pub(super) const TLV_HEADER_BYTES: usize = CHUNK_HEADER_BYTES;

/// A parameter (RFC 9260 §3.2.1) or an error cause (§3.3.10), which have the same layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tlv<'a> {
    /// Parameter type or cause code.
    pub(super) kind: u16,
    /// The bytes after type and length, without padding.
    pub(super) value: &'a [u8],
    /// The whole parameter with type and length, without padding.
    pub(super) whole: &'a [u8],
    /// Offset of `value` in the packet, for errors.
    pub(super) offset: usize,
}

impl Tlv<'_> {
    /// Checks that the value has `needed` bytes.
    pub(super) fn need(&self, what: &'static str, needed: usize) -> Result<(), Truncated> {
        let end = self.offset + self.value.len();
        need(what, end, self.offset, needed)
    }
}

/// Iterator over parameters or error causes. It ends after one with a wrong length, which
/// it yields as an error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tlvs<'a> {
    /// The bytes that are not parsed yet.
    pub(super) bytes: &'a [u8],
    /// Offset of `bytes` in the packet.
    pub(super) offset: usize,
}

impl<'a> Tlvs<'a> {
    /// Returns the next parameter; `what` names it in errors.
    pub(super) fn next(&mut self, what: &'static str) -> Option<Result<Tlv<'a>, ParseError>> {
        if self.bytes.is_empty() {
            return None;
        }
        let parsed = self.split(what);
        match &parsed {
            Ok(tlv) => {
                let padded = tlv.whole.len().next_multiple_of(4);
                // The padding of the last parameter belongs to the chunk.
                let padded = padded.min(self.bytes.len());
                self.bytes = &self.bytes[padded..];
                self.offset += padded;
            }
            Err(_) => self.bytes = &[],
        }
        Some(parsed)
    }

    /// Parses the parameter at the beginning of `bytes`.
    fn split(&self, what: &'static str) -> Result<Tlv<'a>, ParseError> {
        let end = self.offset + self.bytes.len();
        need(what, end, self.offset, TLV_HEADER_BYTES)?;
        let length = u16_at(self.bytes, 2);
        let len = usize::from(length);
        if len < TLV_HEADER_BYTES {
            return Err(ParseError::Length {
                what,
                offset: self.offset,
                length,
            });
        }
        need(what, end, self.offset, len)?;
        let whole = &self.bytes[..len];
        Ok(Tlv {
            kind: u16_at(whole, 0),
            value: &whole[TLV_HEADER_BYTES..],
            whole,
            offset: self.offset + TLV_HEADER_BYTES,
        })
    }
}

/// Writes a parameter or error cause: type and length, then what `value` puts. First it
/// pads the previous one to a whole word.
pub(super) fn write_tlv(body: &mut Body<'_>, kind: u16, value: impl FnOnce(&mut Body<'_>)) {
    body.put_zeros(body.len().next_multiple_of(4) - body.len());
    let start = body.len();
    body.put_u16(kind);
    body.put_u16(0);
    value(body);
    // Padding is written before the next parameter and counted in no length: the length of
    // a chunk excludes the padding of its last parameter (RFC 9260 §3.2).
    body.set_u16(start + 2, (body.len() - start) as u16);
}
