//! The API for operators about transcodings.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use glassline_transcoding::TranscodingView;

use super::super::extract::Query;
use super::super::paging::{Extent, Page};
use super::OfStream;
use crate::app::App;

/// A page of the list of transcodings.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Transcodings {
    /// Most streams whose audio is transcoded at the same time.
    audio_limit: usize,
    /// Most streams whose video is transcoded at the same time.
    video_limit: usize,
    transcodings: Vec<TranscodingView>,
    #[serde(flatten)]
    extent: Extent,
}

/// Lists the tracks that are transcoded: `GET /api/v1/transcodings`.
pub(in crate::http) async fn transcodings(
    State(app): State<App>,
    Query(filter): Query<OfStream>,
    page: Page,
) -> Json<Transcodings> {
    let mut transcodings = app.transcoders.views(Instant::now());
    transcodings.retain(|it| filter.wants(&it.stream));
    transcodings.sort_by(|a, b| (&a.stream, a.track).cmp(&(&b.stream, b.track)));
    let (transcodings, extent) = page.of(transcodings);
    let limits = &app.config().transcoding;
    Json(Transcodings {
        audio_limit: limits.audio_streams,
        video_limit: limits.video_streams(),
        transcodings,
        extent,
    })
}
