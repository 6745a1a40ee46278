//! The guard in front of the routes for viewers: lets a request pass that has the right that its route
//! states.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use glassline_access::auth::Requester;

use super::auth::{Change, Reader};
use super::distant_session;
use super::problem::Problem;
use super::redirect::{self, RequestTarget};
use super::rules::Right;
use super::shown::Shown;
use super::{auth, resource};
use crate::app::App;
use crate::sessions::{ConnectionAddresses, SessionRecord};

/// Result of the check of a right, for the handler.
enum Granted {
    /// The handler has nothing to learn.
    Plainly,
    /// The streams that the request may know of.
    Reader(Reader),
    /// The name whose right to publish the request has, if it is a name's.
    Publisher(Option<String>),
}

/// Name whose right a request has, attached to requests that do more than read; `None` if a token of the
/// configuration gives the right, or the server is open.
#[derive(Clone, Debug)]
pub(super) struct DoneBy(pub(super) Option<String>);

/// Lets requests pass with the right that their route needs, and attaches to them which streams they may
/// read.
pub(super) async fn guard(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Extension(target): Extension<Arc<RequestTarget>>,
    request: Request,
    next: Next,
) -> Response {
    if let Some(response) = target.to_its_server(&app, &request) {
        return response;
    }
    let mut request = match distant_session::hand_on(&app, &target, request).await {
        Ok(request) => request,
        Err(response) => return response,
    };
    if target.has_session(&app) {
        return next.run(request).await;
    }
    let (rules, method) = (*target.rules(), request.method().clone());
    let right = rules.right(&method, request.uri().query());
    let shown = Shown::new(connection, request.headers(), request.uri()).by(rules.protocol);
    if method == Method::OPTIONS || right == Right::Key && method != Method::POST {
        let may_offer = may_offer(&app, right, shown, &target).await;
        // Everybody may ask for the methods; the credentials of ICE servers are for those who may send
        // an offer. A stream key shows its rights with the offer only.
        let response = next.run(request).await;
        return match may_offer {
            true => response,
            false => resource::without_credentials(response),
        };
    }
    // The handler that makes participants needs the user of the ticket, and looks at it itself.
    let grant = target.grant(&app, request.uri());
    if let Some(grant) = grant.filter(|_| right != Right::Room) {
        // The server that issued the ticket does not know whom an operator keeps away from this one.
        let stream = target.stream_or_query(request.uri());
        let (user, stream) = (grant.user.as_deref(), stream.as_deref());
        return match auth::check_excluded(&app.users, &shown, user, stream) {
            Ok(()) => redirect::end_with(&grant, next.run(request).await),
            Err(problem) => problem.into_response(),
        };
    }
    if rules.is_page(&method) && !app.users.any() {
        return next.run(request).await;
    }
    let client = shown.requester();
    match granted(&app, right, shown, &target).await {
        Err(problem) => problem.into_response(),
        Ok(Granted::Plainly) => next.run(request).await,
        Ok(Granted::Publisher(user)) => {
            request.extensions_mut().insert(DoneBy(user.clone()));
            let response = next.run(request).await;
            let response = resource::end_with(&app.users, user.as_deref(), response);
            come_from(client, response)
        }
        Ok(Granted::Reader(reader)) => {
            let access = target.access(&request);
            let elsewhere = target.elsewhere(&app, request.uri(), access, reader.user());
            if let Some(response) = elsewhere.await {
                return response;
            }
            request.extensions_mut().insert(reader.clone());
            let response = next.run(request).await;
            let response = resource::end_with(&app.users, reader.user(), response);
            come_from(client, response)
        }
    }
}

/// Notes the client of the session that `response` tells of, if it tells of one.
fn come_from(client: Requester, response: Response) -> Response {
    if let Some(made) = response.extensions().get::<Arc<SessionRecord>>() {
        made.set_client(client);
    }
    response
}

/// Checks that a request has `right`, unless its handler does.
async fn granted(
    app: &App,
    right: Right,
    shown: Shown<'_>,
    target: &RequestTarget,
) -> Result<Granted, Problem> {
    let (users, sites) = (&app.users, &app.sites);
    // A name that is not UTF-8 is refused by the handler.
    let stream = target.stream_or_query(shown.uri());
    let name = stream.as_deref().unwrap_or_default();
    match right {
        Right::Nothing | Right::Open | Right::Room | Right::Session | Right::Key => {
            Ok(Granted::Plainly)
        }
        // A ticket would have been found before.
        Right::Server => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "For servers",
            "only other servers of this one's cluster ask this, with a ticket of theirs",
        )),
        Right::Read => {
            let reader = auth::reader(users, &shown, stream.as_deref()).await;
            reader.map(Granted::Reader)
        }
        Right::Publish => {
            let user = auth::publisher(users, sites, &shown, name).await;
            user.map(Granted::Publisher)
        }
        Right::Do(action) => {
            let user = auth::doer(users, sites, &shown, Change::new(action, name)).await;
            user.map(Granted::Publisher)
        }
        Right::ReadOrPublish => {
            let may = auth::reader_or_publisher(users, sites, &shown, name).await;
            may.map(|()| Granted::Plainly)
        }
    }
}

/// Returns whether the client of a request may be told the credentials of ICE servers: it has the right
/// to send an offer to the route. The answer to a preflight, which shows no credentials, has none.
async fn may_offer(app: &App, right: Right, shown: Shown<'_>, target: &RequestTarget) -> bool {
    match right {
        Right::Read | Right::Publish if !shown.is_preflight() => {
            granted(app, right, shown, target).await.is_ok()
        }
        _ => false,
    }
}
