use std::ops::BitOr;

use super::frame::{CHUNK_HEADER_BYTES, Frame};
use super::kind;
use crate::ParseError;
use crate::packet::builder::{NoRoom, PacketBuilder};
use crate::sequence::{Ssn, Tsn};

/// Bytes of a DATA chunk before its payload, chunk header included.
pub const DATA_HEADER_BYTES: usize = CHUNK_HEADER_BYTES + FIXED_BYTES;

/// DATA: a message or a fragment of one (RFC 9260 §3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// Position of the fragment in its message, and how the message is delivered.
    pub flags: DataFlags,
    /// Transmission sequence number of this chunk in the association.
    pub tsn: Tsn,
    /// Identifier of the stream.
    pub stream: u16,
    /// Sequence number of the message in its stream; meaningless if the message is
    /// unordered.
    pub ssn: Ssn,
    /// Payload protocol identifier: tells the application what the payload is.
    pub ppid: u32,
    /// User data. An empty payload is a protocol error (RFC 9260 §6.2, cause 9), which the
    /// association reports because it needs the TSN.
    pub payload: &'a [u8],
}

/// The flags of DATA and I-DATA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataFlags(pub u8);

impl DataFlags {
    /// The E bit: the last fragment of a message.
    pub const END: Self = Self(1);
    /// The B bit: the first fragment of a message.
    pub const BEGIN: Self = Self(2);
    /// The B and E bits together: a whole message.
    pub const WHOLE: Self = Self(3);
    /// The U bit: the message is delivered without regard to order.
    pub const UNORDERED: Self = Self(4);
    /// The I bit: the receiver should acknowledge at once (RFC 7053).
    pub const IMMEDIATE: Self = Self(8);

    /// Whether all flags of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for DataFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl<'a> Data<'a> {
    pub(super) fn parse(frame: Frame<'a>) -> Result<Self, ParseError> {
        frame.need("DATA", 0, FIXED_BYTES)?;
        Ok(Self {
            flags: DataFlags(frame.flags),
            tsn: frame.tsn(0),
            stream: frame.u16(4),
            ssn: Ssn(frame.u16(6)),
            ppid: frame.u32(8),
            payload: &frame.body[FIXED_BYTES..],
        })
    }

    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        let mut fixed = [0; FIXED_BYTES];
        fixed[..4].copy_from_slice(&self.tsn.0.to_be_bytes());
        fixed[4..6].copy_from_slice(&self.stream.to_be_bytes());
        fixed[6..8].copy_from_slice(&self.ssn.0.to_be_bytes());
        fixed[8..].copy_from_slice(&self.ppid.to_be_bytes());
        packet.chunk(kind::DATA, self.flags.0, |body| {
            body.put(&fixed);
            body.put(self.payload);
        })
    }
}

/// Bytes of the fixed fields: TSN, stream identifier, stream sequence number and payload
/// protocol identifier.
const FIXED_BYTES: usize = 12;
