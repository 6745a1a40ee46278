use std::fmt;
use std::str::FromStr;

/// Transport to a TURN server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// UDP, one datagram per message.
    Udp,
    /// TCP, for networks that block UDP.
    Tcp,
    /// TLS over TCP, for networks that block everything except HTTPS.
    Tls,
}

impl Transport {
    /// Returns `udp`, `tcp` or `tls`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
        }
    }
}

/// Address of a TURN server, as in its URI (RFC 7065).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// Host name or IP address, without brackets.
    pub host: String,
    /// Port; the default is 3478, with TLS 5349.
    pub port: u16,
    /// Transport to the server.
    pub transport: Transport,
}

/// Long-term credentials for a TURN server (RFC 8489 §9.2).
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("Credentials {{ username: {username:?}, .. }}")]
pub struct Credentials {
    /// User name at the server.
    pub username: String,
    /// Password, which `Debug` does not print.
    pub password: String,
}

/// The reason why a text is not the URI of a TURN server that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The scheme is neither `turn` nor `turns`.
    #[error("`{0}` is not turn:HOST[:PORT][?transport=udp|tcp] or turns:HOST[:PORT]")]
    Scheme(String),
    /// The host is missing or invalid, or the port is not a port number.
    #[error("`{0}` has no host, or a port that is not 1..=65535")]
    Host(String),
    /// The transport does not exist, or is UDP with `turns`.
    #[error("`{0}`: transport must be udp or tcp with turn:, tcp with turns:")]
    Transport(String),
}

impl FromStr for Server {
    type Err = ServerError;

    fn from_str(text: &str) -> Result<Self, ServerError> {
        let (scheme, rest) = text
            .split_once(':')
            .ok_or_else(|| ServerError::Scheme(text.to_owned()))?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "turn" => false,
            "turns" => true,
            _ => return Err(ServerError::Scheme(text.to_owned())),
        };
        let (place, query) = match rest.split_once('?') {
            Some((place, query)) => (place, Some(query)),
            None => (rest, None),
        };
        let transport = match (query.map(str::to_ascii_lowercase).as_deref(), secure) {
            (None | Some("transport=udp"), false) => Transport::Udp,
            (Some("transport=tcp"), false) => Transport::Tcp,
            (None | Some("transport=tcp"), true) => Transport::Tls,
            _ => return Err(ServerError::Transport(text.to_owned())),
        };
        let host_error = || ServerError::Host(text.to_owned());
        let (host, port) = split(place).ok_or_else(host_error)?;
        let port = match port {
            None if secure => 5349,
            None => 3478,
            Some(port) => port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(host_error)?,
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '_');
        if host.is_empty() || host.len() > 253 || !host.chars().all(is_plain) {
            return Err(host_error());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            transport,
        })
    }
}

/// Splits host, without the brackets of an IPv6 address, and port.
fn split(place: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = place.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(port))),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    match place.split_once(':') {
        Some((_, port)) if port.contains(':') => None,
        Some((host, port)) => Some((host, Some(port))),
        None => Some((place, None)),
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.transport {
            Transport::Tls => "turns",
            Transport::Udp | Transport::Tcp => "turn",
        };
        if self.host.contains(':') {
            write!(f, "{scheme}:[{}]:{}", self.host, self.port)?;
        } else {
            write!(f, "{scheme}:{}:{}", self.host, self.port)?;
        }
        match self.transport {
            Transport::Udp => f.write_str("?transport=udp"),
            Transport::Tcp | Transport::Tls => f.write_str("?transport=tcp"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn server(host: &str, port: u16, transport: Transport) -> Server {
        Server {
            host: host.to_owned(),
            port,
            transport,
        }
    }

    #[test]
    fn uris_name_servers_as_browsers_write_them() {
        use Transport::{Tcp, Tls, Udp};
        for (text, expected) in [
            ("turn:example.org", server("example.org", 3478, Udp)),
            ("turn:10.0.0.1:99", server("10.0.0.1", 99, Udp)),
            ("turn:a?transport=tcp", server("a", 3478, Tcp)),
            ("turns:a", server("a", 5349, Tls)),
            (
                "TURNS:[2001:db8::1]:443?transport=TCP",
                server("2001:db8::1", 443, Tls),
            ),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, kind) in [
            ("example.org", "scheme"),
            ("stun:example.org", "scheme"),
            ("turn:", "host"),
            ("turn:a:0", "host"),
            ("turn:a:70000", "host"),
            ("turn:[::1", "host"),
            ("turn:2001:db8::1", "host"),
            ("turn:a b", "host"),
            ("turn:a?transport=sctp", "transport"),
            ("turns:a?transport=udp", "transport"),
        ] {
            let found = match text.parse::<Server>() {
                Err(ServerError::Scheme(_)) => "scheme",
                Err(ServerError::Host(_)) => "host",
                Err(ServerError::Transport(_)) => "transport",
                Ok(_) => "nothing",
            };
            assert_eq!(found, kind, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            host in "[a-z0-9.-]{1,20}|[0-9a-f]{1,4}::[0-9a-f]{1,4}",
            port in 1u16..,
            transport in prop::sample::select(vec![Transport::Udp, Transport::Tcp, Transport::Tls]),
        ) {
            let server = server(&host, port, transport);
            prop_assert_eq!(server.to_string().parse(), Ok(server));
        }

        #[test]
        fn any_text_is_taken_or_refused(text in "\\PC{0,60}") {
            let _ = text.parse::<Server>();
        }
    }
}
