//! The `Session` header (RFC 2326 §12.37).

use std::fmt;
use std::time::Duration;

/// Identifier of a session, and how long the session lives without a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Opaque identifier of the session.
    pub id: String,
    /// Timeout of 1 s to 1 day; [`Session::TIMEOUT`] where the server names none or zero.
    pub timeout: Duration,
}

impl Session {
    /// Timeout that the RFC assumes where the server names none.
    pub const TIMEOUT: Duration = Duration::from_secs(60);

    /// Parses a header's value, `12345678;timeout=60`; `None` without an identifier.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';');
        let id = parts.next()?.trim();
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            return None;
        }
        let mut timeouts = parts.filter_map(|part| {
            let (key, value) = part.split_once('=')?;
            let named = key.trim().eq_ignore_ascii_case("timeout");
            named.then(|| value.trim().parse::<u64>().ok()).flatten()
        });
        let timeout = timeouts.next().filter(|&seconds| seconds > 0);
        let day = 86_400;
        Some(Self {
            id: id.to_owned(),
            timeout: timeout.map_or(Self::TIMEOUT, |seconds| {
                Duration::from_secs(seconds.min(day))
            }),
        })
    }
}

/// Longest identifier in bytes: it is part of every later request.
const ID_BYTES_MAX: usize = 1024;

impl fmt::Display for Session {
    /// Writes the header as a server does. Clients send only the identifier.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{};timeout={}", self.id, self.timeout.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_timeouts_of_real_servers_are_read() {
        let cases = [
            ("0000038A;timeout=65", "0000038A", 65),
            ("tkVYCqjvJOJ_N2Ph", "tkVYCqjvJOJ_N2Ph", 60),
            (" 7 ; Timeout = 30 ", "7", 30),
            ("8f2-+$.;timeout=0", "8f2-+$.", 60),
            ("a;timeout=99999999999", "a", 86_400),
            ("a;timeout=soon", "a", 60),
        ];
        for (text, id, seconds) in cases {
            let session = Session::parse(text).expect(text);
            assert_eq!(session.id, id);
            assert_eq!(session.timeout, Duration::from_secs(seconds), "{text}");
            assert_eq!(Session::parse(&session.to_string()), Some(session));
        }
        assert_eq!(Session::parse(" ;timeout=3"), None);
    }
}
