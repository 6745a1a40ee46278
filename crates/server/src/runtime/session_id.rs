//! How a WebRTC session is named.

use std::fmt;
use std::sync::Arc;

/// Names one viewer's session in URLs; unguessable, so that knowing it is the
/// right to change it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// Wraps `text`, which must be unguessable if it was drawn here.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The identifier as it stands in URLs.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
