//! What an operator does to streams and viewers from the dashboard.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use glassline_service::{self as service, NotEnded, Service};

use crate::app::App;
use crate::http::api::StreamPath;
use crate::http::api::exclusions::{ExclusionView, exclude_viewer};
use crate::http::created::{Created, NoContent};
use crate::http::extract::{Path, Query};
use crate::http::problem::Problem;
use crate::sessions::ChangeError;

/// The viewer that a path names.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct NamedViewer {
    /// `webrtc`, `rtsp` or `moq`.
    protocol: String,
    /// The name of the viewer in lists: the first letters of a WebRTC session, the address of an RTSP
    /// client, or the number of a QUIC session.
    name: String,
}

/// Which stream a viewer watches; the short name of a WebRTC viewer need be unique there only.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Watching {
    /// The stream that the viewer watches; WebRTC viewers need it.
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

/// Ends whoever publishes a stream, who may come back: `DELETE /api/v1/streams/{name}/publisher`.
pub(super) async fn end_publisher(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
) -> Result<NoContent, Problem> {
    let (service, publisher) = publisher_of(&app, &name).await?;
    let ended = service.disconnect(&publisher).await;
    ended.map_err(|error| not_ended(&publisher, &error))?;
    Ok(NoContent)
}

/// Ends whoever publishes a stream, and keeps the client away from the stream for an hour:
/// `POST /api/v1/streams/{name}/publisher/exclusion`.
pub(super) async fn exclude_publisher(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
) -> Result<Created<ExclusionView>, Problem> {
    let (service, publisher) = publisher_of(&app, &name).await?;
    exclude_client(&app, service, &publisher).await
}

/// Returns who publishes a stream to this server, and by which protocol.
async fn publisher_of<'a>(
    app: &'a App,
    stream: &str,
) -> Result<(&'a Arc<dyn Service>, service::NamedViewer), Problem> {
    if app.hub.stream(stream).is_none() {
        return Err(Problem::no_stream(stream));
    }
    for service in app.services.iter() {
        if let Some(publisher) = service.publisher(stream).await {
            return Ok((service, publisher));
        }
    }
    let detail = format!("nobody publishes '{stream}' to this server at present");
    Err(Problem::new(StatusCode::CONFLICT, "No publisher", detail))
}

/// Ends the session of a viewer, who may come back:
/// `DELETE /api/v1/viewers/{protocol}/{name}[?stream=NAME]`.
pub(super) async fn disconnect(
    State(app): State<App>,
    Path(NamedViewer { protocol, name }): Path<NamedViewer>,
    Query(Watching { stream }): Query<Watching>,
) -> Result<NoContent, Problem> {
    let service = service_named(&app, &protocol)?;
    let viewer = service::NamedViewer { name, stream };
    let ended = service.disconnect(&viewer).await;
    ended.map_err(|error| not_ended(&viewer, &error))?;
    Ok(NoContent)
}

/// Ends the session of a viewer, and keeps it away from the stream for an hour:
/// `POST /api/v1/viewers/{protocol}/{name}/exclusion[?stream=NAME]`.
pub(super) async fn exclude(
    State(app): State<App>,
    Path(NamedViewer { protocol, name }): Path<NamedViewer>,
    Query(Watching { stream }): Query<Watching>,
) -> Result<Created<ExclusionView>, Problem> {
    let service = service_named(&app, &protocol)?;
    let viewer = service::NamedViewer { name, stream };
    exclude_client(&app, service, &viewer).await
}

/// Keeps a viewer or publisher away from its stream for an hour, and ends its session.
async fn exclude_client(
    app: &App,
    service: &Arc<dyn Service>,
    client: &service::NamedViewer,
) -> Result<Created<ExclusionView>, Problem> {
    let whom = service.excludable(client).await;
    let whom = whom.map_err(|error| not_ended(client, &error))?;
    let whom = whom.ok_or_else(|| {
        let detail = "the client has no user, and came through a proxy that other clients share: name \
                      the proxy in `http.trusted_proxies`, or take the right away";
        Problem::new(StatusCode::CONFLICT, "Not told from others", detail)
    })?;
    // First the exclusion: a page comes back within seconds.
    let made = exclude_viewer(app, whom, client.stream.clone())?;
    match service.disconnect(client).await {
        // The client left in the meantime.
        Ok(()) | Err(NotEnded::Unknown) => Ok(made),
        Err(error) => Err(not_ended(client, &error)),
    }
}

fn service_named<'a>(app: &'a App, protocol: &str) -> Result<&'a Arc<dyn Service>, Problem> {
    app.services.named(protocol).ok_or_else(|| {
        let names: Vec<&str> = app.services.iter().map(|it| it.name()).collect();
        let (last, others) = names.split_last().unwrap_or((&"", &[]));
        let detail = format!("'{protocol}' is none of {} and {last}", others.join(", "));
        Problem::new(StatusCode::NOT_FOUND, "No such protocol", detail)
    })
}

fn not_ended(viewer: &service::NamedViewer, error: &NotEnded) -> Problem {
    let name = &viewer.name;
    match error {
        NotEnded::Misnamed(rule) => Problem::bad_request(*rule),
        NotEnded::Unknown => {
            let detail = format!("nobody is called '{name}'; it may have left");
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
