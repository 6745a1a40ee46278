//! Why an end of a test gives up.

use std::io;
use std::time::Duration;

use thiserror::Error;

/// Why an end gave up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EndError {
    /// The operating system refused.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// The peers did not find each other, or the session ended before the test.
    #[error("the session ended: {0}")]
    Ended(String),
    /// Connected, but the other end did not open channels or answer in time.
    #[error("the other end did not {0} within {1:?}")]
    Silent(&'static str, Duration),
}

/// An error of the operating system that was met while doing `what`.
pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> EndError {
    move |source| EndError::System { what, source }
}
