//! The identifier of a WebRTC session.

use std::fmt;
use std::sync::Arc;

/// The identifier of one WebRTC session in URLs. It cannot be guessed: a client that knows it may
/// change and end the session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// Wraps `text`. A new session's text must come from a random number generator, so that nobody
    /// can guess it.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the identifier as it appears in URLs.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
