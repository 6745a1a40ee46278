//! What keeps a load test from being run.

use crate::viewers::{floor, meter};

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The ramp's end does not fit.
    #[error(
        "{viewers} clients need about {needed} file descriptors and this process may have {limit}: \
         raise it (`ulimit -n {needed}`) or end the ramp lower"
    )]
    Descriptors {
        /// Clients at the ramp's end.
        viewers: usize,
        /// What they need.
        needed: usize,
        /// What there is.
        limit: usize,
    },
    /// Nobody accepts connections.
    #[error("cannot reach {host}:{port}: {reason}; is the server running there?")]
    Unreachable {
        /// Name or address.
        host: String,
        /// TCP port.
        port: u16,
        /// What the system said.
        reason: String,
    },
    /// Clients that would be no trouble.
    #[error("{0}")]
    Trouble(String),
    /// The server's process.
    #[error("--server-pid: {0}")]
    Server(#[from] meter::Error),
    /// The first viewer got nothing.
    #[error("the first viewer failed: {0}")]
    Join(String),
    /// The floor's files.
    #[error(transparent)]
    Floor(#[from] floor::Error),
    /// No threads or sockets for viewers.
    #[error("cannot start the viewers' threads: {0}")]
    Pool(std::io::Error),
}
