use std::net::IpAddr;
use std::time::Duration;

use glassline_media::{Ssrc, TrackIndex};

use super::{ClientCredentials, Closed};
use crate::message::Status;
use crate::mikey::Keys;
use crate::range::Range;
use crate::replay::Replay;
use crate::sdp::{Description, Presentation};
use crate::transport::Group;

/// Identifies the request that an [`Answer`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(pub(super) u32);

/// The access to a stream that a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The client wants to play the stream.
    Read,
    /// The client wants to publish the stream.
    Publish,
    /// The client wants to play what was recorded of the stream.
    Past,
}

/// Transport of a track, as the server chose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectedTransport {
    /// Interleaved in the connection, on these channels for RTP and RTCP.
    Interleaved {
        /// Channels of RTP and RTCP; no other track of the connection uses them.
        channels: (u8, u8),
    },
    /// By UDP, to or from the client's ports for RTP and RTCP.
    Udp {
        /// The client's ports of RTP and RTCP.
        client_ports: (u16, u16),
        /// Address of the connection's peer, whatever destination the client asked for.
        destination: IpAddr,
    },
    /// To a multicast group.
    Multicast,
}

/// Something that happened on a connection. An event with an `id` is a request that waits for
/// [`Connection::answer`]; one waits at a time.
///
/// [`Connection::answer`]: super::Connection::answer
#[derive(Debug)]
pub enum Event {
    /// Asks whether the client may access a stream.
    ///
    /// The answer is [`Answer::Authorized`], or a refusal: [`Refusal::Unauthorized`] asks for
    /// credentials, [`Refusal::Forbidden`] does not.
    Authorize {
        /// Identifier of the request, which the answer repeats.
        id: RequestId,
        /// Whether the client wants to play or to publish.
        access: Access,
        /// Path of the stream: percent-decoded, without slashes around it.
        path: String,
        /// Query of the URL behind `?`, as received.
        query: Option<String>,
        /// The client's credentials; `None` if it sent none yet. Nonce, nonce count and URI of
        /// digest credentials are checked already.
        credentials: Option<ClientCredentials>,
    },
    /// Asks for the description of a stream: [`Answer::Described`].
    Describe {
        /// Identifier of the request, which the answer repeats.
        id: RequestId,
        /// Path of the stream.
        path: String,
        /// Query of the URL behind `?`.
        query: Option<String>,
        /// Whether the client wants what was recorded of the stream ([`replay::FEATURE`]).
        ///
        /// [`replay::FEATURE`]: crate::replay::FEATURE
        of_past: bool,
    },
    /// Asks the owner to prepare to send a track, or to receive one that was announced:
    /// [`Answer::SetUp`].
    ///
    /// A second SETUP of a track replaces the first, whose resources are freed when the owner
    /// grants it.
    SetUp {
        /// Identifier of the request, which the answer repeats.
        id: RequestId,
        /// Path of the stream.
        path: String,
        /// Query of the URL behind `?`.
        query: Option<String>,
        /// Index of the track; `None` where the URL names the whole stream. This is valid for a
        /// stream of one track; for others answer [`Refusal::AggregateNotAllowed`].
        track: Option<TrackIndex>,
        /// The transport, chosen among those that the client offers.
        transport: SelectedTransport,
        /// Whether the client plays or publishes.
        access: Access,
        /// Whether the client wants what was recorded of the stream.
        of_past: bool,
        /// The client's keys if the track uses SRTP: they protect its RTCP, or what it
        /// publishes. `None` is plain RTP.
        srtp: Option<Box<Srtp>>,
    },
    /// Asks the owner to send the tracks that are set up: [`Answer::Playing`]. While playing,
    /// this is a seek.
    Play {
        /// Identifier of the request, which the answer repeats.
        id: RequestId,
        /// The range to play; `None` continues from the current position. `smpte` ranges are
        /// converted to `npt`.
        range: Option<Range>,
        /// Playing speed of the media: 2 is twice as fast, −1 backwards. Finite, not 0.
        scale: Option<f64>,
        /// Speed of the delivery. Finite, above 0.
        speed: Option<f64>,
        /// Further wishes for a recording; `None` for a client that knows of none.
        replay: Option<Replay>,
    },
    /// Asks the owner to stop sending for now: [`Answer::Paused`].
    Pause {
        /// Identifier of the request, which the answer repeats.
        id: RequestId,
    },
    /// Asks whether the client may publish this stream: [`Answer::Announced`]. SETUP of each
    /// track and RECORD follow.
    Announce {
        /// Identifier of the request, which the answer repeats.
        id: RequestId,
        /// Path of the stream.
        path: String,
        /// Query of the URL behind `?`.
        query: Option<String>,
        /// The description, with absolute control URLs.
        description: Box<Description>,
    },
    /// The client begins to send the tracks that it set up: [`Answer::Recording`].
    Record {
        /// Identifier of the request, which the answer repeats.
        id: RequestId,
    },
    /// The client ends the session or one track: stop sending and free its resources.
    ///
    /// [`Connection::transmit`] already holds the response. An interleaved frame that is partly
    /// sent must be completed first.
    ///
    /// [`Connection::transmit`]: super::Connection::transmit
    TearDown {
        /// The track to end; `None` ends all tracks and the session.
        track: Option<TrackIndex>,
    },
    /// The connection is the direction from server to client of a tunnel.
    ///
    /// Store the connection by this cookie, and pass it the bytes that the tunnel's other
    /// connection receives ([`Connection::handle_tunnel_data`]).
    ///
    /// [`Connection::handle_tunnel_data`]: super::Connection::handle_tunnel_data
    TunnelGet {
        /// The client's cookie, at most 256 bytes.
        cookie: String,
    },
    /// The connection is the direction from client to server of a tunnel.
    ///
    /// `rest` and all bytes that follow belong to the connection with this cookie and the same
    /// address. A later POST with the same cookie replaces this one. Nothing more needs to be
    /// done with this connection's state. If no such connection exists, call
    /// [`Connection::refuse_tunnel`].
    ///
    /// [`Connection::refuse_tunnel`]: super::Connection::refuse_tunnel
    TunnelPost {
        /// The client's cookie, at most 256 bytes.
        cookie: String,
        /// The bytes behind the head of the request.
        rest: Vec<u8>,
    },
    /// The connection and its session have ended: send what [`Connection::transmit`] holds, and
    /// close. This is the last event.
    ///
    /// [`Connection::transmit`]: super::Connection::transmit
    Closed(Closed),
}

/// SRTP for one track.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Srtp {
    /// The client's keys from `KeyMgmt`, if it sent any.
    pub keys: Option<Keys>,
}

/// The owner's answer to an event with an `id`.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Answers [`Event::Authorize`]: the client may.
    Authorized {
        /// Name of the user, if one was required.
        user: Option<String>,
    },
    /// Answers [`Event::Describe`] with the stream's description.
    Described(Box<Presentation>),
    /// Answers [`Event::Describe`]: another server has the stream (302, RFC 2326 §11.3.3). Players
    /// connect to its URL.
    Moved {
        /// The URL to ask for instead, in visible ASCII.
        location: String,
    },
    /// The answer to [`Event::SetUp`].
    SetUp {
        /// SSRC of the packets to come, if known.
        ssrc: Option<Ssrc>,
        /// The server's ports of RTP and RTCP, for UDP.
        server_ports: Option<(u16, u16)>,
        /// The multicast group, for multicast.
        multicast: Option<Group>,
        /// The keys that protect the server's packets, for SRTP: a MIKEY message
        /// ([`Keys::to_base64`]), either that of the description or a newer one.
        keys: Option<String>,
    },
    /// The answer to [`Event::Play`].
    Playing {
        /// The range that is played.
        range: Option<Range>,
        /// The scale that the media is played with, where the client asked for one.
        scale: Option<f64>,
        /// The speed of the delivery, where the client asked for one.
        speed: Option<f64>,
        /// Where each track begins.
        starts: Vec<Start>,
    },
    /// The answer to [`Event::Pause`].
    Paused {
        /// The position at which playing stopped.
        range: Option<Range>,
    },
    /// Answers [`Event::Announce`]: the client may publish.
    Announced,
    /// Answers [`Event::Record`]: the owner receives the tracks.
    Recording,
    /// Refuses any of the requests.
    Refused(Refusal),
    /// Refuses any of the requests with a sentence in place of the status' usual phrase.
    Explained {
        /// The refusal, which has the status.
        refusal: Refusal,
        /// The fault and its remedy. More than the first 300 characters are not told.
        why: String,
    },
}

/// Where a track begins, for `RTP-Info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Index of the track.
    pub track: TrackIndex,
    /// RTP sequence number of the first packet; `None` if not known yet.
    pub sequence: Option<u16>,
    /// RTP timestamp that corresponds to the start of the range.
    pub timestamp: Option<u32>,
}

/// The reason why the owner refuses a request. The connection stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 401: credentials are missing or wrong; the response carries fresh challenges.
    Unauthorized,
    /// 403: this user may not access the stream.
    Forbidden,
    /// 404: the stream or track does not exist.
    NotFound,
    /// 409: another client publishes the stream.
    Busy,
    /// 410: the tracks that were described to the client are gone; it has to ask for the
    /// description again.
    Gone,
    /// 415: the description holds media that the server cannot receive, or the stream is a file
    /// that cannot be sent.
    UnsupportedMedia,
    /// 453: the server has no capacity for one more client.
    NotEnoughBandwidth,
    /// 455: the method is not valid in this state, such as PAUSE of a live stream.
    NotInThisState,
    /// 457: the range lies outside of the presentation.
    InvalidRange,
    /// 459: the request must name a track.
    AggregateNotAllowed,
    /// 461: the transport is not available for this track.
    UnsupportedTransport,
    /// 463: the client asks for SRTP but sends no usable keys.
    NoKeys,
    /// 500: the server failed.
    Internal,
    /// 503: the server cannot do it at the moment.
    Unavailable {
        /// When the client may try again, in whole seconds.
        retry_after: Option<Duration>,
    },
}

impl Refusal {
    /// Returns the status of the response.
    pub const fn status(self) -> Status {
        match self {
            Self::Unauthorized => Status::UNAUTHORIZED,
            Self::Forbidden => Status::FORBIDDEN,
            Self::NotFound => Status::NOT_FOUND,
            Self::Busy => Status::CONFLICT,
            Self::Gone => Status::GONE,
            Self::UnsupportedMedia => Status::UNSUPPORTED_MEDIA_TYPE,
            Self::NotEnoughBandwidth => Status::NOT_ENOUGH_BANDWIDTH,
            Self::NotInThisState => Status::METHOD_NOT_VALID_IN_THIS_STATE,
            Self::InvalidRange => Status::INVALID_RANGE,
            Self::AggregateNotAllowed => Status::AGGREGATE_NOT_ALLOWED,
            Self::UnsupportedTransport => Status::UNSUPPORTED_TRANSPORT,
            Self::NoKeys => Status::KEY_MANAGEMENT_FAILURE,
            Self::Internal => Status::INTERNAL_SERVER_ERROR,
            Self::Unavailable { .. } => Status::SERVICE_UNAVAILABLE,
        }
    }
}
