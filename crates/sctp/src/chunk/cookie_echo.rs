use super::frame::Frame;
use super::kind;
use crate::packet::builder::{NoRoom, PacketBuilder};

/// COOKIE ECHO: returns the state cookie to its maker (RFC 9260 §3.3.11). It is the first
/// chunk of its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookieEcho<'a> {
    /// The state cookie, as it was in the INIT ACK.
    pub cookie: &'a [u8],
}

impl<'a> CookieEcho<'a> {
    pub(super) fn parse(frame: Frame<'a>) -> Self {
        Self { cookie: frame.body }
    }

    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        packet.chunk(kind::COOKIE_ECHO, 0, |body| body.put(self.cookie))
    }
}
