use glassline_media::fields::{Truncated, need, u16_at, u32_at};

use crate::ParseError;
use crate::sequence::Tsn;

/// Bytes of the header of every chunk: type, flags, length (RFC 9260 §3.2).
pub const CHUNK_HEADER_BYTES: usize = 4;

/// One chunk of a packet, whose body is not parsed yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// Type of the chunk (RFC 9260 §3.2).
    pub(super) kind: u8,
    /// Chunk flags; their meaning depends on the type.
    pub(super) flags: u8,
    /// The bytes after the header, without padding.
    pub(super) body: &'a [u8],
    /// The whole chunk with its header, without padding.
    pub(super) whole: &'a [u8],
    /// Offset of `body` in the packet, for errors.
    pub(super) offset: usize,
}

impl<'a> Frame<'a> {
    /// Returns the chunk at `offset`, and the offset of the next one.
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

    /// Reads 16 bits at offset `at` of the body.
    pub(super) fn u16(&self, at: usize) -> u16 {
        u16_at(self.body, at)
    }

    /// Reads 32 bits at offset `at` of the body.
    pub(super) fn u32(&self, at: usize) -> u32 {
        u32_at(self.body, at)
    }

    /// Reads a TSN at offset `at` of the body.
    pub(super) fn tsn(&self, at: usize) -> Tsn {
        Tsn(self.u32(at))
    }
}
