use super::frame::Frame;
use super::kind;
use super::parameter::{Parameter, Parameters};
use crate::packet::builder::{NoRoom, PacketBuilder};

/// RE-CONFIG: requests, or answers, a change of the streams (RFC 6525 §3.1). It has one or
/// two of the parameters of RFC 6525 §4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReConfig<'a> {
    /// Requests and responses of the chunk.
    pub parameters: Parameters<'a>,
}

impl<'a> ReConfig<'a> {
    pub(super) fn parse(frame: Frame<'a>) -> Self {
        Self {
            parameters: Parameters::new(frame.body, frame.offset),
        }
    }

    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        packet.chunk(kind::RE_CONFIG, 0, |body| self.parameters.write(body))
    }

    /// Appends a chunk with these parameters to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write_parameters(
        parameters: &[Parameter<'_>],
        packet: &mut PacketBuilder<'_>,
    ) -> Result<(), NoRoom> {
        packet.chunk(kind::RE_CONFIG, 0, |body| {
            for parameter in parameters {
                parameter.write(body);
            }
        })
    }
}
