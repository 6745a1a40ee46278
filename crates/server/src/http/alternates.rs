//! The other servers of the cluster that a client can go to when this one is lost.
//!
//! `Link: <URL>; rel="alternate"` (RFC 8288), up to three of them. The URL takes the same offer.
//!
//! | answer to | the URL has |
//! |---|---|
//! | an offer of WHEP, a report of the player page | a ticket for the stream, valid for half a minute |
//! | an offer to a room, the list of its participants | a ticket for the room, valid for half a minute |
//! | an offer of WHIP, a request for its session | nothing: a publisher has its credentials |
//!
//! A server that is lost gives nobody another ticket, so clients get a new one with each report and
//! each list. Servers that come later are named to publishers that ask for their session again.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use glassline_cluster::Access;
use glassline_runtime::SessionId;

use super::redirect::{access, member};
use super::resource::path_segment;
use super::server::Scheme;
use crate::app::App;
use crate::cluster::{Destination, Elsewhere, Grant, Member, by_calendar};
use crate::sessions::SessionRecord;

/// What a client wants that can go on at another server.
#[derive(Clone, Debug, Default)]
pub(super) struct Errand {
    wanted: Option<Wanted>,
    session: Option<String>,
}

#[derive(Clone, Debug)]
enum Wanted {
    Watch(String),
    Publish,
    Join(String),
}

impl<S: Send + Sync> FromRequestParts<S> for Errand {
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
        let wanted = match (&parts.method, route) {
            (&Method::POST, "/{stream}/whep" | "/{stream}/whep/{session}/report") => {
                param("stream").map(Wanted::Watch)
            }
            (&Method::POST, "/{stream}/whip" | "/whip")
            | (&Method::GET | &Method::HEAD, "/{stream}/whip/{session}" | "/whip/{session}") => {
                Some(Wanted::Publish)
            }
            (&Method::POST, "/call/{room}") | (&Method::GET, "/call/{room}/{session}") => {
                param("room").map(Wanted::Join)
            }
            _ => None,
        };
        let session = param("session");
        Ok(Self { wanted, session })
    }
}

/// Names the servers that a client can go to when this one is lost, in answers about sessions of this
/// server.
pub(super) async fn name(
    State(app): State<App>,
    errand: Errand,
    request: Request,
    next: Next,
) -> Response {
    let (Some(member), Some(wanted)) = (member(&app), errand.wanted) else {
        return next.run(request).await;
    };
    let scheme = request.extensions().get::<Scheme>().copied();
    let access = access(scheme, request.headers());
    let path = request.uri().path();
    // A session's address is that of its endpoint and its name.
    let endpoint = match &errand.session {
        Some(_) => path.rsplit_once('/').map_or(path, |(endpoint, _)| endpoint),
        None => path,
    };
    let endpoint = endpoint.to_owned();
    let mut response = next.run(request).await;
    let made = response.extensions().get::<Arc<SessionRecord>>().cloned();
    let of_path = || {
        app.sessions
            .by_id(&SessionId::new(errand.session.as_deref()?))
    };
    let session = made.or_else(of_path);
    if let Some(session) = session.filter(|_| response.status().is_success()) {
        let headers = response.headers_mut();
        for url in urls(member, &wanted, &session, (access, &endpoint)) {
            if let Ok(link) = HeaderValue::try_from(format!("<{url}>; rel=\"alternate\"")) {
                headers.append(header::LINK, link);
            }
        }
    }
    response
}

/// Returns the URLs at other servers for the client of `session`, which made its offer here to `path`.
fn urls(
    member: &Member,
    wanted: &Wanted,
    session: &SessionRecord,
    (access, path): (Access, &str),
) -> Vec<String> {
    let url = |to: &Elsewhere| {
        let grant = || Grant {
            user: session.user().map(str::to_owned),
            until: session.until().map(by_calendar),
        };
        match wanted {
            Wanted::Publish => Member::url_at(to, path),
            Wanted::Watch(stream) => {
                let path = format!("/{}/whep", path_segment(stream));
                member.invite(to, &path, None, Destination::Stream(stream), &grant())
            }
            Wanted::Join(room) => {
                let path = format!("/call/{}", path_segment(room));
                member.invite(to, &path, None, Destination::Room(room), &grant())
            }
        }
    };
    let others = member.others(access, session.id.as_str());
    others.iter().map(url).collect()
}
