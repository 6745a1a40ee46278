use super::frame::{CHUNK_HEADER_BYTES, Frame};
use super::kind;
use crate::packet::builder::{CHUNK_BYTES_MAX, NoRoom, PacketBuilder};

/// Fills a packet up, so that it probes the path MTU (RFC 4820 §3, RFC 8899 §6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pad {
    /// Bytes after the chunk header, all zero.
    pub len: usize,
}

impl Pad {
    /// The padding that fills `packet` as far as it goes, in whole words; `None` if
    /// there is no room for a chunk.
    pub fn filling(packet: &PacketBuilder<'_>) -> Option<Self> {
        let room = packet.room().min(CHUNK_BYTES_MAX);
        let len = room.checked_sub(CHUNK_HEADER_BYTES)?;
        Some(Self { len })
    }

    pub(super) fn parse(frame: Frame<'_>) -> Self {
        Self {
            len: frame.body.len(),
        }
    }

    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        packet.chunk(kind::PAD, 0, |body| body.put_zeros(self.len))
    }
}
