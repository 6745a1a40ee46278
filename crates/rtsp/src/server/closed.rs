use std::time::Duration;

use thiserror::Error;

use crate::interleaved;
use crate::tunnel::NotBase64;

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Closed {
    /// The client asked for it (`Connection: close`).
    #[error("closed as the client asked")]
    Asked,
    /// Nothing set up, and nothing asked.
    #[error("no request for {after:?}, and nothing set up")]
    Idle {
        /// How long.
        after: Duration,
    },
    /// The session's client gave no sign any more.
    #[error("no sign of the session's client for {after:?}")]
    SessionTimeout {
        /// How long.
        after: Duration,
    },
    /// A request began and did not end.
    #[error("a request did not end for {after:?}")]
    RequestTimeout {
        /// How long.
        after: Duration,
    },
    /// The byte stream makes no sense any more.
    #[error("cannot follow the client: {0}")]
    Stream(interleaved::Error),
    /// More requests than are kept for later.
    #[error("more than {requests} requests wait for their turn")]
    TooManyRequests {
        /// How many are kept.
        requests: usize,
    },
    /// The client reads no responses.
    #[error("the client does not read what it asked for")]
    NotTaken,
    /// It guesses passwords.
    #[error("{failures} wrong credentials on one connection")]
    WrongCredentials {
        /// How many.
        failures: u32,
    },
    /// HTTP that opens no tunnel.
    #[error("HTTP at the door of RTSP: {0}")]
    Http(&'static str),
    /// A tunnel's way from client to server holds something else.
    #[error("within a tunnel: {0}")]
    Tunnel(NotBase64),
}
