//! The chunks of an SCTP packet: one file per type, named as in its RFC.
//!
//! Each chunk is a view into the packet's bytes with `parse` (through [`Chunks`]) and
//! `write` (into a [`PacketBuilder`]). Lengths are checked before a field is read: a view
//! never extends beyond its chunk, and lists are read in place, so that a packet cannot
//! make its receiver allocate memory. The meaning of the chunks is the association's
//! business.
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
pub(crate) mod frame;
mod heartbeat;
mod i_data;
mod i_forward_tsn;
mod init;
mod init_ack;
pub mod kind;
mod list;
mod pad;
pub mod parameter;
mod re_config;
mod sack;
mod shutdown;
mod tlv;
mod unknown;

pub use abort::Abort;
pub use cause::{Cause, Causes};
pub use cookie_ack::CookieAck;
pub use cookie_echo::CookieEcho;
pub use data::{DATA_HEADER_BYTES, Data, DataFlags};
pub use error::Error;
pub use forward_tsn::{ForwardTsn, SkippedStream};
pub use frame::CHUNK_HEADER_BYTES;
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
pub use unknown::{Unknown, Unrecognized};

use frame::Frame;

use crate::ParseError;
use crate::packet::builder::{NoRoom, PacketBuilder};

/// One chunk of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Chunk<'a> {
    /// User data (RFC 9260 §3.3.1).
    Data(Data<'a>),
    /// User data that may be interleaved (RFC 8260 §2.1).
    IData(IData<'a>),
    /// First message of the handshake (RFC 9260 §3.3.2).
    Init(Init<'a>),
    /// Second message of the handshake (RFC 9260 §3.3.3).
    InitAck(InitAck<'a>),
    /// Acknowledgement of data (RFC 9260 §3.3.4).
    Sack(Sack<'a>),
    /// Asks whether the peer is reachable (RFC 9260 §3.3.5).
    Heartbeat(Heartbeat<'a>),
    /// Answer to a HEARTBEAT (RFC 9260 §3.3.6).
    HeartbeatAck(HeartbeatAck<'a>),
    /// End of the association at once (RFC 9260 §3.3.7).
    Abort(Abort<'a>),
    /// First message of the orderly end (RFC 9260 §3.3.8).
    Shutdown(Shutdown),
    /// Second message of the orderly end (RFC 9260 §3.3.9).
    ShutdownAck(ShutdownAck),
    /// Third message of the orderly end (RFC 9260 §3.3.13).
    ShutdownComplete(ShutdownComplete),
    /// Report of an error (RFC 9260 §3.3.10).
    Error(Error<'a>),
    /// Third message of the handshake (RFC 9260 §3.3.11).
    CookieEcho(CookieEcho<'a>),
    /// Fourth message of the handshake (RFC 9260 §3.3.12).
    CookieAck(CookieAck),
    /// Abandoned messages (RFC 3758 §3.2).
    ForwardTsn(ForwardTsn<'a>),
    /// Abandoned messages that were interleaved (RFC 8260 §2.3.1).
    IForwardTsn(IForwardTsn<'a>),
    /// Reconfiguration of streams (RFC 6525 §3.1).
    ReConfig(ReConfig<'a>),
    /// Padding (RFC 4820 §3).
    Pad(Pad),
    /// A chunk of a type that is not known here.
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

/// Iterator over the chunks of a packet.
///
/// It ends with the packet, after a malformed chunk (an error), and after a chunk of
/// unknown type whose high bits say to stop (RFC 9260 §3.2). That chunk is yielded too,
/// because it may have to be reported to the peer. The last chunk's padding may be missing.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Chunks<'a> {
    /// Returns the chunks from `offset` on.
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
            read(frame)
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

/// Parses the body of a chunk by its type.
fn read(frame: Frame<'_>) -> Result<Chunk<'_>, ParseError> {
    Ok(match frame.kind {
        kind::DATA => Chunk::Data(Data::parse(frame)?),
        kind::I_DATA => Chunk::IData(IData::parse(frame)?),
        kind::SACK => Chunk::Sack(Sack::parse(frame)?),
        kind::INIT => Chunk::Init(Init::parse(frame)?),
        kind::INIT_ACK => Chunk::InitAck(InitAck::parse(frame)?),
        kind::HEARTBEAT => Chunk::Heartbeat(Heartbeat::parse(frame)?),
        kind::HEARTBEAT_ACK => Chunk::HeartbeatAck(HeartbeatAck::parse(frame)?),
        kind::ABORT => Chunk::Abort(Abort::parse(frame)),
        kind::SHUTDOWN => Chunk::Shutdown(Shutdown::parse(frame)?),
        kind::SHUTDOWN_ACK => Chunk::ShutdownAck(ShutdownAck),
        kind::SHUTDOWN_COMPLETE => Chunk::ShutdownComplete(ShutdownComplete::parse(frame)),
        kind::ERROR => Chunk::Error(Error::parse(frame)),
        kind::COOKIE_ECHO => Chunk::CookieEcho(CookieEcho::parse(frame)),
        kind::COOKIE_ACK => Chunk::CookieAck(CookieAck),
        kind::FORWARD_TSN => Chunk::ForwardTsn(ForwardTsn::parse(frame)?),
        kind::I_FORWARD_TSN => Chunk::IForwardTsn(IForwardTsn::parse(frame)?),
        kind::RE_CONFIG => Chunk::ReConfig(ReConfig::parse(frame)),
        kind::PAD => Chunk::Pad(Pad::parse(frame)),
        _ => Chunk::Unknown(Unknown {
            kind: frame.kind,
            flags: frame.flags,
            body: frame.body,
            whole: frame.whole,
        }),
    })
}

#[cfg(test)]
mod tests;
