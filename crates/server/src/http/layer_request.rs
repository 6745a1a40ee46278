//! A viewer's request for a layer of its video: `POST /{stream}/whep/{session}/layer`.

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use glassline_egress::webrtc::LayerRequest;
use glassline_hub::StreamName;
use glassline_media::{Kind, LayerAbsence, LayerIndex};
use serde::Deserialize;

use super::extract::Path;
use super::problem::Problem;
use super::{body, resource};
use crate::app::App;

/// The request as a client writes it. Without a layer, the server chooses by what the path carries.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RequestBody {
    /// Identifier of the wanted layer.
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
        Some(rid) => Some(layer_of(&app, &record.stream, rid)?),
    };
    let request = LayerRequest {
        pin,
        height: request.max_height,
    };
    app.sessions.request_layer(&record, request)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the layer of the stream's video that has this identifier.
fn layer_of(app: &App, name: &StreamName, rid: &str) -> Result<LayerIndex, Problem> {
    let tracks = app.hub.stream(name.as_str()).map(|stream| stream.tracks());
    let tracks = tracks.iter().flat_map(|it| it.iter());
    let mut videos = tracks.filter(|it| it.kind() == Kind::Video);
    let video = videos.next();
    let layers = video.map_or(&[][..], |it| &it.layers);
    let refused =
        |detail: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "No such layer", detail);
    let Some(place) = layers.iter().position(|it| it.rid == rid) else {
        let known: Vec<&str> = layers.iter().map(|it| it.rid.as_str()).collect();
        let known = match known.is_empty() {
            true => "the stream has a single one".to_owned(),
            false => format!("the stream has {}", known.join(", ")),
        };
        return Err(refused(format!(
            "there is no layer {rid}: {known}; without a rid the server chooses"
        )));
    };
    if let Some(other) = &layers[place].other_codec {
        let codec = other.codec;
        return Err(refused(format!(
            "the layer {rid} is in {codec}, which only viewers get that do not decode the other layers"
        )));
    }
    if let Some(LayerAbsence::Failed(why)) = &layers[place].absence {
        return Err(refused(format!("the layer {rid} does not come: {why}")));
    }
    Ok(LayerIndex::of_encoding(place))
}
