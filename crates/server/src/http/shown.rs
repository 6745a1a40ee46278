//! What a request shows of its client, before anything of it is believed.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Uri, header};
use glassline_access::auth::{
    Action, Credential, Listener, Login, PageHeaders, Question, Requester, query_token,
};
use glassline_rtsp::auth::{Authorization, User};

use crate::sessions::ConnectionAddresses;

/// The header in which a browser says how the page's site and the server's relate (Fetch Metadata, W3C).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The traits of a client in its request: the address, the page that sent it, and credentials.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown<'a> {
    connection: ConnectionAddresses,
    headers: &'a HeaderMap,
    uri: &'a Uri,
    /// The name of the protocol that the request belongs to.
    protocol: &'static str,
}

impl<'a> Shown<'a> {
    pub(super) const fn new(
        connection: ConnectionAddresses,
        headers: &'a HeaderMap,
        uri: &'a Uri,
    ) -> Self {
        Self {
            connection,
            headers,
            uri,
            protocol: "http",
        }
    }

    /// Returns this with the name of the protocol that the request belongs to.
    pub(super) const fn by(mut self, protocol: &'static str) -> Self {
        self.protocol = protocol;
        self
    }

    /// Returns the target of the request.
    pub(super) const fn uri(&self) -> &'a Uri {
        self.uri
    }

    /// Returns whether a browser asks what pages of other origins may do here.
    pub(super) fn is_preflight(&self) -> bool {
        self.headers
            .contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
    }

    pub(super) fn requester(&self) -> Requester {
        self.requester_of(Listener::Http)
    }

    /// Returns the client as one of another listener than that for viewers.
    pub(super) fn requester_of(&self, listener: Listener) -> Requester {
        let names = Requester::FORWARDING_HEADERS;
        let is_forwarded = names.iter().any(|name| self.headers.contains_key(*name));
        Requester::direct(self.connection.peer.ip(), listener).forwarded(is_forwarded)
    }

    /// Returns the headers that tell which page sent the request. A header that is not text counts
    /// as a stranger's.
    pub(super) fn page(&self) -> PageHeaders<'a> {
        let text = |name| {
            let value = self.headers.get(name)?;
            Some(value.to_str().unwrap_or("?"))
        };
        // RFC 9112 §3.2.2: the authority of the request's target replaces `Host`.
        let authority = self.uri.authority().map(Authority::as_str);
        PageHeaders {
            origin: text(header::ORIGIN),
            host: authority.or_else(|| text(header::HOST)),
            is_same_origin: text(SEC_FETCH_SITE) == Some("same-origin"),
            local: self.connection.local,
        }
    }

    /// Returns the token in `Authorization: Bearer`, or in the query for players that cannot set
    /// headers.
    pub(super) fn token(&self) -> Option<String> {
        self.bearer().or_else(|| query_token(self.uri.query()?))
    }

    /// Returns the token in `Authorization: Bearer` alone: operators have no need to put theirs into
    /// URLs, which end up in histories and logs.
    pub(super) fn bearer(&self) -> Option<String> {
        bearer(self.headers)
    }

    /// Returns the login of this client, with the credentials that the request shows.
    pub(super) fn login(&self) -> Login {
        let (token, user) = (self.token(), self.user());
        let user = user.as_ref().map(|it| (&*it.name, &*it.password));
        Login::new(self.requester())
            .with_token(token.as_deref())
            .with_user(user)
    }

    /// Returns the question whether this client may do `action` to the stream or room `name`, with
    /// all that it shows.
    pub(super) fn question(&self, action: Action, name: Option<&str>) -> Question {
        let credential = match (self.token(), self.user()) {
            (Some(token), _) => Credential::Token(token),
            (None, Some(user)) => Credential::Password {
                user: user.name,
                password: user.password,
            },
            (None, None) => Credential::Nothing,
        };
        let user_agent = self.headers.get(header::USER_AGENT);
        Question {
            by: self.requester(),
            action,
            protocol: self.protocol,
            name: name.map(str::to_owned),
            is_folder: false,
            credential,
            query: self.uri.query().map(str::to_owned),
            user_agent: user_agent.and_then(|it| Some(it.to_str().ok()?.to_owned())),
        }
    }

    /// Returns name and password in `Authorization: Basic`.
    pub(super) fn user(&self) -> Option<User> {
        match basic(self.headers) {
            Some(Authorization::Basic(user)) => Some(user),
            _ => None,
        }
    }
}

fn basic(headers: &HeaderMap) -> Option<Authorization> {
    Authorization::parse(headers.get(header::AUTHORIZATION)?.to_str().ok()?)
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim().to_owned())
}
