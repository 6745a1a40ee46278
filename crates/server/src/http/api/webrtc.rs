//! What operators see of WebRTC: which way each viewer's datagrams go, and who publishes
//! messages.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::app::App;
use crate::latency::{DataPublisher, ViewerPath};

/// Every viewer that is connected.
#[derive(Debug, Serialize)]
pub(crate) struct Viewers {
    viewers: Vec<ViewerPath>,
}

/// `GET /api/v1/webrtc/viewers`
pub(crate) async fn viewers(State(app): State<App>) -> Json<Viewers> {
    Json(Viewers {
        viewers: app.board.selected(),
    })
}

/// Everybody who publishes messages beside a stream.
#[derive(Debug, Serialize)]
pub(crate) struct Publishers {
    publishers: Vec<DataPublisher>,
}

/// `GET /api/v1/webrtc/data-publishers`
pub(crate) async fn publishers(State(app): State<App>) -> Json<Publishers> {
    Json(Publishers {
        publishers: app.board.data_publishers(),
    })
}
