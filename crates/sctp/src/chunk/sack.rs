use glassline_media::fields::u16_at;

use super::frame::Frame;
use super::kind;
use super::list::{List, ListItem};
use crate::ParseError;
use crate::packet::builder::{NoRoom, PacketBuilder};
use crate::sequence::Tsn;

/// SACK: acknowledges data (RFC 9260 §3.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sack<'a> {
    /// Cumulative TSN: everything up to this TSN has arrived.
    pub cumulative_tsn: Tsn,
    /// Advertised receive window: bytes that the receiver still has room for.
    pub a_rwnd: u32,
    /// Gap ack blocks: what has arrived beyond the first missing TSN.
    pub gaps: List<'a, GapBlock>,
    /// TSNs that arrived again since the last SACK.
    pub duplicates: List<'a, Tsn>,
}

/// A gap ack block: consecutive TSNs that have arrived, as offsets from the cumulative TSN.
///
/// Blocks from the wire are not checked: `start` may be 0 or above `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapBlock {
    /// Offset of the first TSN; 2 or more in a valid block.
    pub start: u16,
    /// Offset of the last TSN.
    pub end: u16,
}

impl ListItem for GapBlock {
    const BYTES: usize = 4;

    fn read(bytes: &[u8]) -> Self {
        Self {
            start: u16_at(bytes, 0),
            end: u16_at(bytes, 2),
        }
    }
}

impl<'a> Sack<'a> {
    pub(super) fn parse(frame: Frame<'a>) -> Result<Self, ParseError> {
        frame.need("SACK", 0, FIXED_BYTES)?;
        let gaps = usize::from(frame.u16(8)) * GapBlock::BYTES;
        let duplicates = usize::from(frame.u16(10)) * Tsn::BYTES;
        frame.need("SACK blocks", FIXED_BYTES, gaps + duplicates)?;
        let (gaps, rest) = frame.body[FIXED_BYTES..].split_at(gaps);
        Ok(Self {
            cumulative_tsn: frame.tsn(0),
            a_rwnd: frame.u32(4),
            gaps: List::new(gaps),
            duplicates: List::new(&rest[..duplicates]),
        })
    }

    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        packet.chunk(kind::SACK, 0, |body| {
            body.put_u32(self.cumulative_tsn.0);
            body.put_u32(self.a_rwnd);
            body.put_u16(self.gaps.len() as u16);
            body.put_u16(self.duplicates.len() as u16);
            self.gaps.write(body);
            self.duplicates.write(body);
        })
    }

    /// Appends a chunk with as many of `gaps` as fit, then as many of `duplicates`, and
    /// returns the number of each. The lowest should come first: the sender of the data
    /// takes what a SACK leaves out for missing.
    ///
    /// # Errors
    /// [`NoRoom`] if there is no room even for a SACK without lists.
    pub fn write_fitting(
        cumulative_tsn: Tsn,
        a_rwnd: u32,
        gaps: impl IntoIterator<Item = GapBlock>,
        duplicates: impl IntoIterator<Item = Tsn>,
        packet: &mut PacketBuilder<'_>,
    ) -> Result<(usize, usize), NoRoom> {
        let mut counts = (0, 0);
        packet.chunk(kind::SACK, 0, |body| {
            body.put_u32(cumulative_tsn.0);
            body.put_u32(a_rwnd);
            body.put_u32(0);
            for gap in gaps.into_iter().take(body.room() / GapBlock::BYTES) {
                body.put_u16(gap.start);
                body.put_u16(gap.end);
                counts.0 += 1;
            }
            for tsn in duplicates.into_iter().take(body.room() / Tsn::BYTES) {
                body.put_u32(tsn.0);
                counts.1 += 1;
            }
            body.set_u16(8, counts.0 as u16);
            body.set_u16(10, counts.1 as u16);
        })?;
        Ok(counts)
    }
}

/// Bytes of the fixed fields: cumulative TSN, window, and the numbers of gap ack blocks and
/// duplicates.
const FIXED_BYTES: usize = 12;
