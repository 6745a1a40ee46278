//! Viewers between the servers of a cluster: sent to the server that has their stream, let in where
//! another one sent them, and led back to the server that has their session.
//!
//! ```text
//! POST /{stream}/whep           at a server without the stream ─► 307, Location: the other server, ?ticket=…
//! POST /{stream}/whep?ticket=…  at the other one ─► 201, whatever credentials it has not
//! POST /call/{room}             the same, for the server that has the room
//! PATCH, DELETE … /{session}    at any server ─► 307 to the server in the session's name
//! ```
//!
//! Browsers remove `Authorization` when a redirect leads to another origin (Fetch standard, HTTP-redirect
//! fetch), so the ticket has to say what the first server granted. A request with a ticket, right or
//! wrong, is served where it arrives: there is no loop.
//!
//! In a cluster the unguessable name of a session is the right to it, as with calls: a page of one
//! server reads and ends its session at another one, which has not seen its credentials.

use std::convert::Infallible;
use std::time::{Duration, Instant, SystemTime};

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use glassline_cluster::Access;
use glassline_runtime::{SessionId, calendar};

use super::server::Scheme;
use super::{resource, whep};
use crate::app::App;
use crate::cluster::{
    Destination, Elsewhere, Grant, Member, by_calendar, in_query, without_credentials,
};

/// Key of a query by which a client that cannot follow a redirect asks for none.
const STAY: &str = "noredirect";

/// The stream, room or session that a request is about.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestTarget {
    destination: Option<Named>,
    pub(super) session: Option<String>,
}

/// What an offer asks for.
#[derive(Clone, Debug)]
enum Named {
    Stream(String),
    Room(String),
}

impl Named {
    fn destination(&self) -> Destination<'_> {
        match self {
            Self::Stream(name) => Destination::Stream(name),
            Self::Room(name) => Destination::Room(name),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RequestTarget {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let matched = parts.extensions.get::<MatchedPath>().cloned();
        let route = matched.as_ref().map_or("", MatchedPath::as_str);
        // A name that is not UTF-8 is refused by the handler.
        let Ok(params) = RawPathParams::from_request_parts(parts, state).await else {
            return Ok(Self::default());
        };
        let param = |wanted: &str| {
            let mut params = params.iter();
            params.find_map(|(key, value)| (key == wanted).then(|| value.to_owned()))
        };
        let destination = match route {
            "/{stream}/whep" => param("stream").map(Named::Stream),
            "/call/{room}" => param("room").map(Named::Room),
            _ => None,
        };
        Ok(Self {
            destination,
            session: param("session"),
        })
    }
}

impl RequestTarget {
    /// Returns what another server grants to the request by a ticket, if it has a valid one.
    pub(super) fn grant(&self, app: &App, uri: &Uri) -> Option<Grant> {
        let destination = self.destination.as_ref()?.destination();
        member(app)?.admitted(uri.query()?, destination)
    }

    /// Returns whether the request names a session of this server, or one that ended lately, in a
    /// cluster, where that is the right to the session.
    pub(super) fn has_session(&self, app: &App) -> bool {
        let (Some(session), Some(member)) = (&self.session, member(app)) else {
            return false;
        };
        let id = SessionId::new(session);
        id.server() == Some(member.node())
            && (app.sessions.by_id(&id).is_some()
                || resource::gone(&app.sessions, None, session).is_some())
    }

    /// Returns the redirect to the server that has the session of a request, if that is another one.
    pub(super) fn to_its_server(&self, app: &App, request: &Request) -> Option<Response> {
        let (session, member) = (self.session.as_ref()?, member(app)?);
        // A browser does not follow a redirect of a preflight.
        if request.method() == Method::OPTIONS {
            return None;
        }
        let id = SessionId::new(session);
        let base = member.http_of(id.server()?)?;
        let path = request.uri().path();
        let query = without_credentials(request.uri().query().unwrap_or_default());
        let separator = if query.is_empty() { "" } else { "?" };
        Some(temporary(&format!("{base}{path}{separator}{query}")))
    }

    /// Returns how the client of a request can be redirected; `None` if it is served here in any
    /// case.
    pub(super) fn access(&self, request: &Request) -> Option<Access> {
        let query = request.uri().query();
        let must_stay = whep::has_word(query, STAY) || query.and_then(in_query).is_some();
        let is_offer = request.method() == Method::POST && self.destination.is_some();
        let scheme = request.extensions().get::<Scheme>().copied();
        (is_offer && !must_stay).then(|| access(scheme, request.headers()))
    }

    /// Returns the redirect of an offer whose stream is better watched at another server; `user` is the
    /// name whose rights the request has.
    pub(super) async fn elsewhere(
        &self,
        app: &App,
        (uri, access): (&Uri, Option<Access>),
        user: Option<&str>,
    ) -> Option<Response> {
        let Some(Named::Stream(name)) = &self.destination else {
            return None;
        };
        let to = member(app)?.elsewhere(name, access?).await?;
        Some(self.invite(app, &to, uri, user))
    }

    /// Returns the redirect of an offer to the server `to`.
    pub(super) fn invite(
        &self,
        app: &App,
        to: &Elsewhere,
        uri: &Uri,
        user: Option<&str>,
    ) -> Response {
        match self.invitation(app, to, uri, user) {
            Some(url) => temporary(&url),
            None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }

    /// Returns the URL of an offer at the server `to`, with a ticket.
    pub(super) fn invitation(
        &self,
        app: &App,
        to: &Elsewhere,
        uri: &Uri,
        user: Option<&str>,
    ) -> Option<String> {
        let (member, named) = (member(app)?, self.destination.as_ref()?);
        let until = user.and_then(|user| app.users.until(user));
        let grant = Grant {
            user: user.map(str::to_owned),
            until: until.map(by_calendar),
        };
        Some(member.invite(to, uri.path(), uri.query(), named.destination(), &grant))
    }
}

pub(super) fn member(app: &App) -> Option<&std::sync::Arc<Member>> {
    app.sessions.directory()?.member()
}

/// Returns how a client of HTTP can follow a redirect.
pub(super) fn access(scheme: Option<Scheme>, headers: &HeaderMap) -> Access {
    let origin = headers.get(header::ORIGIN);
    let is_secure_page = origin.is_some_and(|it| it.as_bytes().starts_with(b"https://"));
    match is_secure_page || scheme == Some(Scheme::Https) {
        true => Access::Https,
        false => Access::Http,
    }
}

/// Lets the session that `response` tells of end with the rights that a ticket granted.
pub(super) fn end_with(grant: &Grant, response: Response) -> Response {
    resource::end_at(response, grant.user.as_deref(), end_of(grant))
}

/// Returns the end of the rights of a grant; `None` if they have none.
pub(super) fn end_of(grant: &Grant) -> Option<Instant> {
    grant.until.map(instant)
}

/// Returns the instant of a time of the calendar.
fn instant(until: SystemTime) -> Instant {
    let left = until.duration_since(calendar::now()).unwrap_or_default();
    let now = Instant::now();
    now.checked_add(left)
        .unwrap_or_else(|| now + Duration::from_secs(1 << 30))
}

/// Returns status 307, by which clients repeat the request with its method and its body.
fn temporary(location: &str) -> Response {
    let headers = [
        (header::LOCATION, location),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (StatusCode::TEMPORARY_REDIRECT, headers).into_response()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn what_came_by_tls_is_not_sent_to_a_server_without() {
        let mut headers = HeaderMap::new();
        assert_eq!(access(Some(Scheme::Http), &headers), Access::Http);
        assert_eq!(access(None, &headers), Access::Http);
        assert_eq!(access(Some(Scheme::Https), &headers), Access::Https);
        let page = |origin| HeaderValue::from_static(origin);
        headers.insert(header::ORIGIN, page("http://plain.example"));
        assert_eq!(access(Some(Scheme::Http), &headers), Access::Http);
        // A proxy that tells nothing ended the TLS of a page.
        headers.insert(header::ORIGIN, page("https://app.example"));
        assert_eq!(access(Some(Scheme::Http), &headers), Access::Https);
    }
}
