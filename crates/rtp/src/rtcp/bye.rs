use glassline_media::Ssrc;

use super::{RawPacket, packet_type, put_u32, write_packet};
use crate::ParseError;

/// Goodbye: sources that leave the session (RFC 3550 §6.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bye<'a> {
    /// SSRCs of the sources; at most 31 are written.
    pub sources: Vec<Ssrc>,
    /// Reason in UTF-8; empty if none is given. At most 255 bytes are written.
    pub reason: &'a [u8],
}

impl<'a> Bye<'a> {
    pub(super) fn parse(raw: RawPacket<'a>) -> Result<Self, ParseError> {
        let count = usize::from(raw.format);
        raw.need("BYE sources", 0, count * 4)?;
        let sources = (0..count).map(|index| raw.ssrc(index * 4)).collect();
        // The reason is optional: a malformed one does not invalidate the packet.
        let reason = raw
            .body
            .get(count * 4..)
            .and_then(<[u8]>::split_first)
            .and_then(|(&len, rest)| rest.get(..usize::from(len)))
            .unwrap_or_default();
        Ok(Self { sources, reason })
    }

    /// Appends the packet to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let sources = &self.sources[..self.sources.len().min(31)];
        write_packet(out, sources.len() as u8, packet_type::BYE, |out| {
            sources.iter().for_each(|ssrc| put_u32(out, ssrc.0));
            if !self.reason.is_empty() {
                let reason = &self.reason[..self.reason.len().min(255)];
                out.push(reason.len() as u8);
                out.extend_from_slice(reason);
            }
        });
    }
}
