use glassline_media::fields::{Truncated, need, u16_at, u32_at};

use crate::ParseError;
use crate::sequence::Tsn;

/// Bytes of the header that all chunks have: type, flags, length (RFC 9260 §3.2).
pub const CHUNK_HEADER_BYTES: usize = 4;

/// One chunk cut out of its packet, content unread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// What follows the header, padding excluded.
    pub(super) body: &'a [u8],
    /// The header too.
    pub(super) whole: &'a [u8],
    /// Offset of `body` in the packet, for errors.
    pub(super) offset: usize,
}

impl<'a> Frame<'a> {
    /// The chunk at `offset` and where the next begins.
    pub(super) fn parse(bytes: &'a [u8], offset: usize) -> Result<(Self, usize), ParseError> {
        need("chunk header", bytes.len(), offset, CHUNK_HEADER_BYTES)?;
        let length = u16_at(bytes, offset + 2);
        let len = usize::from(length);
        if len < CHUNK_HEADER_BYTES {
            return Err(ParseError::Length {
                what: "chunk",
                offset,
                length,
            });
        }
        need("chunk", bytes.len(), offset, len)?;
        let whole = &bytes[offset..offset + len];
        let frame = Self {
            kind: whole[0],
            flags: whole[1],
            body: &whole[CHUNK_HEADER_BYTES..],
            whole,
            offset: offset + CHUNK_HEADER_BYTES,
        };
        Ok((frame, offset + len.next_multiple_of(4)))
    }

    /// Checks that the body has `needed` bytes from `at` on.
    pub(super) fn need(
        &self,
        what: &'static str,
        at: usize,
        needed: usize,
    ) -> Result<(), Truncated> {
        let end = self.offset + self.body.len();
        need(what, end, self.offset + at, needed)
    }

    pub(super) fn u16(&self, at: usize) -> u16 {
        u16_at(self.body, at)
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        u32_at(self.body, at)
    }

    pub(super) fn tsn(&self, at: usize) -> Tsn {
        Tsn(self.u32(at))
    }
}
