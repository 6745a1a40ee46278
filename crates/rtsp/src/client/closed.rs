use std::time::Duration;

use thiserror::Error;

use crate::message::{Method, Status};
use crate::{interleaved, sdp};

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Closed {
    /// We left.
    #[error("left")]
    Left,
    /// The server ended the session by TEARDOWN.
    #[error("closed by the server (TEARDOWN)")]
    ByServer,
    /// The connection ended.
    #[error("the server closed the connection{}", waiting(.waiting_for.as_ref()))]
    ConnectionEnded {
        /// The request whose response was awaited.
        waiting_for: Option<Method>,
    },
    /// No response in time.
    #[error("no response to {method} for {after:?}")]
    NoResponse {
        /// The request.
        method: Method,
        /// How long it was awaited.
        after: Duration,
    },
    /// A request was refused.
    #[error("the server refused {method}: {status} {reason}")]
    Refused {
        /// The request.
        method: Method,
        /// The server's answer.
        status: Status,
        /// In its words.
        reason: String,
    },
    /// The server does not send this way: ask for another.
    #[error(
        "the server refused the transport of track {track} (461): ask for the other of TCP and UDP"
    )]
    TransportRefused {
        /// Index in the description.
        track: usize,
    },
    /// The server answered with a transport that was not asked for.
    #[error("asked for `{asked}`, the server set up `{answered}`")]
    OtherTransport {
        /// What we asked for.
        asked: String,
        /// What it answered.
        answered: String,
    },
    /// Look at `location` instead.
    #[error("redirected to `{location}`")]
    Redirected {
        /// A URL; empty if the server gave none.
        location: String,
    },
    /// The server wants a name and password, and there are none.
    #[error("the server wants a user name and password: rtsp://NAME:PASSWORD@…")]
    CredentialsMissing,
    /// The server does not accept them.
    #[error("the server refused name or password of `{user}` (401)")]
    CredentialsRefused {
        /// The name.
        user: String,
    },
    /// None of the server's ways to authenticate is known.
    #[error("the server wants an authentication that is not known: {offered}")]
    UnknownAuthentication {
        /// The challenge.
        offered: String,
    },
    /// The description cannot be read.
    #[error(transparent)]
    Description(#[from] sdp::Error),
    /// No track, or none that was wanted.
    #[error("the presentation has nothing to play")]
    NothingToPlay,
    /// The server forgot the session (454).
    #[error("the server does not know the session any more (454)")]
    SessionLost,
    /// The byte stream makes no sense any more.
    #[error("cannot follow the server: {0}")]
    Stream(interleaved::Error),
    /// The server takes no bytes from us while it wants answers.
    #[error("the server does not read what it asked for")]
    NotTaken,
}

fn waiting(method: Option<&Method>) -> String {
    method.map_or_else(String::new, |method| {
        format!(" instead of answering {method}")
    })
}
