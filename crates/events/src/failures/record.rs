//! One failed connection, or several equal ones.

use std::net::IpAddr;
use std::time::Instant;

use glassline_runtime::{SessionId, SourcePrefix};

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// WebRTC, with its offer and answer over HTTP.
    WebRtc,
    /// RTSP, plain, within TLS or HTTP.
    Rtsp,
    /// MoQ over QUIC or WebTransport.
    Quic,
    /// HTTP, where the connection was refused before a request said what it is for.
    Http,
}

impl Protocol {
    pub(super) const ALL: [Self; 4] = [Self::WebRtc, Self::Rtsp, Self::Quic, Self::Http];

    /// Returns the name for the API and for labels of metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WebRtc => "webrtc",
            Self::Rtsp => "rtsp",
            Self::Quic => "quic",
            Self::Http => "http",
        }
    }
}

/// The role that a client wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientRole {
    /// A client that wanted to watch or to listen.
    Viewer,
    /// A client that wanted to publish a stream.
    Publisher,
    /// A voice that goes to the loudspeaker of a camera.
    Talker,
    /// A participant of a room.
    Participant,
    /// The client did not say, or wanted to be both.
    Client,
}

impl ClientRole {
    /// Returns the name for the API and the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Publisher => "publisher",
            Self::Talker => "talker",
            Self::Participant => "participant",
            Self::Client => "client",
        }
    }
}

/// The stage of a connection at which it failed, in the order in which a connection passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Credentials, or a web page that may not use the server.
    Rights,
    /// Limits of the server, or a server that cannot serve now.
    Server,
    /// There is no such stream, or it has no source.
    Stream,
    /// The request itself: malformed, or without a codec in common.
    Offer,
    /// ICE: the connectivity checks of client or server got no answer.
    Ice,
    /// The handshake of the encryption: DTLS, TLS or QUIC.
    Handshake,
    /// The connection stood, but no media came, or no messages could.
    Media,
    /// The connection served its client, until it broke or the server ended it.
    Connected,
}

impl Stage {
    pub(super) const ALL: [Self; 8] = [
        Self::Rights,
        Self::Server,
        Self::Stream,
        Self::Offer,
        Self::Ice,
        Self::Handshake,
        Self::Media,
        Self::Connected,
    ];

    /// Returns the name for the API and for labels of metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rights => "rights",
            Self::Server => "server",
            Self::Stream => "stream",
            Self::Offer => "offer",
            Self::Ice => "ice",
            Self::Handshake => "handshake",
            Self::Media => "media",
            Self::Connected => "connected",
        }
    }

    /// Returns the stage at which a request fails that is refused with an HTTP or RTSP status.
    pub const fn of_status(status: u16) -> Self {
        match status {
            401 | 403 | 421 => Self::Rights,
            429 | 453 | 500..=599 => Self::Server,
            404 | 409 | 410 => Self::Stream,
            _ => Self::Offer,
        }
    }
}

/// The origin of an entry, which decides with which others it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A connection of a client that has proven its address.
    Client,
    /// A connection of a client whose address may be forged.
    UnprovenClient,
    /// Sessions that the server ended, which may be all of a stream at once.
    Server,
}

/// The end of a session that an operator ended, in words, and what to do if that is not enough.
pub const DISMISSED: (&str, &str) = (
    "an operator ended the session",
    "GET /api/v1/audit has who ended it; to keep a client away, take its right to read or publish",
);

/// A connection that failed.
#[derive(Clone, Debug)]
pub struct ConnectionFailure {
    /// Name of the stream or file, or of the room.
    pub stream: String,
    /// Protocol by which the client came.
    pub protocol: Protocol,
    /// Role that the client wanted to have.
    pub role: ClientRole,
    /// Stage at which the connection failed.
    pub stage: Stage,
    /// Address of the client.
    pub from: IpAddr,
    /// The session that failed; `None` if there was none yet.
    pub session: Option<SessionId>,
    /// The observation of the server, as a sentence without a full stop.
    pub reason: String,
    /// The remedy, if the reason does not tell.
    pub remedy: Option<String>,
}

/// An entry of the list: equal failures of one source.
#[derive(Clone, Debug)]
pub struct FailureRecord {
    /// Number of the entry since the server started; it stays as further failures are counted.
    pub number: u64,
    /// Name of the stream or file, or of the room.
    pub stream: Box<str>,
    /// Protocol by which the client came.
    pub protocol: Protocol,
    /// Role that the client wanted to have.
    pub role: ClientRole,
    /// Stage at which the connection failed.
    pub stage: Stage,
    /// Where the connections came from; of sessions that the server ended, the latest.
    pub source: SourcePrefix,
    /// Side that ended or refused the connection.
    pub(super) origin: Origin,
    /// The reason as people read it.
    pub reason: Box<str>,
    /// Remedy for the operator or the client; `None` if nothing is known.
    pub remedy: Option<Box<str>>,
    /// The latest sessions that failed so, the latest last.
    pub sessions: Vec<SessionId>,
    /// Number of equal failures that this entry stands for.
    pub count: u64,
    /// When the first and the latest of them happened.
    pub first: Instant,
    /// Time of the latest of these failures.
    pub latest: Instant,
    /// When the log last had a line of them.
    pub logged: Instant,
}
