use super::abort::REFLECTED_TAG;
use super::frame::Frame;
use super::kind;
use crate::ParseError;
use crate::packet::builder::{NoRoom, PacketBuilder};
use crate::sequence::Tsn;

/// SHUTDOWN: the sender has nothing more to send, and all of its data is acknowledged (RFC
/// 9260 §3.3.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// Cumulative TSN: everything up to this TSN has arrived at the sender of this chunk.
    pub cumulative_tsn: Tsn,
}

/// SHUTDOWN ACK: the answer to a [`Shutdown`] (RFC 9260 §3.3.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownAck;

/// SHUTDOWN COMPLETE: confirms the end of an association (RFC 9260 §3.3.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownComplete {
    /// The T bit: the sender has no association, and the packet bears the verification tag
    /// of the packet that it answers (RFC 9260 §8.5.1).
    pub reflected_tag: bool,
}

impl Shutdown {
    pub(super) fn parse(frame: Frame<'_>) -> Result<Self, ParseError> {
        frame.need("SHUTDOWN", 0, 4)?;
        Ok(Self {
            cumulative_tsn: frame.tsn(0),
        })
    }

    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        packet.chunk(kind::SHUTDOWN, 0, |body| {
            body.put_u32(self.cumulative_tsn.0);
        })
    }
}

impl ShutdownAck {
    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        packet.chunk(kind::SHUTDOWN_ACK, 0, |_| {})
    }
}

impl ShutdownComplete {
    pub(super) fn parse(frame: Frame<'_>) -> Self {
        Self {
            reflected_tag: frame.flags & REFLECTED_TAG != 0,
        }
    }

    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        let flags = if self.reflected_tag { REFLECTED_TAG } else { 0 };
        packet.chunk(kind::SHUTDOWN_COMPLETE, flags, |_| {})
    }
}
