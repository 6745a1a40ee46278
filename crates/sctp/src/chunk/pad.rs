use super::frame::{CHUNK_HEADER_BYTES, Frame};
use super::kind;
use crate::packet::builder::{CHUNK_BYTES_MAX, NoRoom, PacketBuilder};

/// PAD: fills a packet to a given size, to probe the path MTU (RFC 4820 §3, RFC 8899
/// §6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pad {
    /// Number of zero bytes after the chunk header.
    pub len: usize,
}

impl Pad {
    /// Returns the padding that fills the rest of `packet`, in whole words; `None` if there
    /// is no room for a chunk.
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
