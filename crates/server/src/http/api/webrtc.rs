//! What operators see of WebRTC viewers: which way each one's datagrams go.

use std::collections::BTreeMap;
use std::fmt::Write;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::http::App;
use crate::latency::{DataPublisher, ViewerPath};
use crate::metrics::family::head;

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

/// How many viewers of each stream are reached directly, and by relays.
pub(crate) fn metrics(app: &App, text: &mut String) {
    let mut counts: BTreeMap<(String, bool), usize> = BTreeMap::new();
    for viewer in app.board.selected() {
        let key = (viewer.stream, viewer.path.relayed);
        *counts.entry(key).or_default() += 1;
    }
    head(
        text,
        "webrtc_paths",
        "gauge",
        "WebRTC viewers by the way to them: direct, or relayed by a TURN server.",
    );
    for ((stream, relayed), count) in counts {
        let path = if relayed { "relayed" } else { "direct" };
        let _ = writeln!(
            text,
            "glassline_webrtc_paths{{stream=\"{stream}\",path=\"{path}\"}} {count}"
        );
    }
}
