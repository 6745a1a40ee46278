use super::cause::{Cause, Causes};
use super::frame::Frame;
use super::kind;
use crate::packet::builder::{NoRoom, PacketBuilder};

/// ERROR: reports errors to the peer without ending the association (RFC 9260 §3.3.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error<'a> {
    /// The errors that the sender found.
    pub causes: Causes<'a>,
}

impl<'a> Error<'a> {
    pub(super) fn parse(frame: Frame<'a>) -> Self {
        Self {
            causes: Causes::new(frame.body, frame.offset),
        }
    }

    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        packet.chunk(kind::ERROR, 0, |body| self.causes.write(body))
    }

    /// Appends an ERROR chunk with these causes to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write_causes(
        causes: &[Cause<'_>],
        packet: &mut PacketBuilder<'_>,
    ) -> Result<(), NoRoom> {
        packet.chunk(kind::ERROR, 0, |body| {
            for cause in causes {
                cause.write(body);
            }
        })
    }
}
