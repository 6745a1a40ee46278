use crate::packet::builder::{NoRoom, PacketBuilder};

/// A chunk of a type that is not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown<'a> {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// What follows the four bytes of its header.
    pub body: &'a [u8],
    /// The chunk with its header and without padding: what an ERROR chunk with
    /// "unrecognized chunk type" carries back.
    pub whole: &'a [u8],
}

impl Unknown<'_> {
    /// What the two highest bits of its type ask of an end that does not know it.
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

/// What to do about a chunk or parameter type that is not known
/// (RFC 9260 §3.2, §3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unrecognized {
    /// Read no further in this packet, or in this chunk.
    pub stop: bool,
    /// Tell the peer, with the whole thing as it came.
    pub report: bool,
}

impl Unrecognized {
    pub(super) fn of(high_byte: u8) -> Self {
        Self {
            stop: high_byte & 0x80 == 0,
            report: high_byte & 0x40 != 0,
        }
    }
}
