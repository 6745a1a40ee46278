//! WHEP: one HTTP exchange creates a viewer's session (draft-ietf-wish-whep-03).
//!
//! A `POST` of an offer returns `201` with the answer. The session's URL then takes `PATCH` (ICE
//! candidates, ICE restart) and `DELETE`.

use axum::body::Body;
use axum::extract::{ConnectInfo, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{MethodRouter, get, patch, post};

use glassline_access::auth::Action;
use glassline_events::failures::ClientRole;

use super::extract::{Path, has_word};
use super::problem::Problem;
use super::rules::{Errand, Right, Rules, instant};
use super::server::Waiter;
use super::stream_path::name_in_path;
use super::viewer_routes::ViewerRoutes;
use super::{api, body, layer_request, past, resource, viewer_events};
use crate::app::App;
use crate::sessions::{ConnectionAddresses, Offer};

/// Returns the routes of viewers.
pub(super) fn routes() -> ViewerRoutes {
    let viewer = ClientRole::Viewer;
    let offers = post(offer).get(resource::endpoint);
    ViewerRoutes::of("whep")
        .route(
            "/{stream}/whep",
            Right::Read
                .offers_of(viewer)
                .going_on_with(Errand::Watch)
                .with_instants(),
            resource::of_offers(offers),
        )
        .route(
            "/{stream}/whep/{session}",
            Right::Read.sessions_of(viewer),
            session_methods(),
        )
        .route(
            "/{stream}/whep/{session}/report",
            Rules::from(Right::Read).going_on_with(Errand::Watch),
            post(api::report),
        )
        .route(
            "/{stream}/whep/{session}/clock",
            Right::Read,
            get(api::clock),
        )
        .route(
            "/{stream}/whep/{session}/layer",
            Right::Read,
            resource::of_offers(post(layer_request::choose)),
        )
        .route(
            "/{stream}/whep/{session}/sse",
            Right::Read,
            resource::of_offers(post(viewer_events::subscribe).get(viewer_events::follow_at_once)),
        )
        .route(
            "/{stream}/whep/{session}/sse/layers",
            Right::Read,
            resource::of_offers(
                get(viewer_events::follow_subscribed).delete(viewer_events::unsubscribe),
            ),
        )
        .route(
            "/{stream}/whep/{session}/at",
            Right::Do(Action::Playback),
            post(past::go_to),
        )
        .route(
            "/{stream}/whep/{session}/failure",
            Right::Read,
            post(give_up),
        )
}

/// Returns the methods of a session whose URL names the stream.
pub(super) fn session_methods() -> MethodRouter<App> {
    resource::of_offers(patch(change).get(present).delete(leave))
}

/// Answers a viewer's offer: `POST /{stream}/whep`.
async fn offer(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    waiter: Waiter,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    resource::expect_type(&headers, resource::SDP)?;
    let body = body::read(body).await?;
    let sdp = resource::text(&body)?;
    let layer = layer_request::wish(query.as_deref())?;
    let offer = Offer {
        transcodes_video: has_word(query.as_deref(), "transcode"),
        layer: layer.as_ref(),
        ..Offer::new(sdp, connection)
    };
    let answered = match instant(query.as_deref()) {
        Some(at) => {
            waiter
                .during(past::watch(&app, &name, &at, offer))
                .await??
        }
        None => waiter.during(app.sessions.watch(&name, offer)).await??,
    };
    let name = name_in_path(&name);
    let location = format!("/{name}/whep/{}", answered.record.id.as_str());
    let mut created = resource::created(&app, answered, location.clone());
    viewer_events::announce(&mut created, &location);
    Ok(created)
}

/// Adds a viewer's candidates, or restarts ICE: `PATCH /{stream}/whep/{session}`.
async fn change(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Path((name, session)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let record = resource::find(&app.sessions, &name, &session)?;
    resource::change(&app.sessions, &record, connection, &headers, body).await
}

/// Tells that a session exists: `GET` and `HEAD /{stream}/whep/{session}`.
async fn present(
    State(app): State<App>,
    Path((name, session)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    resource::find(&app.sessions, &name, &session).map(|_| StatusCode::NO_CONTENT)
}

/// Ends a session that does not connect, with what the client has seen, and answers 410 with the
/// reason: `POST /{stream}/whep/{session}/failure`, and the same of WHIP.
pub(super) async fn give_up(
    State(app): State<App>,
    Path((name, session)): Path<(String, String)>,
    body: Body,
) -> Result<Response, Problem> {
    let record = resource::find(&app.sessions, &name, &session)?;
    resource::give_up(&app.sessions, &record, body).await
}

/// Ends a viewer's session: `DELETE /{stream}/whep/{session}`.
async fn leave(
    State(app): State<App>,
    Path((name, session)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let record = resource::find(&app.sessions, &name, &session)?;
    resource::end(&app.sessions, &record).await
}
