use super::headers::is_token;

/// Method of a request (RFC 2326 §10), or of the HTTP requests that open a tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{}", self.as_str())]
#[expect(missing_docs, reason = "they say what RFC 2326 §10 says of them")]
pub enum Method {
    Options,
    Describe,
    Announce,
    Setup,
    Play,
    Pause,
    Record,
    Teardown,
    GetParameter,
    SetParameter,
    Redirect,
    /// HTTP GET, which opens a tunnel's direction from server to client.
    Get,
    /// HTTP POST, which opens a tunnel's direction from client to server.
    Post,
    /// An unknown method; a server answers 501.
    Other(String),
}

/// Methods and their names on the wire (RFC 2326 §6.1).
const NAMES: [(Method, &str); 13] = [
    (Method::Options, "OPTIONS"),
    (Method::Describe, "DESCRIBE"),
    (Method::Announce, "ANNOUNCE"),
    (Method::Setup, "SETUP"),
    (Method::Play, "PLAY"),
    (Method::Pause, "PAUSE"),
    (Method::Record, "RECORD"),
    (Method::Teardown, "TEARDOWN"),
    (Method::GetParameter, "GET_PARAMETER"),
    (Method::SetParameter, "SET_PARAMETER"),
    (Method::Redirect, "REDIRECT"),
    (Method::Get, "GET"),
    (Method::Post, "POST"),
];

impl Method {
    /// Number of known methods, those of HTTP included.
    pub const KNOWN: usize = NAMES.len();

    /// Returns the method of this name; `None` if the name is not a token. Names are case-sensitive
    /// by the RFC, but some clients write `play`.
    pub fn parse(name: &str) -> Option<Self> {
        let mut names = NAMES.iter();
        if let Some((method, _)) = names.find(|(_, known)| known.eq_ignore_ascii_case(name)) {
            return Some(method.clone());
        }
        let token = !name.is_empty() && name.chars().all(is_token);
        token.then(|| Self::Other(name.to_owned()))
    }

    /// Returns the name on the wire.
    pub fn as_str(&self) -> &str {
        if let Self::Other(name) = self {
            return name;
        }
        let known = NAMES.iter().find(|(method, _)| method == self);
        known.map_or("", |(_, name)| name)
    }

    /// Returns the names of all known methods, in order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(_, name)| *name)
    }
}
