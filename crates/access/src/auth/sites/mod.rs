//! Web pages and host names through which a browser reaches the server.
//!
//! A browser sends requests for every page that it shows, also for pages of strangers, and it runs
//! inside networks that strangers cannot reach. Two headers tell whose page sends a request:
//!
//! ```text
//! Origin: http://evil.example   a page of another site (Fetch standard §3.1)
//! Host: evil.example:8889       a name of a stranger that resolves to this machine (DNS rebinding)
//! ```
//!
//! Every protocol that a browser speaks asks [`Sites`]: HTTP, RTSP over HTTP, WebTransport. Programs
//! that are no browsers can send any header; nothing here replaces credentials.

use std::net::{IpAddr, SocketAddr};

use glassline_rtsp::server::TunnelHosts;
use glassline_runtime::{Current, is_deceptive};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ends of names that nobody can register for the public: RFC 6762 (`local`), RFC 8375
/// (`home.arpa`), ICANN's reservation of 2024 (`internal`), and those that routers hand out although
/// the root zone does not have them.
const PRIVATE_SUFFIXES: &[&str] = &[
    "local",
    "home.arpa",
    "internal",
    "lan",
    "home",
    "corp",
    "localdomain",
];

/// The host names of this server, and the other web sites whose pages may read its answers.
#[derive(Debug, Default)]
pub struct Sites(Current<KnownSites>);

#[derive(Debug, Default)]
struct KnownSites {
    origins: Vec<Origin>,
    hosts: Vec<HostName>,
    /// Origin of the server's own pages under its address for viewers.
    public: Option<Origin>,
}

/// The headers of a request that tell which page sent it, if a page did.
#[derive(Clone, Copy, Debug)]
pub struct PageHeaders<'a> {
    /// Value of `Origin`; `None` if the request has none.
    pub origin: Option<&'a str>,
    /// Host and port that the request names; `None` if the request names none, which no browser
    /// does.
    pub host: Option<&'a str>,
    /// Whether the browser says that the page has the same origin as the URL of its request
    /// (`Sec-Fetch-Site`), which no page can say itself. Browsers say so on HTTPS and on this machine.
    pub is_same_origin: bool,
    /// Address of the server that the connection reached.
    pub local: SocketAddr,
}

/// The reason why a request is refused that a page of a stranger may have sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageRefusal {
    /// The request names a host that may belong to a stranger.
    #[error(
        "this server does not know itself as '{host}', and another site may let that name resolve \
         to this machine: open the server by its IP address, or add the name to `http.hosts`"
    )]
    Host {
        /// Name in the request, cut to 80 characters.
        host: String,
    },
    /// The request comes from a page of the same host, and a proxy removed the port from `Host`.
    #[error(
        "this page comes from '{origin}', and the request names the host '{host}' without that port: \
         have the proxy send `Host` as the browser names it (nginx: `proxy_set_header Host \
         $http_host`), or `X-Forwarded-Port` as one of `http.trusted_proxies`; if the page belongs to \
         another site, list the site in `cors.origins`"
    )]
    Port {
        /// Origin in the request, cut to 80 characters.
        origin: String,
        /// Name in the request, cut to 80 characters.
        host: String,
    },
    /// The request comes from a page of another site.
    #[error(
        "pages of '{origin}' may not use this server: add the origin to `cors.origins`, or require \
         a credential and send it (`auth.read_token`, `auth.users`)"
    )]
    Origin {
        /// Origin in the request, cut to 80 characters.
        origin: String,
    },
}

impl Sites {
    /// Creates the rules from the configured `cors.origins` and `http.hosts`.
    pub fn new(origins: &[Origin], hosts: &[HostName]) -> Self {
        let sites = Self::default();
        sites.replace(origins, hosts, None);
        sites
    }

    /// Replaces `cors.origins`, `http.hosts`, and the origin of `cluster.public.http` for requests that
    /// come from now on.
    pub fn replace(&self, origins: &[Origin], hosts: &[HostName], public: Option<Origin>) {
        self.0.replace(KnownSites {
            origins: origins.to_vec(),
            hosts: hosts.to_vec(),
            public,
        });
    }

    /// Returns whether a page of `origin` may read the server's answers.
    pub fn allows(&self, origin: &str) -> bool {
        let sites = self.0.get();
        sites.origins.iter().any(|allowed| allowed.allows(origin))
    }

    /// Checks a request that needs no credential to read: the server's own pages, pages of
    /// configured origins, and programs may send it.
    ///
    /// # Errors
    /// Returns [`PageRefusal`] with the key to set.
    pub fn check_reader(&self, page: &PageHeaders<'_>) -> Result<(), PageRefusal> {
        match page.origin {
            // With `*`, every site may read, whatever the name of the server.
            _ if self.0.get().origins.iter().any(Origin::is_any) => Ok(()),
            Some(origin) if self.allows(origin) => Ok(()),
            _ => self.check_own(page),
        }
    }

    /// Checks a request that only the server's own pages and programs may send without a
    /// credential: one that publishes, or one to the listener for operators.
    ///
    /// # Errors
    /// Returns [`PageRefusal`] with the key to set.
    pub fn check_own(&self, page: &PageHeaders<'_>) -> Result<(), PageRefusal> {
        if let Some(host) = page.host.filter(|host| !self.is_own_host(host, page.local)) {
            let host = shortened(host);
            return Err(PageRefusal::Host { host });
        }
        match page.origin {
            Some(origin) => self.check_origin(origin, page),
            None => Ok(()),
        }
    }

    /// Checks that a page of `origin` is one of the host that the request names.
    ///
    /// A page of another port of this host is a stranger's. Some proxies remove the port from `Host`;
    /// then the browser, a proxy that is trusted, or the configuration must say that it is the same.
    fn check_origin(&self, origin: &str, page: &PageHeaders<'_>) -> Result<(), PageRefusal> {
        let foreign = || PageRefusal::Origin {
            origin: shortened(origin),
        };
        let (Some((scheme, authority)), Some(host)) = (origin.split_once("://"), page.host) else {
            return Err(foreign());
        };
        let usual = match scheme {
            "http" => "80",
            "https" => "443",
            _ => return Err(foreign()),
        };
        if !host_of(authority).eq_ignore_ascii_case(host_of(host)) {
            return Err(foreign());
        }
        let of_page = port_of(authority).unwrap_or(usual);
        match port_of(host) {
            Some(port) if port == of_page => Ok(()),
            Some(_) => Err(foreign()),
            None if of_page == usual || page.is_same_origin || self.is_public(origin) => Ok(()),
            None => Err(PageRefusal::Port {
                origin: shortened(origin),
                host: shortened(host),
            }),
        }
    }

    /// Returns whether `origin` is that of the server's address for viewers.
    fn is_public(&self, origin: &str) -> bool {
        let sites = self.0.get();
        let public = sites.public.as_ref();
        public.is_some_and(|public| public.allows(origin))
    }

    /// Returns whether `authority`, a host with or without port, cannot be a stranger's name for
    /// this server: an IP address, `localhost`, or a configured name. A request that came in by a
    /// network may also use a name that exists in private networks only, such as `camera.lan`.
    pub fn is_own_host(&self, authority: &str, local: SocketAddr) -> bool {
        let host = host_of(authority);
        if host.is_empty() {
            return false;
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if bare.parse::<IpAddr>().is_ok() {
            return true;
        }
        let host = host.strip_suffix('.').unwrap_or(host);
        let sites = self.0.get();
        let is_known = has_suffix(host, "localhost")
            || sites.hosts.iter().any(|known| known.is(host))
            || sites.origins.iter().any(|it| it.has_host(host));
        let by_network = !local.ip().to_canonical().is_loopback();
        is_known || by_network && is_private_name(host)
    }
}

impl TunnelHosts for Sites {
    fn has(&self, host: &str, local: SocketAddr) -> bool {
        self.is_own_host(host, local)
    }
}

/// Returns whether nobody can register `host` in the public DNS.
fn is_private_name(host: &str) -> bool {
    let is_single_label = !host.contains('.');
    is_single_label || PRIVATE_SUFFIXES.iter().any(|it| has_suffix(host, it))
}

/// Returns whether `host` is `suffix`, or a name below it.
fn has_suffix(host: &str, suffix: &str) -> bool {
    let Some(start) = host.len().checked_sub(suffix.len()) else {
        return false;
    };
    let (head, tail) = host.as_bytes().split_at(start);
    tail.eq_ignore_ascii_case(suffix.as_bytes()) && matches!(head.last(), None | Some(b'.'))
}

/// Returns the host of `authority` without port; an IPv6 address keeps its brackets.
fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[').and_then(|it| it.find(']')) {
        Some(end) => authority.get(..end + 2).unwrap_or(authority),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// Returns the port of `authority`, if it has one.
fn port_of(authority: &str) -> Option<&str> {
    let rest = authority.get(host_of(authority).len()..)?;
    rest.strip_prefix(':').filter(|port| !port.is_empty())
}

/// Returns the first characters of a text that a stranger sent, without characters that
/// would change how it is shown.
fn shortened(text: &str) -> String {
    let visible = text.chars().filter(|it| !is_deceptive(*it));
    visible.take(80).collect()
}

/// A web site that may embed the streams: `*`, or scheme and host (RFC 6454 §6.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, derive_more::Display)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Origin(String);

impl Origin {
    /// Returns the value `*`, for every site.
    pub fn any() -> Self {
        Self("*".to_owned())
    }

    /// Returns whether this is `*`.
    pub fn is_any(&self) -> bool {
        self.0 == "*"
    }

    /// Returns whether this includes a page of `origin`.
    pub fn allows(&self, origin: &str) -> bool {
        self.is_any() || self.0.eq_ignore_ascii_case(origin)
    }

    /// Returns the value as it appears in the file.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn has_host(&self, host: &str) -> bool {
        let authority = self.0.split_once("://").map(|(_, authority)| authority);
        authority.is_some_and(|it| host_of(it).eq_ignore_ascii_case(host))
    }
}

impl TryFrom<String> for Origin {
    type Error = OriginError;

    fn try_from(text: String) -> Result<Self, OriginError> {
        if text == "*" {
            return Ok(Self(text));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        if !matches!(scheme, "http" | "https") || rest.is_empty() {
            return Err(OriginError { origin: text });
        }
        // Browsers send neither path nor trailing slash, so such an entry never matches.
        if rest.contains(['/', '?', '#', '*', ' ']) {
            return Err(OriginError { origin: text });
        }
        Ok(Self(text))
    }
}

impl From<Origin> for String {
    fn from(origin: Origin) -> Self {
        origin.0
    }
}

/// A text is not an [`Origin`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{origin}' is not an origin: write '*', or scheme and host without a path, like 'https://example.com'"
)]
pub struct OriginError {
    /// Text that is no origin.
    pub origin: String,
}

/// A name of this server without scheme and port, such as `media.example.com`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, derive_more::Display)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct HostName(String);

impl HostName {
    /// Returns the name as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is(&self, host: &str) -> bool {
        self.0.eq_ignore_ascii_case(host)
    }
}

impl TryFrom<String> for HostName {
    type Error = HostNameError;

    fn try_from(text: String) -> Result<Self, HostNameError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let is_name = (1..=253).contains(&text.len()) && text.chars().all(allowed);
        if is_name && !text.ends_with('.') {
            Ok(Self(text))
        } else {
            Err(HostNameError { host: text })
        }
    }
}

impl From<HostName> for String {
    fn from(host: HostName) -> Self {
        host.0
    }
}

/// A text is not a [`HostName`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{host}' is not a host name: write it without scheme and port, like 'media.example.com'")]
pub struct HostNameError {
    /// Text that is no host name.
    pub host: String,
}

#[cfg(test)]
mod tests;
