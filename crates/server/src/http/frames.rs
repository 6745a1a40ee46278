//! `GET /{stream}/pictures`: the pictures of Motion JPEG, which browsers do not take over WebRTC.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures_util::StreamExt as _;

use glassline_transcoding::snapshots::{FRAMES, NoFrames, Snapshots};

use super::extract::Path;
use super::problem::Problem;
use super::rules::Right;
use super::server::Waiter;
use super::snapshot::awaited_stream;
use super::viewer_routes::ViewerRoutes;
use crate::app::App;
use crate::sessions::ConnectionAddresses;

/// Returns the route of pictures.
pub(super) fn routes() -> ViewerRoutes {
    ViewerRoutes::default().route("/{stream}/pictures", Right::Read, get(frames))
}

/// Answers with one picture after the other for a minute. A source on demand is connected.
async fn frames(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    waiter: Waiter,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let (stream, _pull_demand) = awaited_stream(&app, connection, &waiter, &name).await?;
    let _demand = waiter.during(Snapshots::wake(&stream)).await?;
    let frames = app.snapshots.frames(&stream, waiter.source())?;
    let body = Body::from_stream(frames.map(Ok::<_, Infallible>));
    let fields = [
        (header::CONTENT_TYPE, FRAMES),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((fields, body).into_response())
}

impl From<NoFrames> for Problem {
    fn from(error: NoFrames) -> Self {
        let title = match error {
            NoFrames::NoVideo => "No video",
            NoFrames::Codec(_) => "No pictures",
        };
        Self::new(StatusCode::NOT_FOUND, title, error.to_string())
    }
}
