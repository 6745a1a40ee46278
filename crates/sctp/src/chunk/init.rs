use super::frame::Frame;
use super::kind;
use super::parameter::{Parameter, Parameters};
use crate::ParseError;
use crate::packet::builder::{Body, NoRoom, PacketBuilder};
use crate::sequence::Tsn;

/// INIT: the first chunk of an association (RFC 9260 §3.3.2), alone in its packet.
///
/// The RFC forbids zero in `initiate_tag`, `outbound_streams` and `inbound_streams`; the
/// association decides how to answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init<'a> {
    /// Verification tag that packets to the sender of this chunk shall bear.
    pub initiate_tag: u32,
    /// Receive window of the sender, in bytes.
    pub a_rwnd: u32,
    /// Streams that the sender would like to send on.
    pub outbound_streams: u16,
    /// Streams that the sender accepts from the other end, at most.
    pub inbound_streams: u16,
    /// First TSN that the sender will use.
    pub initial_tsn: Tsn,
    /// Optional parameters after the fixed fields.
    pub parameters: Parameters<'a>,
}

impl<'a> Init<'a> {
    pub(super) fn parse(frame: Frame<'a>) -> Result<Self, ParseError> {
        frame.need("INIT", 0, FIXED_BYTES)?;
        Ok(Self {
            initiate_tag: frame.u32(0),
            a_rwnd: frame.u32(4),
            outbound_streams: frame.u16(8),
            inbound_streams: frame.u16(10),
            initial_tsn: frame.tsn(12),
            parameters: Parameters::new(&frame.body[FIXED_BYTES..], frame.offset + FIXED_BYTES),
        })
    }

    /// Appends the chunk to a packet, with the parameters it was parsed with.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        packet.chunk(kind::INIT, 0, |body| self.write_body(&[], body))
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
        packet.chunk(kind::INIT, 0, |body| self.write_body(parameters, body))
    }

    /// Writes the fixed fields and the parameters, which INIT and INIT ACK share.
    pub(super) fn write_body(&self, parameters: &[Parameter<'_>], body: &mut Body<'_>) {
        body.put_u32(self.initiate_tag);
        body.put_u32(self.a_rwnd);
        body.put_u16(self.outbound_streams);
        body.put_u16(self.inbound_streams);
        body.put_u32(self.initial_tsn.0);
        self.parameters.write(body);
        for parameter in parameters {
            parameter.write(body);
        }
    }
}

/// Bytes of the fixed fields: tag, window, stream counts, initial TSN.
const FIXED_BYTES: usize = 16;
