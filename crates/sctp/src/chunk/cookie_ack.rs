use super::kind;
use crate::packet::builder::{NoRoom, PacketBuilder};

/// COOKIE ACK: the receiver of the COOKIE ECHO accepted the cookie, and the association is
/// established (RFC 9260 §3.3.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookieAck;

impl CookieAck {
    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        packet.chunk(kind::COOKIE_ACK, 0, |_| {})
    }
}
