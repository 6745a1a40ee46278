//! The messages of the Data Channel Establishment Protocol, OPEN and ACK (RFC 8832 §5).

use std::time::Duration;

use glassline_media::fields::{need, u16_at, u32_at};

use crate::Reliability;

use crate::ParseError;

/// A DCEP message: user data with payload protocol identifier 50 (RFC 8832 §5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dcep<'a> {
    /// DATA_CHANNEL_OPEN: the sender opens a channel on this stream (RFC 8832 §5.1).
    Open(Open<'a>),
    /// DATA_CHANNEL_ACK: the receiver of an OPEN accepts the channel (RFC 8832 §5.2).
    Ack,
}

/// The content of a DATA_CHANNEL_OPEN message (RFC 8832 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open<'a> {
    /// Whether messages are delivered in the order in which they were sent.
    pub ordered: bool,
    /// Whether and for how long lost messages are retransmitted.
    pub reliability: Reliability,
    /// Weight against other channels; 256 is normal (RFC 8831 §6.4).
    pub priority: u16,
    /// Label of the channel; may be empty, and channels may share one.
    pub label: &'a str,
    /// Name of the channel's subprotocol; may be empty.
    pub protocol: &'a str,
}

impl<'a> Dcep<'a> {
    /// Parses a whole DCEP message.
    ///
    /// # Errors
    /// [`ParseError`] if the message type or channel type is unknown, or a string is not
    /// UTF-8 or ends too early. The channel is then to be closed (RFC 8832 §6).
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        need("DCEP message", bytes.len(), 0, 1)?;
        match bytes[0] {
            ACK => Ok(Self::Ack),
            OPEN => Open::parse(bytes).map(Self::Open),
            other => Err(ParseError::Value {
                what: "DCEP message type",
                offset: 0,
                value: other.into(),
            }),
        }
    }

    /// Serializes the message. Strings above 65,535 bytes are cut at a character boundary;
    /// the caller should not pass any.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Ack => vec![ACK],
            Self::Open(open) => open.to_bytes(),
        }
    }
}

/// DCEP message type of DATA_CHANNEL_ACK.
const ACK: u8 = 2;
/// DCEP message type of DATA_CHANNEL_OPEN.
const OPEN: u8 = 3;

/// Bytes of a DATA_CHANNEL_OPEN before the label.
const OPEN_BYTES: usize = 12;

/// Bit of the channel type for unordered delivery (RFC 8832 §8.2.2).
const UNORDERED: u8 = 0x80;
/// Channel type: messages are retransmitted until they arrive.
const RELIABLE: u8 = 0;
/// Channel type: the reliability parameter is a number of retransmissions.
const LIMITED: u8 = 1;
/// Channel type: the reliability parameter is a lifetime in ms.
const TIMED: u8 = 2;

impl<'a> Open<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        need("DATA_CHANNEL_OPEN", bytes.len(), 0, OPEN_BYTES)?;
        let kind = bytes[1];
        let parameter = u32_at(bytes, 4);
        let reliability = match kind & !UNORDERED {
            RELIABLE => Reliability::Reliable,
            LIMITED => Reliability::Limited {
                retransmissions: parameter,
            },
            TIMED => Reliability::Timed {
                lifetime: Duration::from_millis(parameter.into()),
            },
            _ => {
                return Err(ParseError::Value {
                    what: "data channel type",
                    offset: 1,
                    value: kind.into(),
                });
            }
        };
        let label_len = usize::from(u16_at(bytes, 8));
        let protocol_len = usize::from(u16_at(bytes, 10));
        Ok(Self {
            ordered: kind & UNORDERED == 0,
            reliability,
            priority: u16_at(bytes, 2),
            label: text("data channel label", bytes, OPEN_BYTES, label_len)?,
            protocol: text(
                "data channel protocol",
                bytes,
                OPEN_BYTES + label_len,
                protocol_len,
            )?,
        })
    }

    fn to_bytes(self) -> Vec<u8> {
        let (kind, parameter) = match self.reliability {
            Reliability::Reliable => (RELIABLE, 0),
            Reliability::Limited { retransmissions } => (LIMITED, retransmissions),
            Reliability::Timed { lifetime } => {
                let milliseconds = u32::try_from(lifetime.as_millis());
                (TIMED, milliseconds.unwrap_or(u32::MAX))
            }
        };
        let kind = if self.ordered { kind } else { kind | UNORDERED };
        let label = cut(self.label);
        let protocol = cut(self.protocol);
        let mut bytes = Vec::with_capacity(OPEN_BYTES + label.len() + protocol.len());
        bytes.extend_from_slice(&[OPEN, kind]);
        bytes.extend_from_slice(&self.priority.to_be_bytes());
        bytes.extend_from_slice(&parameter.to_be_bytes());
        bytes.extend_from_slice(&(label.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&(protocol.len() as u16).to_be_bytes());
        bytes.extend_from_slice(label);
        bytes.extend_from_slice(protocol);
        bytes
    }
}

/// Returns at most the first 65,535 bytes of `text`, cut at a character boundary.
fn cut(text: &str) -> &[u8] {
    let end = text.floor_char_boundary(usize::from(u16::MAX));
    &text.as_bytes()[..end]
}

/// Reads `len` bytes of UTF-8 at `offset`.
fn text<'a>(
    what: &'static str,
    bytes: &'a [u8],
    offset: usize,
    len: usize,
) -> Result<&'a str, ParseError> {
    need(what, bytes.len(), offset, len)?;
    let text = &bytes[offset..offset + len];
    std::str::from_utf8(text).map_err(|error| {
        let at = error.valid_up_to();
        ParseError::Value {
            what,
            offset: offset + at,
            value: text.get(at).copied().unwrap_or(0).into(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_open_is_laid_out_as_in_the_rfc() {
        let bytes = [
            3, 0x81, 0x01, 0x00, 0, 0, 0, 7, 0, 2, 0, 3, b'h', b'i', b's', b'i', b'p',
        ];
        let open = Dcep::Open(Open {
            ordered: false,
            reliability: Reliability::Limited { retransmissions: 7 },
            priority: 256,
            label: "hi",
            protocol: "sip",
        });
        assert_eq!(Dcep::parse(&bytes), Ok(open.clone()));
        assert_eq!(open.to_bytes(), bytes);
        assert_eq!(Dcep::parse(&[2]), Ok(Dcep::Ack));
    }

    #[test]
    fn strings_that_end_early_or_are_no_text_are_named() {
        let mut bytes = [3, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, b'h', 0xff];
        assert_eq!(
            Dcep::parse(&bytes[..13]).map_err(|error| error.to_string()),
            Err("data channel label at byte 12 needs 2 bytes, 1 are there".into())
        );
        assert_eq!(
            Dcep::parse(&bytes).map_err(|error| error.to_string()),
            Err("data channel label at byte 13 is 255, which is not allowed".into())
        );
        bytes[1] = 3;
        assert!(matches!(
            Dcep::parse(&bytes),
            Err(ParseError::Value {
                what: "data channel type",
                ..
            })
        ));
        assert!(Dcep::parse(&[]).is_err());
        assert!(Dcep::parse(&[9]).is_err());
    }

    proptest! {
        #[test]
        fn every_open_comes_back(
            ordered: bool,
            kind in 0..3u8,
            parameter: u32,
            priority: u16,
            label in "\\PC{0,40}",
            protocol in "\\PC{0,40}",
        ) {
            let reliability = match kind {
                0 => Reliability::Reliable,
                1 => Reliability::Limited { retransmissions: parameter },
                _ => Reliability::Timed { lifetime: Duration::from_millis(parameter.into()) },
            };
            let open = Dcep::Open(Open {
                ordered, reliability, priority, label: &label, protocol: &protocol,
            });
            let bytes = open.to_bytes();
            prop_assert_eq!(Dcep::parse(&bytes), Ok(open.clone()));
            for len in 0..bytes.len() {
                prop_assert!(Dcep::parse(&bytes[..len]).is_err());
            }
        }
    }
}
