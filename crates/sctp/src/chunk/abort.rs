use super::cause::{Cause, Causes};
use super::frame::Frame;
use super::kind;
use crate::packet::builder::{NoRoom, PacketBuilder};

/// ABORT: ends an association at once (RFC 9260 §3.3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort<'a> {
    /// The T bit: the sender has no association, and the packet bears the verification tag
    /// of the packet that it answers (RFC 9260 §8.5.1).
    pub reflected_tag: bool,
    /// The reason why the sender aborts; may be empty.
    pub causes: Causes<'a>,
}

impl<'a> Abort<'a> {
    /// Reads the chunk from its frame.
    pub(super) fn parse(frame: Frame<'a>) -> Self {
        Self {
            reflected_tag: frame.flags & REFLECTED_TAG != 0,
            causes: Causes::new(frame.body, frame.offset),
        }
    }

    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        self.write_with(&[], packet)
    }

    /// Appends the chunk to a packet, `causes` after those it has already.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write_with(
        &self,
        causes: &[Cause<'_>],
        packet: &mut PacketBuilder<'_>,
    ) -> Result<(), NoRoom> {
        let flags = if self.reflected_tag { REFLECTED_TAG } else { 0 };
        packet.chunk(kind::ABORT, flags, |body| {
            self.causes.write(body);
            for cause in causes {
                cause.write(body);
            }
        })
    }
}

/// The T bit of ABORT and SHUTDOWN COMPLETE.
pub(super) const REFLECTED_TAG: u8 = 1;
