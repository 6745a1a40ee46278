//! Error causes of ABORT and ERROR (RFC 9260 §3.3.10).

use glassline_media::fields::{u16_at, u32_at};

use super::list::List;
use super::tlv::{Tlv, Tlvs, write_tlv};
use crate::ParseError;
use crate::packet::builder::Body;
use crate::sequence::Tsn;

/// One error cause of an ABORT or ERROR chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause<'a> {
    /// A message came on a stream that does not exist (§3.3.10.1).
    InvalidStream(u16),
    /// An INIT or INIT ACK lacked something (§3.3.10.2).
    MissingParameters(List<'a, u16>),
    /// A state cookie came too late, by so many µs (§3.3.10.3).
    StaleCookie(u32),
    /// The sender has no resources for another association (§3.3.10.4).
    OutOfResource,
    /// The sender does not know the type of this chunk, which is included whole
    /// (§3.3.10.6).
    UnrecognizedChunk(&'a [u8]),
    /// A mandatory field of an INIT or INIT ACK has a forbidden value (§3.3.10.7).
    InvalidMandatoryParameter,
    /// The sender does not know these parameters of an INIT ACK, which are included whole
    /// (§3.3.10.8).
    UnrecognizedParameters(&'a [u8]),
    /// The DATA chunk with this TSN was empty (§3.3.10.9).
    NoUserData(Tsn),
    /// A COOKIE ECHO came while the association was being shut down (§3.3.10.10).
    CookieWhileShuttingDown,
    /// The application aborted the association; its reason as bytes (§3.3.10.12).
    UserInitiatedAbort(&'a [u8]),
    /// Another violation of the protocol; additional information as bytes (§3.3.10.13).
    ProtocolViolation(&'a [u8]),
    /// A cause with a code that is not known here.
    Unknown {
        /// Cause code as on the wire.
        code: u16,
        /// Value of the cause, without code and length.
        value: &'a [u8],
    },
}

impl Cause<'_> {
    /// Returns the cause code, for reports.
    pub fn code(&self) -> u16 {
        match *self {
            Self::InvalidStream(_) => INVALID_STREAM,
            Self::MissingParameters(_) => MISSING_PARAMETERS,
            Self::StaleCookie(_) => STALE_COOKIE,
            Self::OutOfResource => OUT_OF_RESOURCE,
            Self::UnrecognizedChunk(_) => UNRECOGNIZED_CHUNK,
            Self::InvalidMandatoryParameter => INVALID_MANDATORY_PARAMETER,
            Self::UnrecognizedParameters(_) => UNRECOGNIZED_PARAMETERS,
            Self::NoUserData(_) => NO_USER_DATA,
            Self::CookieWhileShuttingDown => COOKIE_WHILE_SHUTTING_DOWN,
            Self::UserInitiatedAbort(_) => USER_INITIATED_ABORT,
            Self::ProtocolViolation(_) => PROTOCOL_VIOLATION,
            Self::Unknown { code, .. } => code,
        }
    }
}

/// Iterator over the causes of a chunk. It ends after a malformed cause, which it yields as
/// an error.
#[derive(Clone, Copy, Debug)]
pub struct Causes<'a> {
    tlvs: Tlvs<'a>,
}

impl<'a> Causes<'a> {
    /// An empty list of causes.
    pub const NONE: Self = Self {
        tlvs: Tlvs {
            bytes: &[],
            offset: 0,
        },
    };

    /// Returns the causes in `bytes`. `offset`: position of `bytes` in the packet.
    pub(super) fn new(bytes: &'a [u8], offset: usize) -> Self {
        Self {
            tlvs: Tlvs { bytes, offset },
        }
    }

    /// Copies the causes into a chunk.
    pub(super) fn write(&self, body: &mut Body<'_>) {
        body.put(self.tlvs.bytes);
    }
}

impl<'a> Iterator for Causes<'a> {
    type Item = Result<Cause<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let parsed = self.tlvs.next("error cause")?.and_then(Cause::parse);
        if parsed.is_err() {
            self.tlvs.bytes = &[];
        }
        Some(parsed)
    }
}

impl PartialEq for Causes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.tlvs.bytes == other.tlvs.bytes
    }
}

impl Eq for Causes<'_> {}

/// Cause code of Invalid Stream Identifier.
const INVALID_STREAM: u16 = 1;
/// Cause code of Missing Mandatory Parameter.
const MISSING_PARAMETERS: u16 = 2;
/// Cause code of Stale Cookie.
const STALE_COOKIE: u16 = 3;
/// Cause code of Out of Resource.
const OUT_OF_RESOURCE: u16 = 4;
/// Cause code of Unrecognized Chunk Type.
const UNRECOGNIZED_CHUNK: u16 = 6;
/// Cause code of Invalid Mandatory Parameter.
const INVALID_MANDATORY_PARAMETER: u16 = 7;
/// Cause code of Unrecognized Parameters.
const UNRECOGNIZED_PARAMETERS: u16 = 8;
/// Cause code of No User Data.
const NO_USER_DATA: u16 = 9;
/// Cause code of Cookie Received While Shutting Down.
const COOKIE_WHILE_SHUTTING_DOWN: u16 = 10;
/// Cause code of User-Initiated Abort.
const USER_INITIATED_ABORT: u16 = 12;
/// Cause code of Protocol Violation.
const PROTOCOL_VIOLATION: u16 = 13;

impl<'a> Cause<'a> {
    fn parse(tlv: Tlv<'a>) -> Result<Self, ParseError> {
        let value = tlv.value;
        Ok(match tlv.kind {
            INVALID_STREAM => {
                tlv.need("Invalid Stream Identifier", 2)?;
                Self::InvalidStream(u16_at(value, 0))
            }
            MISSING_PARAMETERS => {
                tlv.need("Missing Mandatory Parameter", 4)?;
                let listed = u32_at(value, 0) as usize;
                let rest = &value[4..];
                // The count repeats what the length says; the smaller of the two is used.
                let len = rest.len().min(listed.saturating_mul(2));
                Self::MissingParameters(List::new(&rest[..len]))
            }
            STALE_COOKIE => {
                tlv.need("Stale Cookie", 4)?;
                Self::StaleCookie(u32_at(value, 0))
            }
            OUT_OF_RESOURCE => Self::OutOfResource,
            UNRECOGNIZED_CHUNK => Self::UnrecognizedChunk(value),
            INVALID_MANDATORY_PARAMETER => Self::InvalidMandatoryParameter,
            UNRECOGNIZED_PARAMETERS => Self::UnrecognizedParameters(value),
            NO_USER_DATA => {
                tlv.need("No User Data", 4)?;
                Self::NoUserData(Tsn(u32_at(value, 0)))
            }
            COOKIE_WHILE_SHUTTING_DOWN => Self::CookieWhileShuttingDown,
            USER_INITIATED_ABORT => Self::UserInitiatedAbort(value),
            PROTOCOL_VIOLATION => Self::ProtocolViolation(value),
            code => Self::Unknown { code, value },
        })
    }

    /// Appends the cause to a chunk.
    pub(super) fn write(&self, body: &mut Body<'_>) {
        write_tlv(body, self.code(), |body| match *self {
            Self::InvalidStream(stream) => {
                body.put_u16(stream);
                body.put_u16(0);
            }
            Self::MissingParameters(kinds) => {
                body.put_u32(kinds.len() as u32);
                kinds.write(body);
            }
            Self::StaleCookie(microseconds) => body.put_u32(microseconds),
            Self::NoUserData(tsn) => body.put_u32(tsn.0),
            Self::OutOfResource
            | Self::InvalidMandatoryParameter
            | Self::CookieWhileShuttingDown => {}
            Self::UnrecognizedChunk(bytes)
            | Self::UnrecognizedParameters(bytes)
            | Self::UserInitiatedAbort(bytes)
            | Self::ProtocolViolation(bytes)
            | Self::Unknown { value: bytes, .. } => body.put(bytes),
        });
    }
}
