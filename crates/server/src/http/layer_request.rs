//! A viewer's request for a layer of its video: `POST /{stream}/whep/{session}/layer`.

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use glassline_egress::webrtc::LayerRequest;
use glassline_hub::{LayerWish, StreamName};
use glassline_media::LayerIndex;
use serde::Deserialize;

use super::extract::Path;
use super::problem::Problem;
use super::{body, resource};
use crate::app::App;

/// The request as a client writes it. Without a layer, the server chooses by what the path carries.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RequestBody {
    /// Identifier of the wanted layer, `low`, `high` or a height like `360p`.
    #[serde(alias = "encodingId")]
    rid: Option<String>,
    /// Height of the element that shows the video, in pixels.
    max_height: Option<u32>,
}

/// Takes a viewer's request, and answers 204.
pub(super) async fn choose(
    State(app): State<App>,
    Path((name, session)): Path<(String, String)>,
    body: Body,
) -> Result<StatusCode, Problem> {
    let record = resource::find(&app.sessions, &name, &session)?;
    let body = body::read(body).await?;
    let request = match body.is_empty() {
        true => RequestBody::default(),
        false => serde_json::from_slice(&body).map_err(|error| {
            let line = error.line();
            Problem::bad_request(format!("not a request for a layer: {error}")).with("line", line)
        })?,
    };
    let pin = match &request.rid {
        None => None,
        Some(rid) => Some(named(&app, &record.stream, rid)?),
    };
    let request = LayerRequest {
        pin,
        height: request.max_height,
    };
    app.sessions.request_layer(&record, request)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Reads `layer` of a query; `None` without one.
pub(super) fn wish(query: Option<&str>) -> Result<Option<LayerWish>, Problem> {
    let mut pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let named = pairs.find(|(key, _)| key == "layer");
    let wish = named.map(|(_, text)| text.parse::<LayerWish>()).transpose();
    wish.map_err(|error| Problem::bad_request(error.to_string()))
}

/// Returns the layer of the stream's video that a request names.
fn named(app: &App, name: &StreamName, rid: &str) -> Result<LayerIndex, Problem> {
    let wish: Result<LayerWish, _> = rid.parse();
    let wish = wish.map_err(|error| Problem::bad_request(error.to_string()))?;
    let stream = app.hub.stream(name.as_str());
    let stream = stream.ok_or_else(|| Problem::no_stream(name.as_str()))?;
    let named = stream.named_layer_of_codec(&wish);
    named
        .map(|it| it.layer)
        .map_err(|why| Problem::no_layer(&why))
}
