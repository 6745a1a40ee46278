//! What an operator does to streams and viewers from the dashboard.

use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::http::api::StreamPath;
use crate::http::created::NoContent;
use crate::http::extract::{Path, Query};
use crate::http::problem::Problem;
use crate::service::{self, NotEnded};
use crate::sessions::ChangeError;

/// The viewer that a path names.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct NamedViewer {
    /// `webrtc`, `rtsp` or `moq`.
    protocol: String,
    /// What lists call the viewer: the first letters of a WebRTC session, the address of an RTSP
    /// client, or the number of a QUIC session.
    name: String,
}

/// Which stream a WebRTC viewer watches; its short name need be unique there only.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Watching {
    /// The stream that a WebRTC viewer watches.
    stream: Option<String>,
}

/// Requests a keyframe from the source of a stream: `POST /api/v1/streams/{name}/keyframe`. A source
/// that cannot make one goes on as before.
pub(super) async fn request_keyframe(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
) -> Result<NoContent, Problem> {
    let stream = app
        .hub
        .stream(&name)
        .ok_or_else(|| Problem::no_stream(&name))?;
    stream.request_keyframe();
    Ok(NoContent)
}

/// Ends the session of a viewer, who may come back:
/// `DELETE /api/v1/viewers/{protocol}/{name}[?stream=NAME]`.
pub(super) async fn disconnect(
    State(app): State<App>,
    Path(NamedViewer { protocol, name }): Path<NamedViewer>,
    Query(Watching { stream }): Query<Watching>,
) -> Result<NoContent, Problem> {
    let Some(service) = app.services.named(&protocol) else {
        let names: Vec<&str> = app.services.iter().map(|it| it.name()).collect();
        let (last, others) = names.split_last().unwrap_or((&"", &[]));
        let detail = format!("'{protocol}' is none of {} and {last}", others.join(", "));
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            "No such protocol",
            detail,
        ));
    };
    let viewer = service::NamedViewer { name, stream };
    let ended = service.disconnect(&viewer).await;
    ended.map_err(|error| not_ended(&viewer, &error))?;
    Ok(NoContent)
}

fn not_ended(viewer: &service::NamedViewer, error: &NotEnded) -> Problem {
    let name = &viewer.name;
    match error {
        NotEnded::Misnamed(rule) => Problem::bad_request(*rule),
        NotEnded::Unknown => {
            let detail = format!("no viewer is called '{name}'; it may have left");
            Problem::new(StatusCode::NOT_FOUND, "No such viewer", detail)
        }
        NotEnded::Several(several) => {
            let stream = viewer.stream.as_deref().unwrap_or_default();
            let detail =
                format!("{several} viewers of '{stream}' have names that begin with '{name}'");
            Problem::new(StatusCode::CONFLICT, "Several viewers", detail)
        }
        NotEnded::Busy => ChangeError::Busy.into(),
    }
}
