//! The identifier of a WebRTC session.

use std::fmt;
use std::sync::Arc;

/// The identifier of one WebRTC session in URLs. It cannot be guessed: a client that knows it may
/// change and end the session.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Debug)]
#[debug("SessionId({self})")]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// Wraps `text`. A new session's text must come from a random number generator, so that nobody
    /// can guess it.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the identifier that the server of a cluster called `server` gives a session, so that
    /// others know whose it is.
    pub fn at(server: &str, text: &str) -> Self {
        Self(format!("{server}.{text}").into())
    }

    /// Returns the name of the server whose session this is; `None` outside of a cluster.
    pub fn server(&self) -> Option<&str> {
        // A server's name has no dot.
        self.0.split_once('.').map(|(server, _)| server)
    }

    /// Returns the beginning of the identifier, for lists and logs: the name of its server, if there
    /// is one, and letters enough to tell sessions apart, but too few to change one.
    pub fn beginning(&self) -> &str {
        let server = self.server().map_or(0, |server| server.len() + 1);
        let letters = self.0[server..].char_indices().nth(SHOWN_CHARS);
        match letters {
            Some((end, _)) => &self.0[..server + end],
            None => &self.0,
        }
    }

    /// Returns the identifier as it appears in URLs.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Characters of an identifier that lists and logs show.
const SHOWN_CHARS: usize = 6;

impl fmt::Display for SessionId {
    /// Writes the beginning, for logs. Whoever reads a log must not be able to end the session.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beginning = self.beginning();
        let rest = if beginning.len() < self.0.len() {
            "…"
        } else {
            ""
        };
        write!(f, "{beginning}{rest}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_show_too_little_of_an_identifier_to_use_it() {
        let id = SessionId::new("0123456789abcdef0123456789abcdef");
        assert_eq!(id.to_string(), "012345…");
        assert_eq!(format!("{id:?}"), "SessionId(012345…)");
        assert_eq!(id.as_str().len(), 32);
        assert_eq!(SessionId::new("short").to_string(), "short");
    }

    #[test]
    fn sessions_of_a_server_with_a_long_name_are_told_apart() {
        let id = SessionId::at("frankfurt-12", "0123456789abcdef");
        assert_eq!(id.beginning(), "frankfurt-12.012345");
        assert_eq!(id.to_string(), "frankfurt-12.012345…");
        assert_eq!(SessionId::at("a", "").to_string(), "a.");
    }
}
