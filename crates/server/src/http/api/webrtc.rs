//! The API for operators about WebRTC: the selected path of each viewer, and the publishers of
//! messages.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::app::App;
use crate::latency::{DataPublisher, ViewerPath};

/// Body of the list of all connected viewers.
#[derive(Debug, Serialize)]
pub(crate) struct Viewers {
    viewers: Vec<ViewerPath>,
}

/// Lists all connected viewers: `GET /api/v1/webrtc/viewers`.
pub(crate) async fn viewers(State(app): State<App>) -> Json<Viewers> {
    Json(Viewers {
        viewers: app.latencies.selected(),
    })
}

/// All publishers of messages next to streams.
#[derive(Debug, Serialize)]
pub(crate) struct Publishers {
    publishers: Vec<DataPublisher>,
}

/// Lists the publishers of messages: `GET /api/v1/webrtc/data-publishers`.
pub(crate) async fn publishers(State(app): State<App>) -> Json<Publishers> {
    Json(Publishers {
        publishers: app.latencies.data_publishers(),
    })
}
