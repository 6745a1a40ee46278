use glassline_media::fields::u16_at;

use super::frame::Frame;
use super::kind;
use super::list::{Entry, List};
use crate::ParseError;
use crate::packet::builder::{NoRoom, PacketBuilder};
use crate::sequence::{Ssn, Tsn};

/// The sender has given messages up (RFC 3758 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardTsn<'a> {
    /// Everything up to here is to be taken as arrived.
    pub new_cumulative_tsn: Tsn,
    /// The last ordered message that was given up in each stream.
    pub skipped: List<'a, SkippedStream>,
}

/// A stream in which ordered messages were given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkippedStream {
    /// The stream.
    pub stream: u16,
    /// The last message given up.
    pub ssn: Ssn,
}

impl Entry for SkippedStream {
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

    /// Appends a chunk with these streams. Streams that do not fit must wait, and
    /// their messages' TSNs with them.
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
