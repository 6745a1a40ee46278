//! Addresses of broadcasts: `moq://host:4443/name?token=…#sha256=…`

use std::fmt;

use url::Url;
use url::form_urlencoded::Serializer;

use glassline_trust::Fingerprint;

/// UDP port of raw QUIC where the URL names none.
pub const PORT: u16 = 4443;

/// Address of a broadcast: a server, a path there, and the broadcast's name.
///
/// `moq://` is MoQ on raw QUIC, `https://` is MoQ on WebTransport. The last part of the path is
/// the broadcast's name. The query goes to the server, which may require a `token`, or a user,
/// who may also stand in front of the host as `user:password@`. `#sha256=…` pins the server's
/// certificate; the server prints this fingerprint.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("Address({self})")]
pub struct Address {
    host: String,
    port: u16,
    folder: String,
    name: String,
    query: Option<String>,
    pin: Option<Fingerprint>,
    is_web: bool,
}

impl Address {
    /// Parses a URL.
    ///
    /// # Errors
    /// [`AddressError`] says what is missing. It never repeats a password.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let url = glassline_url::parse(text).map_err(AddressError::Url)?;
        let is_web = match url.scheme() {
            "moq" | "moql" => false,
            "https" => true,
            other => return Err(AddressError::Scheme(other.to_owned())),
        };
        let host = url.host_str().unwrap_or_default();
        let (folder, name) = url.path().rsplit_once('/').unwrap_or(("", url.path()));
        if name.is_empty() {
            return Err(AddressError::NoName);
        }
        let pin = match url.fragment() {
            Some(fragment) => {
                let pin = fragment.strip_prefix("sha256=");
                let pin = pin.and_then(|pin| pin.parse().ok());
                Some(pin.ok_or(AddressError::Pin)?)
            }
            None => None,
        };
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: url.port().unwrap_or(if is_web { 443 } else { PORT }),
            folder: folder.to_owned(),
            name: name.to_owned(),
            query: query(&url),
            pin,
            is_web,
        })
    }

    /// Returns the address of a server without the name of a broadcast.
    pub(super) fn of_node(host: &str, port: u16) -> Self {
        Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            folder: String::new(),
            name: String::new(),
            query: None,
            pin: None,
            is_web: false,
        }
    }

    /// Returns the broadcast's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the server's host name or address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the server's UDP port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the fingerprint that the server's certificate must have.
    pub const fn pin(&self) -> Option<Fingerprint> {
        self.pin
    }

    pub(super) const fn is_web(&self) -> bool {
        self.is_web
    }

    /// Returns path and query of the session's request: the broadcast's folder and the
    /// credentials.
    pub(super) fn target(&self) -> String {
        let folder = if self.folder.is_empty() {
            "/"
        } else {
            &self.folder
        };
        match &self.query {
            Some(query) => format!("{folder}?{query}"),
            None => folder.to_owned(),
        }
    }

    /// Returns the session's URL for HTTP.
    pub(super) fn web_url(&self) -> Result<Url, AddressError> {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        let text = format!("https://{host}:{}{}", self.port, self.target());
        glassline_url::parse(&text).map_err(AddressError::Url)
    }
}

/// Returns the query with the URL's user in it, because MoQ has no other place for a user.
fn query(url: &Url) -> Option<String> {
    let mut query = url.query().unwrap_or_default().to_owned();
    if !url.username().is_empty() {
        let decode = |text: &str| {
            // The URL's escapes are decoded first, then the query's are added.
            let text = text.replace('+', "%2B");
            url::form_urlencoded::parse(text.as_bytes())
                .next()
                .map_or_else(String::new, |(key, _)| key.into_owned())
        };
        let start = query.len();
        if start > 0 {
            query.push('&');
        }
        let start = query.len();
        query = Serializer::for_suffix(query, start)
            .append_pair("user", &decode(url.username()))
            .append_pair("password", &decode(url.password().unwrap_or_default()))
            .finish();
    }
    (!query.is_empty()).then_some(query)
}

impl fmt::Display for Address {
    /// Leaves the query out, which may contain a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_web { "https" } else { "moq" };
        let (host, port, folder, name) = (&self.host, self.port, &self.folder, &self.name);
        if host.contains(':') {
            write!(f, "{scheme}://[{host}]:{port}{folder}/{name}")
        } else {
            write!(f, "{scheme}://{host}:{port}{folder}/{name}")
        }
    }
}

/// The reason why a text is not an [`Address`]. The user can mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The text is not a URL.
    #[error("{0}: give a URL such as moq://host:4443/name")]
    Url(glassline_url::UrlError),
    /// The scheme belongs to another protocol.
    #[error("`{0}://` is not MoQ: use moq:// (QUIC) or https:// (WebTransport)")]
    Scheme(String),
    /// The URL has no broadcast name.
    #[error("no broadcast name behind the host: give one, as in moq://host:4443/name")]
    NoName,
    /// The fragment is not a fingerprint.
    #[error(
        "what follows `#` must be `sha256=` and 64 hexadecimal digits, as the server prints it"
    )]
    Pin,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Address {
        Address::parse(text).expect(text)
    }

    #[test]
    fn the_last_part_of_the_path_is_the_name() {
        let cam = parse("moq://media.example/cam");
        assert_eq!(
            (cam.host(), cam.port(), cam.name()),
            ("media.example", PORT, "cam")
        );
        assert_eq!(cam.target(), "/");
        let deep = parse("moq://[2001:db8::1]:5000/hall/left/cam?token=a%2Bb");
        assert_eq!((deep.host(), deep.port()), ("2001:db8::1", 5000));
        assert_eq!(deep.target(), "/hall/left?token=a%2Bb");
        assert_eq!(deep.to_string(), "moq://[2001:db8::1]:5000/hall/left/cam");
        let web = parse("https://media.example/cam?token=x");
        let url = web.web_url().expect("a URL");
        assert_eq!(url.as_str(), "https://media.example/?token=x");
    }

    #[test]
    fn a_user_goes_into_the_query_and_never_into_logs() {
        let ann = parse("moq://ann:p%40ss+word@media.example/cam?x=1");
        assert_eq!(ann.target(), "/?x=1&user=ann&password=p%40ss%2Bword");
        assert_eq!(format!("{ann:?}"), "Address(moq://media.example:4443/cam)");
    }

    #[test]
    fn pins_are_read_and_what_is_wrong_is_said() {
        let digits = "ab".repeat(32);
        let pinned = parse(&format!("moq://media.example/cam#sha256={digits}"));
        assert_eq!(pinned.pin().map(|pin| pin.to_string()), Some(digits));
        let wrong = |text| Address::parse(text).expect_err(text);
        assert_eq!(
            wrong("moq://media.example/cam#sha256=12"),
            AddressError::Pin
        );
        assert_eq!(wrong("moq://media.example/"), AddressError::NoName);
        assert!(matches!(wrong("moq:///cam"), AddressError::Url(_)));
        let password = wrong("moq://ann:12/hunter2@media.example/cam");
        assert!(!password.to_string().contains("hunter2"), "{password}");
        let http = AddressError::Scheme("http".to_owned());
        assert_eq!(wrong("http://media.example/cam"), http);
        assert!(matches!(wrong("cam"), AddressError::Url(_)));
    }
}
