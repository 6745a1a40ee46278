//! Parameters of INIT, INIT ACK and RE-CONFIG (RFC 9260 §3.3.2.1, §3.3.3.1; RFC 3758
//! §3.1, RFC 4820 §4, RFC 5061 §4.2.7, RFC 6525 §4, RFC 9653 §4).

use glassline_media::fields::{u16_at, u32_at};

use super::kind;
use super::list::List;
use super::tlv::{Tlv, Tlvs, write_tlv};
use super::unknown::Unrecognized;
use crate::ParseError;
use crate::packet::builder::Body;
use crate::sequence::Tsn;

/// The error detection method identifier for DTLS as the lower layer (RFC 9653 §4).
pub const ERROR_DETECTION_DTLS: u32 = 1;

/// One parameter of an INIT, INIT ACK or RE-CONFIG chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parameter<'a> {
    /// The state cookie, which a COOKIE ECHO must return (RFC 9260 §3.3.3.1).
    StateCookie(&'a [u8]),
    /// A parameter that the sender did not know, whole, in an INIT ACK (RFC 9260 §3.3.3.1).
    Unrecognized(&'a [u8]),
    /// The sender would like its cookie to live so many ms longer (RFC 9260 §3.3.2.1).
    CookiePreservative(u32),
    /// An address, a host name, or the supported address types. They do not matter where
    /// packets travel over DTLS (RFC 8261 §6.1), so all are ignored.
    Addressing,
    /// The sender supports partial reliability: messages may be abandoned (RFC 3758 §3.1).
    ForwardTsnSupported,
    /// The chunk types that the sender knows beyond RFC 9260 (RFC 5061 §4.2.7).
    SupportedExtensions(&'a [u8]),
    /// The sender accepts a checksum of zero where this method detects errors; see
    /// [`ERROR_DETECTION_DTLS`] (RFC 9653 §4).
    ZeroChecksumAcceptable(u32),
    /// Padding of so many bytes (RFC 4820 §4).
    Padding(usize),
    /// Outgoing SSN Reset Request (RFC 6525 §4.1).
    OutgoingReset(OutgoingReset<'a>),
    /// Incoming SSN Reset Request (RFC 6525 §4.2).
    IncomingReset(IncomingReset<'a>),
    /// SSN/TSN Reset Request with this sequence number: all streams and TSNs shall be reset
    /// (RFC 6525 §4.3).
    TsnReset(u32),
    /// Re-configuration Response (RFC 6525 §4.4).
    Response(Response),
    /// Add Outgoing Streams Request (RFC 6525 §4.5).
    AddOutgoingStreams(AddStreams),
    /// Add Incoming Streams Request (RFC 6525 §4.6).
    AddIncomingStreams(AddStreams),
    /// A parameter of a type that is not known here.
    Unknown(UnknownParameter<'a>),
}

/// Outgoing SSN Reset Request: the sender has reset streams that it sends on (RFC 6525
/// §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutgoingReset<'a> {
    /// Sequence number of this request.
    pub request: u32,
    /// Sequence number of the peer's request that this answers; if it answers none, one
    /// less than the next expected number.
    pub response: u32,
    /// Last TSN that was sent before the reset.
    pub last_tsn: Tsn,
    /// The streams to reset; an empty list means all of them.
    pub streams: StreamList<'a>,
}

/// Incoming SSN Reset Request: the sender asks its peer to reset streams that the peer
/// sends on (RFC 6525 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncomingReset<'a> {
    /// Sequence number of this request.
    pub request: u32,
    /// The streams to reset; an empty list means all of them.
    pub streams: StreamList<'a>,
}

/// A list of stream identifiers, from a packet or to be written.
#[derive(Clone, Copy, Debug)]
pub enum StreamList<'a> {
    /// Identifiers that lie in a received packet.
    Wire(List<'a, u16>),
    /// Identifiers of our own, to be written.
    Own(&'a [u16]),
}

impl StreamList<'_> {
    /// Iterates over the identifiers in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        let (wire, own): (_, &[u16]) = match *self {
            Self::Wire(list) => (list, &[]),
            Self::Own(streams) => (List::EMPTY, streams),
        };
        wire.chain(own.iter().copied())
    }

    /// Returns the number of identifiers.
    pub fn len(&self) -> usize {
        match self {
            Self::Wire(list) => list.len(),
            Self::Own(streams) => streams.len(),
        }
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl PartialEq for StreamList<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for StreamList<'_> {}

/// Re-configuration Response: the result of a request (RFC 6525 §4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// Sequence number of the request that this answers.
    pub response: u32,
    /// Result of the request.
    pub result: ReConfigResult,
    /// After an SSN/TSN reset: the next TSN of the sender of this response and of its
    /// receiver.
    pub next_tsns: Option<(Tsn, Tsn)>,
}

/// Result code of a reconfiguration request (RFC 6525 §4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReConfigResult(pub u32);

impl ReConfigResult {
    /// Success, and there was nothing to do.
    pub const NOTHING_TO_DO: Self = Self(0);
    /// Success: the request was performed.
    pub const PERFORMED: Self = Self(1);
    /// The request is denied.
    pub const DENIED: Self = Self(2);
    /// Error: a stream identifier is wrong.
    pub const WRONG_STREAM: Self = Self(3);
    /// Error: another request is already in progress.
    pub const ALREADY_IN_PROGRESS: Self = Self(4);
    /// Error: the request has an unexpected sequence number.
    pub const BAD_NUMBER: Self = Self(5);
    /// The request is in progress; the requester shall ask again.
    pub const IN_PROGRESS: Self = Self(6);
}

/// Add Outgoing or Incoming Streams Request (RFC 6525 §4.5, §4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddStreams {
    /// Sequence number of this request.
    pub request: u32,
    /// Number of streams to add.
    pub count: u16,
}

/// A parameter of a type that is not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownParameter<'a> {
    /// Parameter type as on the wire.
    pub kind: u16,
    /// Value of the parameter, without type and length.
    pub value: &'a [u8],
    /// The whole parameter with type and length, as an error report must contain it.
    pub whole: &'a [u8],
}

impl UnknownParameter<'_> {
    /// Returns what the two highest bits of the type ask of a receiver that does not know
    /// it.
    pub fn action(&self) -> Unrecognized {
        Unrecognized::of((self.kind >> 8) as u8)
    }
}

/// Iterator over the parameters of a chunk.
///
/// It ends with the chunk, after a malformed parameter (an error), and after a parameter of
/// unknown type whose high bits say to stop (RFC 9260 §3.2.1), which is yielded too.
#[derive(Clone, Copy, Debug)]
pub struct Parameters<'a> {
    tlvs: Tlvs<'a>,
}

impl<'a> Parameters<'a> {
    /// An empty list of parameters.
    pub const NONE: Self = Self {
        tlvs: Tlvs {
            bytes: &[],
            offset: 0,
        },
    };

    /// Returns the parameters in `bytes`. `offset`: position of `bytes` in the packet.
    pub(super) fn new(bytes: &'a [u8], offset: usize) -> Self {
        Self {
            tlvs: Tlvs { bytes, offset },
        }
    }

    /// Copies the parameters into a chunk.
    pub(super) fn write(&self, body: &mut Body<'_>) {
        body.put(self.tlvs.bytes);
    }

    /// Returns the state cookie, if there is one before anything malformed.
    pub fn state_cookie(self) -> Option<&'a [u8]> {
        self.flatten().find_map(|parameter| match parameter {
            Parameter::StateCookie(cookie) => Some(cookie),
            _ => None,
        })
    }

    /// Returns the extensions that these parameters of an INIT or INIT ACK announce.
    pub fn extensions(self) -> Extensions {
        let mut extensions = Extensions::default();
        for parameter in self.flatten() {
            match parameter {
                Parameter::ForwardTsnSupported => extensions.forward_tsn = true,
                Parameter::ZeroChecksumAcceptable(method) => {
                    extensions.zero_checksum |= method == ERROR_DETECTION_DTLS;
                }
                Parameter::SupportedExtensions(kinds) => {
                    extensions.forward_tsn |= kinds.contains(&kind::FORWARD_TSN);
                    extensions.re_config |= kinds.contains(&kind::RE_CONFIG);
                    // An end that interleaves must know I-FORWARD-TSN as well if it knows
                    // FORWARD TSN (RFC 8260 §2.2.1), so one type is enough.
                    extensions.interleaving |= kinds.contains(&kind::I_DATA);
                }
                _ => {}
            }
        }
        extensions
    }
}

/// Protocol extensions that an end supports beyond RFC 9260.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Partial reliability: messages may be abandoned (RFC 3758).
    pub forward_tsn: bool,
    /// Stream reconfiguration (RFC 6525).
    pub re_config: bool,
    /// Message interleaving (RFC 8260).
    pub interleaving: bool,
    /// Packets without a checksum over DTLS are accepted (RFC 9653).
    pub zero_checksum: bool,
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Result<Parameter<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let tlv = self.tlvs.next("parameter")?;
        let parsed = tlv.and_then(Parameter::parse);
        let ends = match &parsed {
            Ok(Parameter::Unknown(unknown)) => unknown.action().stop,
            Ok(_) => false,
            Err(_) => true,
        };
        if ends {
            self.tlvs.bytes = &[];
        }
        Some(parsed)
    }
}

impl PartialEq for Parameters<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.tlvs.bytes == other.tlvs.bytes
    }
}

impl Eq for Parameters<'_> {}

/// Parameter type of Heartbeat Info (RFC 9260 §3.3.5).
pub(super) const HEARTBEAT_INFO: u16 = 1;
const IPV4_ADDRESS: u16 = 5;
const IPV6_ADDRESS: u16 = 6;
const STATE_COOKIE: u16 = 7;
const UNRECOGNIZED: u16 = 8;
const COOKIE_PRESERVATIVE: u16 = 9;
const HOST_NAME: u16 = 11;
const SUPPORTED_ADDRESS_TYPES: u16 = 12;
const OUTGOING_RESET: u16 = 13;
const INCOMING_RESET: u16 = 14;
const TSN_RESET: u16 = 15;
const RESPONSE: u16 = 16;
const ADD_OUTGOING_STREAMS: u16 = 17;
const ADD_INCOMING_STREAMS: u16 = 18;
const ZERO_CHECKSUM_ACCEPTABLE: u16 = 0x8001;
const PADDING: u16 = 0x8005;
const SUPPORTED_EXTENSIONS: u16 = 0x8008;
const FORWARD_TSN_SUPPORTED: u16 = 0xc000;

impl<'a> Parameter<'a> {
    fn parse(tlv: Tlv<'a>) -> Result<Self, ParseError> {
        let value = tlv.value;
        Ok(match tlv.kind {
            STATE_COOKIE => Self::StateCookie(value),
            UNRECOGNIZED => Self::Unrecognized(value),
            COOKIE_PRESERVATIVE => {
                tlv.need("Cookie Preservative", 4)?;
                Self::CookiePreservative(u32_at(value, 0))
            }
            IPV4_ADDRESS | IPV6_ADDRESS | HOST_NAME | SUPPORTED_ADDRESS_TYPES => Self::Addressing,
            FORWARD_TSN_SUPPORTED => Self::ForwardTsnSupported,
            SUPPORTED_EXTENSIONS => Self::SupportedExtensions(value),
            ZERO_CHECKSUM_ACCEPTABLE => {
                tlv.need("Zero Checksum Acceptable", 4)?;
                Self::ZeroChecksumAcceptable(u32_at(value, 0))
            }
            PADDING => Self::Padding(value.len()),
            OUTGOING_RESET => {
                tlv.need("Outgoing SSN Reset Request", 12)?;
                Self::OutgoingReset(OutgoingReset {
                    request: u32_at(value, 0),
                    response: u32_at(value, 4),
                    last_tsn: Tsn(u32_at(value, 8)),
                    streams: StreamList::Wire(List::new(&value[12..])),
                })
            }
            INCOMING_RESET => {
                tlv.need("Incoming SSN Reset Request", 4)?;
                Self::IncomingReset(IncomingReset {
                    request: u32_at(value, 0),
                    streams: StreamList::Wire(List::new(&value[4..])),
                })
            }
            TSN_RESET => {
                tlv.need("SSN/TSN Reset Request", 4)?;
                Self::TsnReset(u32_at(value, 0))
            }
            RESPONSE => Self::Response(Response::parse(tlv)?),
            ADD_OUTGOING_STREAMS => Self::AddOutgoingStreams(AddStreams::parse(tlv)?),
            ADD_INCOMING_STREAMS => Self::AddIncomingStreams(AddStreams::parse(tlv)?),
            kind => Self::Unknown(UnknownParameter {
                kind,
                value,
                whole: tlv.whole,
            }),
        })
    }

    /// Appends the parameter to a chunk.
    pub(super) fn write(&self, body: &mut Body<'_>) {
        match self {
            Self::StateCookie(cookie) => write_tlv(body, STATE_COOKIE, |body| body.put(cookie)),
            Self::Unrecognized(whole) => write_tlv(body, UNRECOGNIZED, |body| body.put(whole)),
            Self::CookiePreservative(increment) => {
                write_tlv(body, COOKIE_PRESERVATIVE, |body| body.put_u32(*increment));
            }
            // The variant carries no value: an empty list says that no address type is
            // supported.
            Self::Addressing => write_tlv(body, SUPPORTED_ADDRESS_TYPES, |_| {}),
            Self::ForwardTsnSupported => write_tlv(body, FORWARD_TSN_SUPPORTED, |_| {}),
            Self::SupportedExtensions(kinds) => {
                write_tlv(body, SUPPORTED_EXTENSIONS, |body| body.put(kinds));
            }
            Self::ZeroChecksumAcceptable(method) => {
                write_tlv(body, ZERO_CHECKSUM_ACCEPTABLE, |body| body.put_u32(*method));
            }
            Self::Padding(len) => write_tlv(body, PADDING, |body| body.put_zeros(*len)),
            Self::OutgoingReset(reset) => write_tlv(body, OUTGOING_RESET, |body| {
                body.put_u32(reset.request);
                body.put_u32(reset.response);
                body.put_u32(reset.last_tsn.0);
                reset.streams.iter().for_each(|stream| body.put_u16(stream));
            }),
            Self::IncomingReset(reset) => write_tlv(body, INCOMING_RESET, |body| {
                body.put_u32(reset.request);
                reset.streams.iter().for_each(|stream| body.put_u16(stream));
            }),
            Self::TsnReset(request) => write_tlv(body, TSN_RESET, |body| body.put_u32(*request)),
            Self::Response(response) => response.write(body),
            Self::AddOutgoingStreams(add) => add.write(ADD_OUTGOING_STREAMS, body),
            Self::AddIncomingStreams(add) => add.write(ADD_INCOMING_STREAMS, body),
            Self::Unknown(unknown) => {
                write_tlv(body, unknown.kind, |body| body.put(unknown.value));
            }
        }
    }
}

impl Response {
    fn parse(tlv: Tlv<'_>) -> Result<Self, ParseError> {
        tlv.need("Re-configuration Response", 8)?;
        let at = |offset| u32_at(tlv.value, offset);
        let next_tsns = (tlv.value.len() >= 16).then(|| (Tsn(at(8)), Tsn(at(12))));
        Ok(Self {
            response: at(0),
            result: ReConfigResult(at(4)),
            next_tsns,
        })
    }

    fn write(&self, body: &mut Body<'_>) {
        write_tlv(body, RESPONSE, |body| {
            body.put_u32(self.response);
            body.put_u32(self.result.0);
            if let Some((sender, receiver)) = self.next_tsns {
                body.put_u32(sender.0);
                body.put_u32(receiver.0);
            }
        });
    }
}

impl AddStreams {
    fn parse(tlv: Tlv<'_>) -> Result<Self, ParseError> {
        tlv.need("Add Streams Request", 8)?;
        Ok(Self {
            request: u32_at(tlv.value, 0),
            count: u16_at(tlv.value, 4),
        })
    }

    fn write(&self, kind: u16, body: &mut Body<'_>) {
        write_tlv(body, kind, |body| {
            body.put_u32(self.request);
            body.put_u16(self.count);
            body.put_u16(0);
        });
    }
}
