//! The dashboard of the listener for operators: one page, which server-sent events keep up to date.
//!
//! ```text
//!  hub, sessions, RTSP, QUIC, … ─► overview ─► Overviews: once a second ─► merge patch ─► each page
//!                       one stream ─► stages: delays and heat map ─► the page that shows it
//! ```
//!
//! While no page is open nothing of this runs.

mod actions;
mod event_streams;
mod merge_patch;
mod overview;
mod overviews;
mod rooms;
mod rounding;
mod stages;
mod viewers;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Response, Sse};
use axum::{Extension, Json};
use glassline_access::auth::Role;

use super::api::StreamPath;
use super::extract::{Path, Query};
use super::openapi::{Operation, Routes};
use super::operators::Visitor;
use super::problem::Problem;
use super::server::Waiter;
use super::{pages, snapshot};
use crate::app::App;
pub(super) use event_streams::EventStreams;
use overview::Overview;
pub(super) use overviews::Overviews;
use stages::Second;

const EVENTS: &str = "text/event-stream";

/// Returns the routes of the dashboard.
pub(super) fn routes() -> Routes {
    let no_stream = "There is no stream of this name";
    Routes::default()
        .get(
            "/",
            Operation::new("getDashboard", "Shows the server on a page").plain(
                200,
                "text/html",
                "The page",
            ),
            pages::dashboard,
        )
        .get(
            "/api/v1/overview",
            Operation::new(
                "getOverview",
                "Returns what the dashboard shows, or tells each change",
            )
            .json::<Overview>(200)
            .plain(200, EVENTS, "All of it, and then a merge patch each second"),
            overview,
        )
        .get(
            "/api/v1/streams/{name}/stages",
            Operation::new(
                "getStages",
                "Returns the delays of a stream by stage, or tells them each second",
            )
            .json::<Second>(200)
            .plain(200, EVENTS, "The delays of each second")
            .problem(404, no_stream),
            stages,
        )
        .get(
            "/api/v1/streams/{name}/snapshot.jpg",
            Operation::new("getSnapshot", "Returns the newest keyframe as an image")
                .plain(200, "image/jpeg", "The image")
                .problem(404, "There is no such stream, or it has no video")
                .problem(409, "The source comes when somebody watches")
                .problem(501, "There is no decoder for the codec")
                .problem(503, "There is no keyframe yet"),
            newest_keyframe,
        )
        .on(
            Method::POST,
            "/api/v1/streams/{name}/keyframe",
            Operation::new("requestKeyframe", "Requests a keyframe from a source")
                .problem(404, no_stream)
                .needs(Role::Operator),
            actions::request_keyframe,
        )
        .on(
            Method::DELETE,
            "/api/v1/streams/{name}/publisher",
            Operation::new(
                "endPublisher",
                "Ends the session of whoever publishes a stream",
            )
            .problem(404, no_stream)
            .problem(409, "Nobody publishes the stream to this server")
            .needs(Role::Operator),
            actions::end_publisher,
        )
        .on(
            Method::POST,
            "/api/v1/streams/{name}/publisher/exclusion",
            Operation::new(
                "excludePublisher",
                "Ends the session of whoever publishes a stream, and keeps it away for an hour",
            )
            .problem(404, no_stream)
            .problem(
                409,
                "Nobody publishes the stream, or the client cannot be told from others",
            )
            .problem(413, "Too many are kept away already")
            .needs(Role::Operator),
            actions::exclude_publisher,
        )
        .on(
            Method::POST,
            "/api/v1/viewers/{protocol}/{name}/exclusion",
            Operation::new(
                "excludeViewer",
                "Ends the session of a viewer, and keeps it away from the stream for an hour",
            )
            .problem(404, "There is no such viewer")
            .problem(409, "The viewer cannot be told from others")
            .problem(413, "Too many are kept away already")
            .needs(Role::Operator),
            actions::exclude,
        )
        .on(
            Method::DELETE,
            "/api/v1/viewers/{protocol}/{name}",
            Operation::new("disconnectViewer", "Ends the session of a viewer")
                .problem(404, "There is no such viewer")
                .problem(409, "Several viewers have names that begin like this")
                .needs(Role::Operator),
            actions::disconnect,
        )
}

/// Returns whether a client asks for events, as `EventSource` does.
fn wants_events(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT);
    accept.is_some_and(|it| it.to_str().is_ok_and(|it| it.contains(EVENTS)))
}

/// Returns what the dashboard shows. A client that accepts events gets all of it, and then each second
/// what has changed, as a merge patch (RFC 7396): `GET /api/v1/overview`.
async fn overview(
    State(app): State<App>,
    Extension(overviews): Extension<Arc<Overviews>>,
    Extension(streams): Extension<EventStreams>,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !wants_events(&headers) {
        let json = [(header::CONTENT_TYPE, "application/json")];
        return Ok((json, overviews.latest(&app).await).into_response());
    }
    let events = streams.admit(visitor, overviews.events(app));
    Ok(Sse::new(events).into_response())
}

/// Returns the delays of a stream, each second if the client accepts events:
/// `GET /api/v1/streams/{name}/stages`.
async fn stages(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
    Extension(streams): Extension<EventStreams>,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let stream = app
        .hub
        .stream(&name)
        .ok_or_else(|| Problem::no_stream(&name))?;
    let mut watch = stages::Watch::new(app, stream);
    match wants_events(&headers) {
        true => {
            let events = streams.admit(visitor, watch.events());
            Ok(Sse::new(events).into_response())
        }
        false => Ok(Json(watch.second()).into_response()),
    }
}

/// Answers with the newest keyframe of a stream: `GET /api/v1/streams/{name}/snapshot.jpg`.
async fn newest_keyframe(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
    Query(size): Query<snapshot::Size>,
    waiter: Waiter,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let stream = app
        .hub
        .stream(&name)
        .ok_or_else(|| Problem::no_stream(&name))?;
    snapshot::answer(&app, (&stream, None), size.limit()?, &headers, &waiter).await
}
