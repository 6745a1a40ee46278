//! Errors that keep a load test from being run.

use crate::meter;
use crate::viewers::floor;

/// Error that keeps a load test from being run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process may not open enough files for the ramp's last step.
    #[error(
        "{viewers} clients need about {needed} file descriptors and this process may have {limit}: \
         raise it (`ulimit -n {needed}`) or end the ramp lower"
    )]
    Descriptors {
        /// Number of clients at the ramp's last step.
        viewers: usize,
        /// File descriptors that the clients need.
        needed: usize,
        /// File descriptors that the process may have.
        limit: usize,
    },
    /// The server does not accept connections.
    #[error("cannot reach {host}:{port}: {reason}; is the server running there?")]
    Unreachable {
        /// Name or address of the server.
        host: String,
        /// TCP port of the server.
        port: u16,
        /// Error of the operating system.
        reason: String,
    },
    /// The clients that should hinder others cannot do so.
    #[error("{0}")]
    Trouble(String),
    /// The server's process cannot be measured.
    #[error("--server-pid: {0}")]
    Server(#[from] meter::Error),
    /// The first viewer received nothing.
    #[error("the first viewer failed: {0}")]
    Join(String),
    /// The files for the floor cannot be used.
    #[error(transparent)]
    Floor(#[from] floor::Error),
    /// Threads or sockets for viewers could not be made.
    #[error("cannot start the viewers' threads: {0}")]
    Pool(std::io::Error),
}
