use glassline_media::Ssrc;

use super::{RawPacket, packet_type, put_u32, write_packet};
use crate::ParseError;

/// Source description (SDES, RFC 3550 §6.5). Only the CNAME is kept, the one item that every
/// participant must send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceDescription<'a> {
    /// One chunk for each source; at most 31 are written.
    pub chunks: Vec<Chunk<'a>>,
}

/// Description of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// SSRC of the source.
    pub ssrc: Ssrc,
    /// Canonical name in UTF-8. All sources of an endpoint, which share one clock, have the
    /// same name. Empty if absent; at most 255 bytes are written.
    pub cname: &'a [u8],
}

impl<'a> SourceDescription<'a> {
    /// Creates a description of one source by its CNAME.
    pub fn cname(ssrc: Ssrc, cname: &'a [u8]) -> Self {
        Self {
            chunks: vec![Chunk { ssrc, cname }],
        }
    }

    pub(super) fn parse(raw: RawPacket<'a>) -> Result<Self, ParseError> {
        let mut chunks = Vec::with_capacity(usize::from(raw.format));
        let mut at = 0;
        for _ in 0..raw.format {
            let (chunk, next) = Chunk::parse(raw, at)?;
            chunks.push(chunk);
            at = next;
        }
        Ok(Self { chunks })
    }

    /// Appends the packet to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let chunks = &self.chunks[..self.chunks.len().min(31)];
        let count = chunks.len() as u8;
        write_packet(out, count, packet_type::SOURCE_DESCRIPTION, |out| {
            chunks.iter().for_each(|chunk| chunk.write(out));
        });
    }
}

impl<'a> Chunk<'a> {
    /// Parses the chunk at offset `at` of the packet. Returns the chunk and the offset of the
    /// next.
    fn parse(raw: RawPacket<'a>, at: usize) -> Result<(Self, usize), ParseError> {
        raw.need("SDES chunk", at, 4)?;
        let mut chunk = Self {
            ssrc: raw.ssrc(at),
            cname: &[],
        };
        let mut at = at + 4;
        loop {
            raw.need("SDES item", at, 1)?;
            let item = raw.body[at];
            if item == END {
                // Null bytes fill the chunk up to a whole word (RFC 3550 §6.5).
                return Ok((chunk, (at + 1).next_multiple_of(4)));
            }
            raw.need("SDES item", at, 2)?;
            let len = usize::from(raw.body[at + 1]);
            raw.need("SDES item text", at + 2, len)?;
            if item == CNAME {
                chunk.cname = &raw.body[at + 2..at + 2 + len];
            }
            at += 2 + len;
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let cname = &self.cname[..self.cname.len().min(255)];
        put_u32(out, self.ssrc.0);
        out.extend_from_slice(&[CNAME, cname.len() as u8]);
        out.extend_from_slice(cname);
        // One null byte ends the items, and more fill the word; the SSRC took four bytes.
        let items = 2 + cname.len();
        let fill = (items + 1).next_multiple_of(4) - items;
        out.extend_from_slice(&[END; 4][..fill]);
    }
}

/// Type of the null item, which ends the items of a chunk.
const END: u8 = 0;
/// Type of the CNAME item.
const CNAME: u8 = 1;
