use std::time::Duration;

use thiserror::Error;

use crate::interleaved;
use crate::tunnel::NotBase64;

/// Why a server's connection has ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Closed {
    /// The client asked for it (`Connection: close`).
    #[error("closed as the client asked")]
    ByClient,
    /// The connection had no session, and no request came for too long.
    #[error("no request for {after:?}, and nothing set up")]
    Idle {
        /// How long no request came.
        after: Duration,
    },
    /// The client of a session sent nothing for too long.
    #[error("no sign of the session's client for {after:?}")]
    SessionTimeout {
        /// How long the client sent nothing.
        after: Duration,
    },
    /// A request began but did not end in time.
    #[error("a request did not end for {after:?}")]
    RequestTimeout {
        /// How long the request has been incomplete.
        after: Duration,
    },
    /// The byte stream cannot be parsed any further.
    #[error("cannot follow the client: {0}")]
    Stream(interleaved::Error),
    /// The client pipelined more requests than the server queues.
    #[error("more than {requests} requests wait for their turn")]
    TooManyRequests {
        /// Number of requests that the server queues.
        requests: usize,
    },
    /// The client does not read its responses.
    #[error("the client does not read what it asked for")]
    ResponsesNotRead,
    /// The client sent wrong credentials too often: it may be guessing passwords.
    #[error("{failures} wrong credentials on one connection")]
    WrongCredentials {
        /// Number of wrong credentials.
        failures: u32,
    },
    /// An HTTP request that opens no tunnel.
    #[error("HTTP at the door of RTSP: {0}")]
    Http(&'static str),
    /// A tunnel's direction from client to server holds something else than base64.
    #[error("within a tunnel: {0}")]
    Tunnel(NotBase64),
}
