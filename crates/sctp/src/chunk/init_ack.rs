use super::frame::Frame;
use super::init::Init;
use super::kind;
use super::parameter::Parameter;
use crate::ParseError;
use crate::packet::builder::{NoRoom, PacketBuilder};

/// INIT ACK: the answer to an INIT (RFC 9260 §3.3.3). Its content is the INIT of its
/// sender, with the state cookie among the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitAck<'a>(pub Init<'a>);

impl<'a> InitAck<'a> {
    pub(super) fn parse(frame: Frame<'a>) -> Result<Self, ParseError> {
        Init::parse(frame).map(Self)
    }

    /// Appends the chunk to a packet, with the parameters it was parsed with.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        self.write_with(&[], packet)
    }

    /// Appends the chunk to a packet, with `parameters` after those that it has already.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write_with(
        &self,
        parameters: &[Parameter<'_>],
        packet: &mut PacketBuilder<'_>,
    ) -> Result<(), NoRoom> {
        packet.chunk(kind::INIT_ACK, 0, |body| {
            self.0.write_body(parameters, body);
        })
    }
}
