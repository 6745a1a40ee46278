use std::net::IpAddr;
use std::time::Duration;

use glassline_media::Ssrc;

use super::{Closed, Presented};
use crate::message::Status;
use crate::mikey::Keys;
use crate::range::Range;
use crate::sdp::{Description, Presentation};
use crate::transport::Group;

/// Names the request that an [`Answer`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(pub(super) u32);

/// What a client wants to do with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Watch it.
    Read,
    /// Be its source.
    Publish,
}

/// How a track goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Within the connection, on these channels for RTP and RTCP.
    Interleaved {
        /// Never those of another track.
        channels: (u8, u8),
    },
    /// By UDP, to or from the client's ports for RTP and RTCP.
    Udp {
        /// Of the client.
        client_ports: (u16, u16),
        /// The connection's peer, whatever the client asked for.
        destination: IpAddr,
    },
    /// To a group.
    Multicast,
}

/// What happened. Those with an `id` wait for [`Connection::answer`], and one
/// waits at a time.
///
/// [`Connection::answer`]: super::Connection::answer
#[derive(Debug)]
pub enum Event {
    /// May this client do that? [`Answer::Authorised`], or refuse as
    /// [`Refusal::Unauthorised`] (asks for credentials) or [`Refusal::Forbidden`].
    Authorise {
        /// For the answer.
        id: RequestId,
        /// To watch or to publish.
        access: Access,
        /// The stream: decoded, without slashes around it.
        path: String,
        /// What stands behind `?`, as it came.
        query: Option<String>,
        /// `None` if the client showed nothing yet. Age, count and URI of a digest
        /// are checked.
        credentials: Option<Presented>,
    },
    /// What is in it? [`Answer::Described`].
    Describe {
        /// For the answer.
        id: RequestId,
        /// The stream.
        path: String,
        /// What stands behind `?`.
        query: Option<String>,
    },
    /// Prepare to send a track, or to take one where it was announced:
    /// [`Answer::SetUp`]. A second one of the same track takes the place of the
    /// first, whose resources go when this is granted.
    SetUp {
        /// For the answer.
        id: RequestId,
        /// The stream.
        path: String,
        /// What stands behind `?`.
        query: Option<String>,
        /// Its index; `None` where the URL names the stream as a whole, which is
        /// good for a stream of one track, else [`Refusal::AggregateNotAllowed`].
        track: Option<usize>,
        /// How it goes, as chosen from what the client offers.
        way: Way,
        /// Watch or publish.
        access: Access,
        /// As SRTP, and what the client seals its packets with if it says so: its
        /// RTCP, or what it publishes. `None` is plain RTP.
        srtp: Option<Box<Srtp>>,
    },
    /// Send what is set up: [`Answer::Playing`]. While playing, it is a seek.
    Play {
        /// For the answer.
        id: RequestId,
        /// From where to where; `None` is on from where it stands. `smpte` comes
        /// as `npt`.
        range: Option<Range>,
        /// Of time: 2 is twice as fast, −1 backwards. Finite, not 0.
        scale: Option<f64>,
        /// Of delivery. Finite, over 0.
        speed: Option<f64>,
    },
    /// Send nothing more for now: [`Answer::Paused`].
    Pause {
        /// For the answer.
        id: RequestId,
    },
    /// The client wants to publish this: [`Answer::Announced`]. Track for track it
    /// is set up and recorded next.
    Announce {
        /// For the answer.
        id: RequestId,
        /// The stream.
        path: String,
        /// What stands behind `?`.
        query: Option<String>,
        /// Its controls absolute.
        description: Box<Description>,
    },
    /// The client begins to send what it set up: [`Answer::Recording`].
    Record {
        /// For the answer.
        id: RequestId,
    },
    /// Stop, and forget. The response is written behind what
    /// [`Connection::transmit`] has; of a frame on its way the rest goes first.
    ///
    /// [`Connection::transmit`]: super::Connection::transmit
    TearDown {
        /// One track; `None` for all, the end of the session.
        track: Option<usize>,
    },
    /// The connection is the way from server to client of a tunnel: keep it by this
    /// cookie and give it what the other connection brings
    /// ([`Connection::handle_tunnel_data`]).
    ///
    /// [`Connection::handle_tunnel_data`]: super::Connection::handle_tunnel_data
    TunnelGet {
        /// The client's, of at most 256 bytes.
        cookie: String,
    },
    /// The connection is the way from client to server of a tunnel: `rest` and all
    /// bytes that follow are for the connection of this cookie and the same
    /// address; a later POST with the same cookie takes its place. This connection's
    /// state has no more to do. If there is no other, [`Connection::refuse_tunnel`].
    ///
    /// [`Connection::refuse_tunnel`]: super::Connection::refuse_tunnel
    TunnelPost {
        /// The client's, of at most 256 bytes.
        cookie: String,
        /// What came behind the head.
        rest: Vec<u8>,
    },
    /// It is over, and so is the session: send what [`Connection::transmit`] has
    /// and close. The last event.
    ///
    /// [`Connection::transmit`]: super::Connection::transmit
    Closed(Closed),
}

/// A track that is to be sealed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Srtp {
    /// The client's own, of `KeyMgmt`.
    pub keys: Option<Keys>,
}

/// What the owner says to an event with an `id`.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Event::Authorise`].
    Authorised {
        /// By name, if a name was needed.
        user: Option<String>,
    },
    /// To [`Event::Describe`].
    Described(Box<Presentation>),
    /// To [`Event::SetUp`].
    SetUp {
        /// Of what will be sent, if known.
        ssrc: Option<Ssrc>,
        /// Our ports of RTP and RTCP, for UDP.
        server_ports: Option<(u16, u16)>,
        /// The group, for multicast.
        multicast: Option<Group>,
        /// What we seal the track's packets with, a MIKEY message
        /// ([`Keys::to_base64`]), for SRTP: the description's, or newer.
        keys: Option<String>,
    },
    /// To [`Event::Play`].
    Playing {
        /// What is played.
        range: Option<Range>,
        /// The scale that it is played with, where one was asked for.
        scale: Option<f64>,
        /// The speed that it is sent with, where one was asked for.
        speed: Option<f64>,
        /// Where the tracks begin.
        starts: Vec<Start>,
    },
    /// To [`Event::Pause`].
    Paused {
        /// Where it stands.
        range: Option<Range>,
    },
    /// To [`Event::Announce`].
    Announced,
    /// To [`Event::Record`].
    Recording,
    /// To any of them.
    Refused(Refusal),
}

/// Where a track begins, for `RTP-Info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its index.
    pub track: usize,
    /// Of its first packet; `None` if not known yet.
    pub sequence: Option<u16>,
    /// That belongs to the start of the range.
    pub timestamp: Option<u32>,
}

/// Why something is not done. The connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 401 with fresh challenges.
    Unauthorised,
    /// 403: not this user, whoever it is.
    Forbidden,
    /// 404: no such stream or track.
    NotFound,
    /// 409: somebody else publishes it.
    Busy,
    /// 415: a description of something that cannot be taken.
    UnsupportedMedia,
    /// 453: no room for one more.
    NotEnoughBandwidth,
    /// 455: such as a pause of what cannot pause.
    NotInThisState,
    /// 457: outside of what there is.
    InvalidRange,
    /// 459: name a track.
    AggregateNotAllowed,
    /// 461: not this way.
    UnsupportedTransport,
    /// 463: SRTP, and not what it is sealed with.
    NoKeys,
    /// 500: our fault.
    Internal,
    /// 503: later.
    Unavailable {
        /// When to try again, in whole seconds.
        retry_after: Option<Duration>,
    },
}

impl Refusal {
    /// The response's.
    pub const fn status(self) -> Status {
        match self {
            Self::Unauthorised => Status::UNAUTHORIZED,
            Self::Forbidden => Status::FORBIDDEN,
            Self::NotFound => Status::NOT_FOUND,
            Self::Busy => Status::CONFLICT,
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
