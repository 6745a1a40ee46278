//! Error causes of ABORT and ERROR (RFC 9260 §3.3.10).

use glassline_media::fields::{u16_at, u32_at};

use super::list::List;
use super::tlv::{Tlv, Tlvs, write_tlv};
use crate::ParseError;
use crate::packet::builder::Body;
use crate::sequence::Tsn;

/// One cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause<'a> {
    /// A message came on a stream that does not exist (§3.3.10.1).
    InvalidStream(u16),
    /// An INIT or INIT ACK lacked something (§3.3.10.2).
    MissingParameters(List<'a, u16>),
    /// The cookie came so many microseconds too late (§3.3.10.3).
    StaleCookie(u32),
    /// No room for another association (§3.3.10.4).
    OutOfResource,
    /// A chunk of a type that the sender does not know, whole (§3.3.10.6).
    UnrecognizedChunk(&'a [u8]),
    /// A mandatory field of an INIT or INIT ACK had a value that is ruled out (§3.3.10.7).
    InvalidMandatoryParameter,
    /// Parameters of an INIT ACK that the sender does not know, whole (§3.3.10.8).
    UnrecognizedParameters(&'a [u8]),
    /// A DATA chunk of this number was empty (§3.3.10.9).
    NoUserData(Tsn),
    /// A cookie came while the association was being shut down (§3.3.10.10).
    CookieWhileShuttingDown,
    /// The application ended it; why, in its own words (§3.3.10.12).
    UserInitiatedAbort(&'a [u8]),
    /// Something else was against the rules; what, in words (§3.3.10.13).
    ProtocolViolation(&'a [u8]),
    /// Any other.
    Unknown {
        /// Its code.
        code: u16,
        /// What it says.
        value: &'a [u8],
    },
}

impl Cause<'_> {
    /// Its code, for reports.
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

/// Iterator over the causes of a chunk; ends after one that is malformed, which is
/// an error.
#[derive(Clone, Copy, Debug)]
pub struct Causes<'a> {
    tlvs: Tlvs<'a>,
}

impl<'a> Causes<'a> {
    /// None at all.
    pub const NONE: Self = Self {
        tlvs: Tlvs {
            bytes: &[],
            offset: 0,
        },
    };

    pub(super) fn new(bytes: &'a [u8], offset: usize) -> Self {
        Self {
            tlvs: Tlvs { bytes, offset },
        }
    }

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

const INVALID_STREAM: u16 = 1;
const MISSING_PARAMETERS: u16 = 2;
const STALE_COOKIE: u16 = 3;
const OUT_OF_RESOURCE: u16 = 4;
const UNRECOGNIZED_CHUNK: u16 = 6;
const INVALID_MANDATORY_PARAMETER: u16 = 7;
const UNRECOGNIZED_PARAMETERS: u16 = 8;
const NO_USER_DATA: u16 = 9;
const COOKIE_WHILE_SHUTTING_DOWN: u16 = 10;
const USER_INITIATED_ABORT: u16 = 12;
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
                // The count only repeats what the length says; the shorter is believed.
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
