//! Errors of an end of a test.

use std::io;
use std::time::Duration;

use thiserror::Error;

/// Error of an end of a test.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EndError {
    /// The operating system refused an operation.
    #[error("{what}: {source}")]
    System {
        /// Name of the operation that failed.
        what: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The ends could not connect, or the session ended before the test.
    #[error("the session ended: {0}")]
    Ended(String),
    /// The ends connected, but the other one did not open channels or answer in time.
    #[error("the other end did not {0} within {1:?}")]
    Silent(&'static str, Duration),
}

/// Wraps an error of the operating system that occurred during `what`.
pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> EndError {
    move |source| EndError::System { what, source }
}
