use super::data::DataFlags;
use super::frame::{CHUNK_HEADER_BYTES, Frame};
use super::kind;
use crate::ParseError;
use crate::packet::builder::{NoRoom, PacketBuilder};
use crate::sequence::{Mid, Tsn};

/// Bytes of an I-DATA chunk before its payload, chunk header included.
pub const I_DATA_HEADER_BYTES: usize = CHUNK_HEADER_BYTES + FIXED_BYTES;

/// I-DATA: a message or a fragment of one that may be interleaved with others (RFC 8260
/// §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IData<'a> {
    /// Position of the fragment in its message, and how the message is delivered.
    pub flags: DataFlags,
    /// Transmission sequence number of this chunk in the association.
    pub tsn: Tsn,
    /// Identifier of the stream.
    pub stream: u16,
    /// Identifier of the message in its stream; unordered messages are counted separately.
    pub mid: Mid,
    /// Payload protocol identifier. Only a first fragment carries one; 0 in the others.
    pub ppid: u32,
    /// Number of the fragment in its message; 0 in a first fragment.
    pub fsn: u32,
    /// User data. An empty payload is a protocol error; see [`Data`](super::Data).
    pub payload: &'a [u8],
}

impl<'a> IData<'a> {
    pub(super) fn parse(frame: Frame<'a>) -> Result<Self, ParseError> {
        frame.need("I-DATA", 0, FIXED_BYTES)?;
        let flags = DataFlags(frame.flags);
        let word = frame.u32(12);
        let (ppid, fsn) = if flags.has(DataFlags::BEGIN) {
            (word, 0)
        } else {
            (0, word)
        };
        Ok(Self {
            flags,
            tsn: frame.tsn(0),
            stream: frame.u16(4),
            mid: Mid(frame.u32(8)),
            ppid,
            fsn,
            payload: &frame.body[FIXED_BYTES..],
        })
    }

    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        let word = if self.flags.has(DataFlags::BEGIN) {
            self.ppid
        } else {
            self.fsn
        };
        let mut fixed = [0; FIXED_BYTES];
        fixed[..4].copy_from_slice(&self.tsn.0.to_be_bytes());
        fixed[4..6].copy_from_slice(&self.stream.to_be_bytes());
        fixed[8..12].copy_from_slice(&self.mid.0.to_be_bytes());
        fixed[12..].copy_from_slice(&word.to_be_bytes());
        packet.chunk(kind::I_DATA, self.flags.0, |body| {
            body.put(&fixed);
            body.put(self.payload);
        })
    }
}

/// Bytes of the fixed fields: TSN, stream identifier, two reserved bytes, message
/// identifier, and payload protocol identifier or fragment number.
const FIXED_BYTES: usize = 16;
