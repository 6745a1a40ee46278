//! What an operator does to streams and viewers from the dashboard.

use std::net::SocketAddr;

use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::http::api::StreamPath;
use crate::http::created::NoContent;
use crate::http::extract::{Path, Query};
use crate::http::problem::Problem;
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
    match protocol.as_str() {
        "webrtc" => disconnect_webrtc(&app, &stream.unwrap_or_default(), &name).await?,
        "rtsp" => disconnect_rtsp(&app, &name).await?,
        "moq" => {
            let id = name.parse().map_err(|_| no_viewer(&name))?;
            let quic = app.quic.as_ref();
            if !quic.is_some_and(|quic| quic.dismiss(id)) {
                return Err(no_viewer(&name));
            }
        }
        _ => {
            let detail = format!("'{protocol}' is none of webrtc, rtsp and moq");
            return Err(Problem::new(
                StatusCode::NOT_FOUND,
                "No such protocol",
                detail,
            ));
        }
    }
    Ok(NoContent)
}

async fn disconnect_webrtc(app: &App, stream: &str, viewer: &str) -> Result<(), Problem> {
    if stream.is_empty() || viewer.is_empty() {
        let detail = "a WebRTC viewer is named by its letters and ?stream=NAME";
        return Err(Problem::bad_request(detail));
    }
    let found = app.sessions.beginning_with(stream, viewer);
    let [record] = found.as_slice() else {
        return Err(match found.len() {
            0 => no_viewer(viewer),
            several => Problem::new(
                StatusCode::CONFLICT,
                "Several viewers",
                format!("{several} viewers of '{stream}' have names that begin with '{viewer}'"),
            ),
        });
    };
    match app.sessions.dismiss(record).await {
        // The viewer left in the meantime.
        Ok(()) | Err(ChangeError::Ended) => Ok(()),
        Err(busy) => Err(busy.into()),
    }
}

async fn disconnect_rtsp(app: &App, viewer: &str) -> Result<(), Problem> {
    let address: SocketAddr = viewer.parse().map_err(|_| no_viewer(viewer))?;
    for thread in app.rtsp.iter().flat_map(|rtsp| rtsp.threads()) {
        if thread.dismiss(address).await == Some(true) {
            return Ok(());
        }
    }
    Err(no_viewer(viewer))
}

fn no_viewer(viewer: &str) -> Problem {
    let detail = format!("no viewer is called '{viewer}'; it may have left");
    Problem::new(StatusCode::NOT_FOUND, "No such viewer", detail)
}
