//! Notes offers, and changes of sessions, that were refused among the failed connections.

use std::sync::Arc;
use std::time::Instant;

use axum::Extension;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;

use glassline_events::failures::{ClientRole, ConnectionFailure, Protocol, Stage};

use super::problem::Refusal;
use super::redirect::RequestTarget;
use super::rules::Wanted;
use crate::app::App;
use crate::sessions::{ConnectionAddresses, SessionRecord};

/// Title of the answer to an address that may not try a login now.
pub(super) const TOO_MANY_WRONG_LOGINS: &str = "Too many wrong logins";

/// Notes the refusal of an offer or of a change of ICE, whichever layer refuses it.
pub(super) async fn note(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Extension(target): Extension<Arc<RequestTarget>>,
    request: Request,
    next: Next,
) -> Response {
    let Some((role, wanted)) = target.rules().client(request.method()) else {
        return next.run(request).await;
    };
    if is_of_check(request.headers()) {
        let response = next.run(request).await;
        if let Some(made) = response.extensions().get::<Arc<SessionRecord>>() {
            made.set_of_check();
        }
        return response;
    }
    let stream = target.wanted(request.uri());
    let mut response = next.run(request).await;
    let status = response.status().as_u16();
    let refusal = response.extensions_mut().remove::<Refusal>();
    // A session that ended has told why, and its client asks only to learn that.
    let is_told = wanted == Wanted::IceChange && status == 410;
    if let Some(Refusal {
        title,
        detail,
        remedy,
    }) = refusal.filter(|_| !is_told)
    {
        let stage = match title == TOO_MANY_WRONG_LOGINS {
            true => Stage::Rights,
            false => Stage::of_status(status),
        };
        let (stage, request) = match (stage, wanted) {
            (Stage::Offer | Stage::Stream, Wanted::IceChange) => (Stage::Ice, "PATCH: "),
            (stage, Wanted::IceChange) => (stage, "PATCH: "),
            (stage, Wanted::Connection) => (stage, ""),
        };
        let failure = ConnectionFailure {
            stream: stream.unwrap_or_default(),
            protocol: Protocol::WebRtc,
            role,
            stage,
            from: connection.peer.ip(),
            session: None,
            reason: format!("{request}{title} ({status}): {detail}"),
            remedy: remedy.or_else(|| remedy_of(stage, status, role).map(str::to_owned)),
        };
        app.failures.note(failure, Instant::now());
    }
    response
}

/// Returns whether `glassline doctor` asks, by the name that it gives: its user is told what fails.
fn is_of_check(headers: &HeaderMap) -> bool {
    let agent = headers.get(header::USER_AGENT);
    agent.is_some_and(|it| it.as_bytes().starts_with(b"glassline-doctor/"))
}

/// Returns what to change, where the refusal does not say so by itself.
fn remedy_of(stage: Stage, status: u16, role: ClientRole) -> Option<&'static str> {
    match (stage, status, role) {
        (Stage::Rights, 429, _) => Some(
            "correct the password or token in the client; until then its whole address waits: 20 wrong logins \
             may come at once, then one in 2 s, and no key raises this limit",
        ),
        (Stage::Rights, 401, ClientRole::Publisher | ClientRole::Talker) => Some(
            "give the client a user or token that may publish the stream: auth.users, or auth.publish_token",
        ),
        (Stage::Rights, 401, ClientRole::Participant) => Some(
            "give the client a user or token that may enter the room: auth.users, or auth.publish_token",
        ),
        (Stage::Rights, 401, _) => Some(
            "give the client a user or token that may read the stream: auth.users, or auth.read_token",
        ),
        (Stage::Stream, 409, ClientRole::Viewer) => {
            Some("see why the stream has no source: GET /api/v1/streams has its state")
        }
        _ => None,
    }
}
