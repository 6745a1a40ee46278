use crate::packet::builder::{NoRoom, PacketBuilder};

/// A chunk of a type that is not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown<'a> {
    /// Chunk type as on the wire.
    pub kind: u8,
    /// Chunk flags as on the wire.
    pub flags: u8,
    /// The bytes after the four bytes of the header, without padding.
    pub body: &'a [u8],
    /// The chunk with its header and without padding, as the Unrecognized Chunk Type cause
    /// of an ERROR chunk must contain it.
    pub whole: &'a [u8],
}

impl Unknown<'_> {
    /// Returns what the two highest bits of the type ask of a receiver that does not know
    /// it.
    pub fn action(&self) -> Unrecognized {
        Unrecognized::of(self.kind)
    }

    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        packet.chunk(self.kind, self.flags, |body| body.put(self.body))
    }
}

/// How a receiver treats a chunk or parameter type that it does not know (RFC 9260 §3.2,
/// §3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unrecognized {
    /// Whether to ignore the rest of the packet, or of the chunk.
    pub stop: bool,
    /// Whether to report the whole chunk or parameter to the peer.
    pub report: bool,
}

impl Unrecognized {
    /// Reads the two highest bits of a type, whose high byte is given.
    pub(super) fn of(high_byte: u8) -> Self {
        Self {
            stop: high_byte & 0x80 == 0,
            report: high_byte & 0x40 != 0,
        }
    }
}
