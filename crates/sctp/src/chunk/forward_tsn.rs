use glassline_media::fields::u16_at;

use super::frame::Frame;
use super::kind;
use super::list::{List, ListItem};
use crate::ParseError;
use crate::packet::builder::{NoRoom, PacketBuilder};
use crate::sequence::{Ssn, Tsn};

/// FORWARD TSN: the sender abandoned messages, and the receiver shall not wait for them
/// (RFC 3758 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardTsn<'a> {
    /// The new cumulative TSN: the receiver counts everything up to this TSN as received.
    pub new_cumulative_tsn: Tsn,
    /// The last ordered message that was abandoned in each stream.
    pub skipped: List<'a, SkippedStream>,
}

/// A stream in which ordered messages were abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkippedStream {
    /// Identifier of the stream.
    pub stream: u16,
    /// Stream sequence number of the last abandoned message.
    pub ssn: Ssn,
}

impl ListItem for SkippedStream {
    const BYTES: usize = 4;

    fn read(bytes: &[u8]) -> Self {
        Self {
            stream: u16_at(bytes, 0),
            ssn: Ssn(u16_at(bytes, 2)),
        }
    }
}

impl<'a> ForwardTsn<'a> {
    pub(super) fn parse(frame: Frame<'a>) -> Result<Self, ParseError> {
        frame.need("FORWARD TSN", 0, 4)?;
        Ok(Self {
            new_cumulative_tsn: frame.tsn(0),
            skipped: List::new(&frame.body[4..]),
        })
    }

    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        packet.chunk(kind::FORWARD_TSN, 0, |body| {
            body.put_u32(self.new_cumulative_tsn.0);
            self.skipped.write(body);
        })
    }

    /// Appends a chunk with these streams. The caller must leave streams that do not fit
    /// for a later chunk, together with the TSNs of their messages.
    ///
    /// # Errors
    /// [`NoRoom`] if not all fit; the packet is then as it was.
    pub fn write_streams(
        new_cumulative_tsn: Tsn,
        skipped: impl IntoIterator<Item = SkippedStream>,
        packet: &mut PacketBuilder<'_>,
    ) -> Result<(), NoRoom> {
        packet.chunk(kind::FORWARD_TSN, 0, |body| {
            body.put_u32(new_cumulative_tsn.0);
            for skipped in skipped {
                body.put_u16(skipped.stream);
                body.put_u16(skipped.ssn.0);
            }
        })
    }
}
