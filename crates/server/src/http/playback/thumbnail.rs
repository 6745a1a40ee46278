//! Thumbnails of recorded times: `GET /-/playback/thumbnail`.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;

use glassline_playback::ThumbnailOrder;

use super::super::extract::Query;
use super::super::problem::Problem;
use super::super::server::Waiter;
use super::super::snapshot::Size;
use super::{missing, moment, playback, subject};
use crate::app::App;

#[derive(Debug, Deserialize)]
pub(super) struct ThumbnailQuery {
    path: Option<String>,
    at: Option<String>,
    layer: Option<String>,
    width: Option<u16>,
    height: Option<u16>,
}

/// Answers with the keyframe before a time as an image.
pub(super) async fn thumbnail(
    State(app): State<App>,
    waiter: Waiter,
    Query(query): Query<ThumbnailQuery>,
) -> Result<Response, Problem> {
    let at = query.at.as_deref().ok_or_else(|| missing("at"))?;
    let order = ThumbnailOrder {
        of: subject(&app, query.path.as_deref(), query.layer.clone())?,
        at: moment("at", at)?,
        limit: Size::new(query.width, query.height).limit()?,
    };
    let thumbnail = waiter.during(playback(&app)?.thumbnail(order)).await??;
    let shown = [
        (header::CONTENT_TYPE, "image/jpeg"),
        (header::CACHE_CONTROL, "private, max-age=3600"),
    ];
    Ok((shown, thumbnail).into_response())
}
