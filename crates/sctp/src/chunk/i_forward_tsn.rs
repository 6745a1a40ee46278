use glassline_media::fields::{u16_at, u32_at};

use super::frame::Frame;
use super::kind;
use super::list::{Entry, List};
use crate::ParseError;
use crate::packet::builder::{NoRoom, PacketBuilder};
use crate::sequence::{Mid, Tsn};

/// The sender of I-DATA has given messages up (RFC 8260 §2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IForwardTsn<'a> {
    /// Everything up to here is to be taken as arrived.
    pub new_cumulative_tsn: Tsn,
    /// The last message that was given up in each stream, ordered and unordered.
    pub skipped: List<'a, SkippedMessage>,
}

/// A stream in which messages of one kind were given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkippedMessage {
    /// The stream.
    pub stream: u16,
    /// U: it is about the unordered messages.
    pub unordered: bool,
    /// The last message given up.
    pub mid: Mid,
}

impl Entry for SkippedMessage {
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

    /// Appends a chunk with these messages. Messages that do not fit must wait, and
    /// their TSNs with them.
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
