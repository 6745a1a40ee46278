//! Errors that keep a run from being made.

use std::io;
use std::path::PathBuf;

use crate::meter;

/// Error that ends a run before its report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program could not be started.
    #[error("cannot start {name}: {source}")]
    Start {
        /// Name of the program.
        name: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The server did not begin to serve.
    #[error("the server does not answer after {seconds} s; its log is {}", log.display())]
    NotServing {
        /// Time that was waited.
        seconds: u64,
        /// Path of the server's log.
        log: PathBuf,
    },
    /// The viewers of a group received nothing before the first action.
    #[error("the viewers '{group}' do not all receive video after {seconds} s: {reason}")]
    NoVideo {
        /// Name of the group.
        group: String,
        /// Time that was waited.
        seconds: u64,
        /// Reason of the last failed join, or what is known instead.
        reason: String,
    },
    /// A user of the generated configuration could not be made.
    #[error("cannot make a user: {0}")]
    User(String),
    /// A certificate of the generated configuration could not be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A file of the run could not be written or read.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The system refuses a socket, a port or a thread.
    #[error("cannot open a socket or a thread: {0}")]
    System(#[from] io::Error),
    /// A process cannot be measured.
    #[error(transparent)]
    Meter(#[from] meter::Error),
    /// The user asked for the end of the run.
    #[error("interrupted")]
    Interrupted,
}
