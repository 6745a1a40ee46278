//! The API for operators about WebRTC: the selected path of each viewer, and the publishers of
//! messages.

use axum::Json;
use axum::extract::State;
use glassline_latency::{DataPublisher, ViewerPath};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::extract::Query;
use super::super::paging::{Extent, Page};
use super::OfStream;
use crate::app::App;

/// A page of the list of connected viewers.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Viewers {
    viewers: Vec<ViewerPath>,
    #[serde(flatten)]
    extent: Extent,
}

/// Lists the connected viewers: `GET /api/v1/webrtc/viewers`.
pub(in crate::http) async fn viewers(
    State(app): State<App>,
    Query(filter): Query<OfStream>,
    page: Page,
) -> Json<Viewers> {
    let mut viewers = app.latencies.selected();
    viewers.retain(|it| filter.wants(&it.stream));
    viewers.sort_by(|a, b| (&a.stream, &a.viewer).cmp(&(&b.stream, &b.viewer)));
    let (viewers, extent) = page.of(viewers);
    Json(Viewers { viewers, extent })
}

/// A page of the list of publishers of messages next to streams.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DataPublishers")]
pub(crate) struct Publishers {
    publishers: Vec<DataPublisher>,
    #[serde(flatten)]
    extent: Extent,
}

/// Lists the publishers of messages: `GET /api/v1/webrtc/data-publishers`.
pub(in crate::http) async fn publishers(
    State(app): State<App>,
    Query(filter): Query<OfStream>,
    page: Page,
) -> Json<Publishers> {
    let mut publishers = app.latencies.data_publishers();
    publishers.retain(|it| filter.wants(&it.stream));
    publishers.sort_by(|a, b| (&a.stream, &a.publisher).cmp(&(&b.stream, &b.publisher)));
    let (publishers, extent) = page.of(publishers);
    Json(Publishers { publishers, extent })
}
