use std::time::Duration;

use thiserror::Error;

use crate::interleaved;
use crate::tunnel::NotBase64;

/// The reason why a server's connection has ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Closed {
    /// The client asked for it (`Connection: close`).
    #[error("the client asked to close the connection")]
    ByClient,
    /// The connection had no session, and no request came for too long.
    #[error("no request for {after:?}, and no track is set up")]
    Idle {
        /// How long no request came.
        after: Duration,
    },
    /// The client of a session sent nothing for too long.
    #[error("the session's client sent nothing for {after:?}")]
    SessionTimeout {
        /// How long the client sent nothing.
        after: Duration,
    },
    /// A request began but did not end in time.
    #[error("a request was still incomplete after {after:?}")]
    RequestTimeout {
        /// How long the request has been incomplete.
        after: Duration,
    },
    /// The byte stream cannot be parsed any further.
    #[error("cannot parse what the client sent: {0}")]
    Stream(interleaved::Error),
    /// The client pipelined more requests than the server queues.
    #[error("the client sent more than {requests} requests without waiting for responses")]
    TooManyRequests {
        /// Number of requests that the server queues.
        requests: usize,
    },
    /// The client does not read its responses.
    #[error("the client does not read the responses to its requests")]
    ResponsesNotRead,
    /// The client sent wrong credentials too often: it may be guessing passwords.
    #[error("the client sent wrong credentials {failures} times on one connection")]
    WrongCredentials {
        /// Number of wrong credentials.
        failures: u32,
    },
    /// An HTTP request that opens no tunnel.
    #[error("HTTP on the RTSP port: {0}")]
    Http(&'static str),
    /// A tunnel's direction from client to server holds something else than base64.
    #[error("the client sent something else than base64 through the HTTP tunnel: {0}")]
    Tunnel(NotBase64),
}
