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

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use glassline_cluster::Access;
use glassline_cluster_member::{Destination, Elsewhere, Grant, Member, by_calendar};
use glassline_runtime::SessionId;

use super::redirect::{RequestTarget, access, member};
use super::rules::Errand;
use super::server::Scheme;
use super::stream_path::{name_in_path, unfold};
use crate::app::App;
use crate::sessions::SessionRecord;

/// Names the servers that a client can go to when this one is lost, in answers about sessions of this
/// server.
pub(super) async fn name(
    State(app): State<App>,
    Extension(target): Extension<Arc<RequestTarget>>,
    request: Request,
    next: Next,
) -> Response {
    let errand = target.rules().errand(request.method());
    let (Some(member), Some(errand)) = (member(&app), errand) else {
        return next.run(request).await;
    };
    let scheme = request.extensions().get::<Scheme>().copied();
    let access = access(scheme, request.headers());
    let path = &*unfold(request.uri().path());
    // A session's address is that of its endpoint and its name.
    let endpoint = match &target.session {
        Some(_) => path.rsplit_once('/').map_or(path, |(endpoint, _)| endpoint),
        None => path,
    };
    let endpoint = endpoint.to_owned();
    let mut response = next.run(request).await;
    let made = response.extensions().get::<Arc<SessionRecord>>().cloned();
    let of_path = || {
        app.sessions
            .by_id(&SessionId::new(target.session.as_deref()?))
    };
    let session = made.or_else(of_path);
    if let Some(session) = session.filter(|_| response.status().is_success()) {
        let alternates = Alternates {
            member,
            destination: target.destination(errand),
            session: &session,
            endpoint: &endpoint,
        };
        let headers = response.headers_mut();
        for url in alternates.urls(errand, access) {
            if let Ok(link) = HeaderValue::try_from(format!("<{url}>; rel=\"alternate\"")) {
                headers.append(header::LINK, link);
            }
        }
    }
    response
}

/// Parts of which the URLs at other servers are made.
struct Alternates<'a> {
    member: &'a Member,
    /// The stream or room that needs a ticket there.
    destination: Option<Destination<'a>>,
    session: &'a SessionRecord,
    /// The path to which the client made its offer here.
    endpoint: &'a str,
}

impl Alternates<'_> {
    /// Returns the URLs for a client that can go to them by `access`.
    fn urls(&self, errand: Errand, access: Access) -> Vec<String> {
        let others = self.member.others(access, self.session.id.as_str());
        let urls = others.iter().filter_map(|to| self.url(errand, to));
        urls.collect()
    }

    fn url(&self, errand: Errand, to: &Elsewhere) -> Option<String> {
        if errand == Errand::Publish {
            return Some(Member::url_at(to, self.endpoint));
        }
        let destination = self.destination?;
        let path = match destination {
            Destination::Stream(stream) => format!("/{}/whep", name_in_path(stream)),
            Destination::Room(room) => format!("/call/{}", name_in_path(room)),
            // No session comes of such a request.
            Destination::Recordings(_) => return None,
        };
        let grant = Grant {
            user: self.session.user().map(str::to_owned),
            until: self.session.until().map(by_calendar),
        };
        Some(self.member.invite(to, &path, None, destination, &grant))
    }
}
