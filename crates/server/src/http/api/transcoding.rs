//! The API for operators about transcodings.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::app::App;
use crate::transcoding::TranscodingView;

/// Body of the list of all transcodings.
#[derive(Debug, Serialize)]
pub(crate) struct Transcodings {
    /// Most streams whose audio is transcoded at the same time.
    limit: usize,
    /// Most streams whose video is transcoded at the same time.
    video_limit: usize,
    transcodings: Vec<TranscodingView>,
}

/// Lists the tracks that are transcoded: `GET /api/v1/transcodings`.
pub(crate) async fn transcodings(State(app): State<App>) -> Json<Transcodings> {
    Json(Transcodings {
        limit: app.config.transcoding.audio_streams,
        video_limit: app.config.transcoding.video_streams,
        transcodings: app.transcoders.views(Instant::now()),
    })
}
