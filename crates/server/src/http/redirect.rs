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

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use glassline_cluster::Access;
use glassline_cluster_member::{
    Destination, Elsewhere, Grant, Member, by_calendar, in_query, without_credentials,
};
use glassline_runtime::{SessionId, calendar};

use super::extract::has_word;
use super::resource;
use super::rules::{Errand, Right, Rules, RulesByPath};
use super::server::Scheme;
use super::stream_path::unfold;
use crate::app::App;

/// Key of a query by which a client that cannot follow a redirect asks for none.
const STAY: &str = "noredirect";

/// The route of a request with its rules, and the stream, room or session in its path. It is attached to
/// each request.
#[derive(Clone, Debug)]
pub(super) struct RequestTarget {
    rules: Rules,
    stream: Option<String>,
    room: Option<String>,
    pub(super) session: Option<String>,
}

/// Attaches to a request what its route says of it.
pub(super) async fn attach(
    State(rules): State<Arc<RulesByPath>>,
    matched: Option<MatchedPath>,
    params: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    let rules = matched.and_then(|it| rules.get(it.as_str()).copied());
    let param = |is_wanted: fn(&str) -> bool| {
        // A name that is not UTF-8 is refused by the handler.
        let mut params = params.as_ref().ok()?.iter();
        params.find_map(|(key, value)| is_wanted(key).then(|| value.to_owned()))
    };
    let target = RequestTarget {
        rules: rules.unwrap_or_else(|| Right::Read.into()),
        stream: param(|key| matches!(key, "stream" | "name")),
        room: param(|key| key == "room"),
        session: param(|key| key == "session"),
    };
    request.extensions_mut().insert(Arc::new(target));
    next.run(request).await
}

/// Returns the stream name in a query, which has it as `key`.
fn query_stream(uri: &Uri, key: &str) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(uri.query()?.as_bytes());
    pairs.find_map(|(name, value)| (name == key).then(|| value.into_owned()))
}

impl RequestTarget {
    /// Returns the rules of the route.
    pub(super) const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the name of the stream in the path, or in the query of a request to `uri`.
    pub(super) fn stream_or_query(&self, uri: &Uri) -> Option<String> {
        let in_query = || query_stream(uri, self.rules.key_of_stream());
        self.stream.clone().or_else(in_query)
    }

    /// Returns the name of the stream, file or room that a request to `uri` is for.
    pub(super) fn wanted(&self, uri: &Uri) -> Option<String> {
        let in_path = self.stream.as_ref().or(self.room.as_ref());
        let in_query = || query_stream(uri, self.rules.key_of_stream());
        in_path.cloned().or_else(in_query)
    }

    /// Returns the stream or room in the path that a client wants for `errand`.
    pub(super) fn destination(&self, errand: Errand) -> Option<Destination<'_>> {
        match errand {
            Errand::Watch => self.stream.as_deref().map(Destination::Stream),
            Errand::Join => self.room.as_deref().map(Destination::Room),
            Errand::Publish => None,
        }
    }

    /// Returns the stream or room of an offer that can be sent to another server.
    fn transferable(&self) -> Option<Destination<'_>> {
        self.destination(self.rules.transferable()?)
    }

    /// Returns what another server grants to the request by a ticket, if it has a valid one.
    pub(super) fn grant(&self, app: &App, uri: &Uri) -> Option<Grant> {
        let (member, query) = (member(app)?, uri.query()?);
        if self.rules.is_for_servers() {
            let stream = query_stream(uri, self.rules.key_of_stream())?;
            return member.admitted(query, Destination::Recordings(&stream));
        }
        member.admitted(query, self.transferable()?)
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
        let path = unfold(request.uri().path());
        let query = without_credentials(request.uri().query().unwrap_or_default());
        let separator = if query.is_empty() { "" } else { "?" };
        Some(temporary(&format!("{base}{path}{separator}{query}")))
    }

    /// Returns how the client of a request can be redirected; `None` if it is served here in any
    /// case.
    pub(super) fn access(&self, request: &Request) -> Option<Access> {
        let query = request.uri().query();
        let must_stay = stays(request.uri()) || query.and_then(in_query).is_some();
        let is_offer = request.method() == Method::POST && self.transferable().is_some();
        let scheme = request.extensions().get::<Scheme>().copied();
        (is_offer && !must_stay).then(|| access(scheme, request.headers()))
    }

    /// Returns the redirect of an offer whose stream is better watched at another server; `user` is the
    /// name whose rights the request has.
    pub(super) async fn elsewhere(
        &self,
        app: &App,
        uri: &Uri,
        access: Option<Access>,
        user: Option<&str>,
    ) -> Option<Response> {
        let Destination::Stream(name) = self.transferable()? else {
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
        let (member, destination) = (member(app)?, self.transferable()?);
        let until = user.and_then(|user| app.users.until(user));
        let grant = Grant {
            user: user.map(str::to_owned),
            until: until.map(by_calendar),
        };
        let path = unfold(uri.path());
        Some(member.invite(to, &path, uri.query(), destination, &grant))
    }
}

/// Returns whether the client of a request asks not to be redirected.
pub(super) fn stays(uri: &Uri) -> bool {
    has_word(uri.query(), STAY)
}

pub(super) fn member(app: &App) -> Option<&Arc<Member>> {
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
