//! A viewer's wish for a layer of its video: `POST /{stream}/whep/{session}/layer`.

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use glassline_egress::webrtc::Wish;
use glassline_hub::StreamName;
use glassline_media::{Kind, LayerIndex};
use serde::Deserialize;

use super::extract::Path;
use super::problem::Problem;
use super::{body, resource};
use crate::app::App;

/// The wish as a client writes it. Without a layer, the server chooses by what the path carries.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LayerWish {
    /// Identifier of the wanted layer.
    #[serde(alias = "encodingId")]
    rid: Option<String>,
    /// Height of the element that shows the video, in pixels.
    max_height: Option<u32>,
}

/// Takes a viewer's wish, and answers 204.
pub(super) async fn choose(
    State(app): State<App>,
    Path((name, session)): Path<(String, String)>,
    body: Body,
) -> Result<StatusCode, Problem> {
    let record = resource::find(&app.sessions, &name, &session)?;
    let body = body::read(body).await?;
    let wish = match body.is_empty() {
        true => LayerWish::default(),
        false => serde_json::from_slice(&body).map_err(|error| {
            let line = error.line();
            Problem::bad_request(format!("not a wish for a layer: {error}")).with("line", line)
        })?,
    };
    let pin = match &wish.rid {
        None => None,
        Some(rid) => Some(layer_of(&app, &record.stream, rid)?),
    };
    let wish = Wish {
        pin,
        height: wish.max_height,
    };
    app.sessions.wish_layer(&record, wish)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the layer of the stream's video that has this identifier.
fn layer_of(app: &App, name: &StreamName, rid: &str) -> Result<LayerIndex, Problem> {
    let tracks = app.hub.stream(name.as_str()).map(|stream| stream.tracks());
    let layers = tracks.iter().flat_map(|it| it.iter());
    let layers = layers.filter(|it| it.kind() == Kind::Video);
    let layers: Vec<&str> = layers
        .flat_map(|it| it.layers.iter().map(|layer| layer.rid.as_str()))
        .collect();
    let place = layers.iter().position(|it| *it == rid);
    place.map(LayerIndex::of_encoding).ok_or_else(|| {
        let known = match layers.is_empty() {
            true => "the stream has a single one".to_owned(),
            false => format!("the stream has {}", layers.join(", ")),
        };
        let detail = format!("there is no layer {rid}: {known}; without a rid the server chooses");
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "No such layer", detail)
    })
}
