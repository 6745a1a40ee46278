use std::time::Duration;

use glassline_media::TrackIndex;
use thiserror::Error;

use crate::message::{Method, Status};
use crate::{interleaved, sdp};

/// The reason why an RTSP client's session has ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Closed {
    /// This end left, by `Client::leave`.
    #[error("the client left")]
    Left,
    /// The server ended the session by TEARDOWN.
    #[error("closed by the server (TEARDOWN)")]
    ByServer,
    /// The server closed the connection, or the connection broke.
    #[error("the server closed the connection{}", waiting(.waiting_for.as_ref()))]
    ConnectionEnded {
        /// The request that had no response yet.
        waiting_for: Option<Method>,
    },
    /// The server did not answer a request in time.
    #[error("the server did not answer {method} within {after:?}")]
    NoResponse {
        /// The request without a response.
        method: Method,
        /// How long the client waited.
        after: Duration,
    },
    /// The server refused a request.
    #[error("the server refused {method}: {status} {reason}")]
    Refused {
        /// Method of the refused request.
        method: Method,
        /// The status of the server's response.
        status: Status,
        /// The server's reason phrase.
        reason: String,
    },
    /// The server does not offer this transport (461). Ask for another one.
    #[error(
        "the server refused the transport of track {track} (461): use the other one of TCP and UDP"
    )]
    TransportRefused {
        /// Index of the track in the description.
        track: TrackIndex,
    },
    /// The server set up another transport than the requested one.
    #[error("the client asked for `{asked}`, but the server set up `{answered}`")]
    OtherTransport {
        /// The `Transport` header that the client sent.
        asked: String,
        /// The `Transport` header that the server answered.
        answered: String,
    },
    /// The server redirects the client to another URL.
    #[error("the server redirected to `{location}`")]
    Redirected {
        /// The absolute URL, which may have credentials in it; empty if the server gave none.
        location: String,
    },
    /// The server asks for credentials, and the client has none.
    #[error("the server requires a user name and password: use rtsp://NAME:PASSWORD@…")]
    CredentialsMissing,
    /// The server refuses the client's credentials.
    #[error("the server refused the name or password of `{user}` (401)")]
    CredentialsRefused {
        /// Name of the user that was refused.
        user: String,
    },
    /// The server offers only authentication schemes that are unknown to this client.
    #[error("the server requires an unknown authentication scheme: {offered}")]
    UnknownAuthentication {
        /// The server's first challenge.
        offered: String,
    },
    /// The session description cannot be read.
    #[error(transparent)]
    Description(#[from] sdp::Error),
    /// The description holds no track, or the owner chose none.
    #[error("the presentation has no track to play")]
    NothingToPlay,
    /// The server that takes the client's media no longer knows the session (454).
    #[error("the server no longer knows the session (454)")]
    SessionLost,
    /// The byte stream cannot be parsed any further.
    #[error("cannot parse what the server sent: {0}")]
    Stream(interleaved::Error),
    /// The server sends requests but does not read the responses, so that too many bytes wait.
    #[error("the server does not read the responses to its requests")]
    ResponsesNotRead,
}

impl Closed {
    /// Returns whether the server may still have the session, and would read TEARDOWN.
    pub(super) const fn leaves_session(&self) -> bool {
        !matches!(
            self,
            Self::Left
                | Self::ByServer
                | Self::ConnectionEnded { .. }
                | Self::SessionLost
                | Self::Stream(_)
                | Self::ResponsesNotRead
        )
    }
}

fn waiting(method: Option<&Method>) -> String {
    method.map_or_else(String::new, |method| {
        format!(" instead of answering {method}")
    })
}
