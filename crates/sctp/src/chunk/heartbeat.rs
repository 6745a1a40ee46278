use super::frame::Frame;
use super::kind;
use super::parameter::HEARTBEAT_INFO;
use super::tlv::{Tlv, Tlvs, write_tlv};
use crate::ParseError;
use crate::packet::builder::{NoRoom, PacketBuilder};

/// HEARTBEAT: asks whether the peer is reachable (RFC 9260 §3.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat<'a> {
    /// Value of the Heartbeat Info parameter, which the answer must repeat.
    pub info: &'a [u8],
}

/// HEARTBEAT ACK: the answer to a [`Heartbeat`] (RFC 9260 §3.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatAck<'a> {
    /// Value of the Heartbeat Info parameter. The peer should repeat what the HEARTBEAT
    /// carried, but may have sent anything.
    pub info: &'a [u8],
}

impl<'a> Heartbeat<'a> {
    pub(super) fn parse(frame: Frame<'a>) -> Result<Self, ParseError> {
        info(frame).map(|info| Self { info })
    }

    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        write(kind::HEARTBEAT, self.info, packet)
    }
}

impl<'a> HeartbeatAck<'a> {
    pub(super) fn parse(frame: Frame<'a>) -> Result<Self, ParseError> {
        info(frame).map(|info| Self { info })
    }

    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// [`NoRoom`]; the packet is then as it was.
    pub fn write(&self, packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
        write(kind::HEARTBEAT_ACK, self.info, packet)
    }
}

/// Returns the value of the Heartbeat Info parameter.
fn info(frame: Frame<'_>) -> Result<&[u8], ParseError> {
    const WHAT: &str = "Heartbeat Info parameter";
    frame.need(WHAT, 0, 4)?;
    let mut parameters = Tlvs {
        bytes: frame.body,
        offset: frame.offset,
    };
    match parameters.next(WHAT) {
        Some(Ok(Tlv {
            kind: HEARTBEAT_INFO,
            value,
            ..
        })) => Ok(value),
        Some(Err(error)) => Err(error),
        _ => Err(ParseError::Value {
            what: "type of the parameter of a HEARTBEAT",
            offset: frame.offset,
            value: u32::from(frame.u16(0)),
        }),
    }
}

/// Appends a chunk of type `kind` with a Heartbeat Info parameter.
fn write(kind: u8, info: &[u8], packet: &mut PacketBuilder<'_>) -> Result<(), NoRoom> {
    packet.chunk(kind, 0, |body| {
        write_tlv(body, HEARTBEAT_INFO, |body| body.put(info));
    })
}
