use glassline_media::fields::{u16_at, u32_at};

use super::frame::Frame;
use super::kind;
use super::list::{List, ListItem};
use crate::ParseError;
use crate::packet::builder::{NoRoom, PacketBuilder};
use crate::sequence::{Mid, Tsn};

/// I-FORWARD-TSN: the sender of I-DATA abandoned messages, and the receiver shall not wait
/// for them (RFC 8260 §2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IForwardTsn<'a> {
    /// The new cumulative TSN: the receiver counts everything up to this TSN as received.
    pub new_cumulative_tsn: Tsn,
    /// The last message that was abandoned in each stream, ordered and unordered ones
    /// separately.
    pub skipped: List<'a, SkippedMessage>,
}

/// A stream in which ordered messages, or unordered ones, were abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkippedMessage {
    /// Identifier of the stream.
    pub stream: u16,
    /// The U bit: the entry concerns the unordered messages of the stream.
    pub unordered: bool,
    /// Message identifier of the last abandoned message.
    pub mid: Mid,
}

impl ListItem for SkippedMessage {
    const BYTES: usize = 8;

    fn read(bytes: &[u8]) -> Self {
        Self {
            stream: u16_at(bytes, 0),
            unordered: u16_at(bytes, 2) & 1 != 0,
            mid: Mid(u32_at(bytes, 4)),
        }
    }
}

impl<'a> IForwardTsn<'a> {
    pub(super) fn parse(frame: Frame<'a>) -> Result<Self, ParseError> {
        frame.need("I-FORWARD-TSN", 0, 4)?;
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
        packet.chunk(kind::I_FORWARD_TSN, 0, |body| {
            body.put_u32(self.new_cumulative_tsn.0);
            self.skipped.write(body);
        })
    }

    /// Appends a chunk with these messages. The caller must leave messages that do not fit
    /// for a later chunk, together with their TSNs.
    ///
    /// # Errors
    /// [`NoRoom`] if not all fit; the packet is then as it was.
    pub fn write_messages(
        new_cumulative_tsn: Tsn,
        skipped: impl IntoIterator<Item = SkippedMessage>,
        packet: &mut PacketBuilder<'_>,
    ) -> Result<(), NoRoom> {
        packet.chunk(kind::I_FORWARD_TSN, 0, |body| {
            body.put_u32(new_cumulative_tsn.0);
            for skipped in skipped {
                body.put_u16(skipped.stream);
                body.put_u16(skipped.unordered.into());
                body.put_u32(skipped.mid.0);
            }
        })
    }
}
