//! The chunks of an SCTP packet: one file per kind, named as in its RFC.
//!
//! Each is a view into the packet's bytes with `parse` (through [`Chunks`]) and
//! `write` (into a [`PacketBuilder`](crate::packet::PacketBuilder)). Lengths are
//! checked before anything is believed: a view never reaches past its chunk, and
//! lists are walked where they lie, so that a packet cannot make its receiver take
//! memory.
//!
//! Sources: RFC 9260 §3.3 (base), RFC 3758 (FORWARD TSN), RFC 4820 (PAD), RFC 6525
//! (RE-CONFIG), RFC 8260 (I-DATA, I-FORWARD-TSN), RFC 9653 (zero checksum).

mod abort;
pub mod cause;
mod cookie_ack;
mod cookie_echo;
mod data;
mod error;
mod forward_tsn;
mod heartbeat;
mod i_data;
mod i_forward_tsn;
mod init;
mod init_ack;
mod list;
mod pad;
pub mod parameter;
mod re_config;
mod sack;
mod shutdown;
mod tlv;

pub use abort::Abort;
pub use cause::{Cause, Causes};
pub use cookie_ack::CookieAck;
pub use cookie_echo::CookieEcho;
pub use data::{DATA_HEADER_BYTES, Data, DataFlags};
pub use error::Error;
pub use forward_tsn::{ForwardTsn, SkippedStream};
pub use heartbeat::{Heartbeat, HeartbeatAck};
pub use i_data::{I_DATA_HEADER_BYTES, IData};
pub use i_forward_tsn::{IForwardTsn, SkippedMessage};
pub use init::Init;
pub use init_ack::InitAck;
pub use list::List;
pub use pad::Pad;
pub use parameter::{Parameter, Parameters};
pub use re_config::ReConfig;
pub use sack::{GapBlock, Sack};
pub use shutdown::{Shutdown, ShutdownAck, ShutdownComplete};

use glassline_media::fields::{Truncated, need, u16_at, u32_at};

use crate::ParseError;
use crate::packet::{NoRoom, PacketBuilder};
use crate::sequence::Tsn;

/// Bytes of the header that all chunks have: type, flags, length (RFC 9260 §3.2).
pub const CHUNK_HEADER_BYTES: usize = 4;

/// Chunk types (RFC 9260 §3.2 and the IANA registry), for the parameter that lists
/// the extensions an end supports.
pub mod kind {
    /// RFC 9260 §3.3.1.
    pub const DATA: u8 = 0;
    /// RFC 9260 §3.3.2.
    pub const INIT: u8 = 1;
    /// RFC 9260 §3.3.3.
    pub const INIT_ACK: u8 = 2;
    /// RFC 9260 §3.3.4.
    pub const SACK: u8 = 3;
    /// RFC 9260 §3.3.5.
    pub const HEARTBEAT: u8 = 4;
    /// RFC 9260 §3.3.6.
    pub const HEARTBEAT_ACK: u8 = 5;
    /// RFC 9260 §3.3.7.
    pub const ABORT: u8 = 6;
    /// RFC 9260 §3.3.8.
    pub const SHUTDOWN: u8 = 7;
    /// RFC 9260 §3.3.9.
    pub const SHUTDOWN_ACK: u8 = 8;
    /// RFC 9260 §3.3.10.
    pub const ERROR: u8 = 9;
    /// RFC 9260 §3.3.11.
    pub const COOKIE_ECHO: u8 = 10;
    /// RFC 9260 §3.3.12.
    pub const COOKIE_ACK: u8 = 11;
    /// RFC 9260 §3.3.13.
    pub const SHUTDOWN_COMPLETE: u8 = 14;
    /// RFC 8260 §2.1.
    pub const I_DATA: u8 = 0x40;
    /// RFC 6525 §3.1.
    pub const RE_CONFIG: u8 = 0x82;
    /// RFC 4820 §3.
    pub const PAD: u8 = 0x84;
    /// RFC 3758 §3.2.
    pub const FORWARD_TSN: u8 = 0xc0;
    /// RFC 8260 §2.3.1.
    pub const I_FORWARD_TSN: u8 = 0xc2;
}

/// One chunk of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Chunk<'a> {
    /// RFC 9260 §3.3.1.
    Data(Data<'a>),
    /// RFC 8260 §2.1.
    IData(IData<'a>),
    /// RFC 9260 §3.3.2.
    Init(Init<'a>),
    /// RFC 9260 §3.3.3.
    InitAck(InitAck<'a>),
    /// RFC 9260 §3.3.4.
    Sack(Sack<'a>),
    /// RFC 9260 §3.3.5.
    Heartbeat(Heartbeat<'a>),
    /// RFC 9260 §3.3.6.
    HeartbeatAck(HeartbeatAck<'a>),
    /// RFC 9260 §3.3.7.
    Abort(Abort<'a>),
    /// RFC 9260 §3.3.8.
    Shutdown(Shutdown),
    /// RFC 9260 §3.3.9.
    ShutdownAck(ShutdownAck),
    /// RFC 9260 §3.3.13.
    ShutdownComplete(ShutdownComplete),
    /// RFC 9260 §3.3.10.
    Error(Error<'a>),
    /// RFC 9260 §3.3.11.
    CookieEcho(CookieEcho<'a>),
    /// RFC 9260 §3.3.12.
    CookieAck(CookieAck),
    /// RFC 3758 §3.2.
    ForwardTsn(ForwardTsn<'a>),
    /// RFC 8260 §2.3.1.
    IForwardTsn(IForwardTsn<'a>),
    /// RFC 6525 §3.1.
    ReConfig(ReConfig<'a>),
    /// RFC 4820 §3.
    Pad(Pad),
    /// Any other.
    Unknown(Unknown<'a>),
}

impl Chunk<'_> {
    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        match self {
            Self::Data(chunk) => chunk.write(packet),
            Self::IData(chunk) => chunk.write(packet),
            Self::Init(chunk) => chunk.write(packet),
            Self::InitAck(chunk) => chunk.write(packet),
            Self::Sack(chunk) => chunk.write(packet),
            Self::Heartbeat(chunk) => chunk.write(packet),
            Self::HeartbeatAck(chunk) => chunk.write(packet),
            Self::Abort(chunk) => chunk.write(packet),
            Self::Shutdown(chunk) => chunk.write(packet),
            Self::ShutdownAck(chunk) => chunk.write(packet),
            Self::ShutdownComplete(chunk) => chunk.write(packet),
            Self::Error(chunk) => chunk.write(packet),
            Self::CookieEcho(chunk) => chunk.write(packet),
            Self::CookieAck(chunk) => chunk.write(packet),
            Self::ForwardTsn(chunk) => chunk.write(packet),
            Self::IForwardTsn(chunk) => chunk.write(packet),
            Self::ReConfig(chunk) => chunk.write(packet),
            Self::Pad(chunk) => chunk.write(packet),
            Self::Unknown(chunk) => chunk.write(packet),
        }
    }
}

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
    fn of(high_byte: u8) -> Self {
        Self {
            stop: high_byte & 0x80 == 0,
            report: high_byte & 0x40 != 0,
        }
    }
}

/// Iterator over the chunks of a packet.
///
/// It ends with the packet, after a chunk that is malformed (an error), and after
/// one of unknown type whose high bits say to stop (RFC 9260 §3.2); that one comes
/// out too, because the peer may want to hear of it. The last chunk's padding may
/// be missing.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Chunks<'a> {
    pub(crate) fn new(bytes: &'a [u8], offset: usize) -> Self {
        Self { bytes, offset }
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.bytes.len() {
            return None;
        }
        let parsed = Frame::parse(self.bytes, self.offset).and_then(|(frame, next)| {
            self.offset = next;
            frame.chunk()
        });
        let ends = match &parsed {
            Ok(Chunk::Unknown(unknown)) => unknown.action().stop,
            Ok(_) => false,
            Err(_) => true,
        };
        if ends {
            self.offset = self.bytes.len();
        }
        Some(parsed)
    }
}

/// One chunk cut out of its packet, content unread.
#[derive(Clone, Copy, Debug)]
struct Frame<'a> {
    kind: u8,
    flags: u8,
    /// What follows the header, padding excluded.
    body: &'a [u8],
    /// The header too.
    whole: &'a [u8],
    /// Offset of `body` in the packet, for errors.
    offset: usize,
}

impl<'a> Frame<'a> {
    /// The chunk at `offset` and where the next begins.
    fn parse(bytes: &'a [u8], offset: usize) -> Result<(Self, usize), ParseError> {
        need("chunk header", bytes.len(), offset, CHUNK_HEADER_BYTES)?;
        let length = u16_at(bytes, offset + 2);
        let len = usize::from(length);
        if len < CHUNK_HEADER_BYTES {
            return Err(ParseError::Length {
                what: "chunk",
                offset,
                length,
            });
        }
        need("chunk", bytes.len(), offset, len)?;
        let whole = &bytes[offset..offset + len];
        let frame = Self {
            kind: whole[0],
            flags: whole[1],
            body: &whole[CHUNK_HEADER_BYTES..],
            whole,
            offset: offset + CHUNK_HEADER_BYTES,
        };
        Ok((frame, offset + len.next_multiple_of(4)))
    }

    fn chunk(self) -> Result<Chunk<'a>, ParseError> {
        Ok(match self.kind {
            kind::DATA => Chunk::Data(Data::parse(self)?),
            kind::I_DATA => Chunk::IData(IData::parse(self)?),
            kind::SACK => Chunk::Sack(Sack::parse(self)?),
            kind::INIT => Chunk::Init(Init::parse(self)?),
            kind::INIT_ACK => Chunk::InitAck(InitAck::parse(self)?),
            kind::HEARTBEAT => Chunk::Heartbeat(Heartbeat::parse(self)?),
            kind::HEARTBEAT_ACK => Chunk::HeartbeatAck(HeartbeatAck::parse(self)?),
            kind::ABORT => Chunk::Abort(Abort::parse(self)),
            kind::SHUTDOWN => Chunk::Shutdown(Shutdown::parse(self)?),
            kind::SHUTDOWN_ACK => Chunk::ShutdownAck(ShutdownAck),
            kind::SHUTDOWN_COMPLETE => Chunk::ShutdownComplete(ShutdownComplete::parse(self)),
            kind::ERROR => Chunk::Error(Error::parse(self)),
            kind::COOKIE_ECHO => Chunk::CookieEcho(CookieEcho::parse(self)),
            kind::COOKIE_ACK => Chunk::CookieAck(CookieAck),
            kind::FORWARD_TSN => Chunk::ForwardTsn(ForwardTsn::parse(self)?),
            kind::I_FORWARD_TSN => Chunk::IForwardTsn(IForwardTsn::parse(self)?),
            kind::RE_CONFIG => Chunk::ReConfig(ReConfig::parse(self)),
            kind::PAD => Chunk::Pad(Pad::parse(self)),
            _ => Chunk::Unknown(Unknown {
                kind: self.kind,
                flags: self.flags,
                body: self.body,
                whole: self.whole,
            }),
        })
    }

    /// Checks that the body has `needed` bytes from `at` on.
    fn need(&self, what: &'static str, at: usize, needed: usize) -> Result<(), Truncated> {
        let end = self.offset + self.body.len();
        need(what, end, self.offset + at, needed)
    }

    fn u16(&self, at: usize) -> u16 {
        u16_at(self.body, at)
    }

    fn u32(&self, at: usize) -> u32 {
        u32_at(self.body, at)
    }

    fn tsn(&self, at: usize) -> Tsn {
        Tsn(self.u32(at))
    }
}

#[cfg(test)]
mod tests;
