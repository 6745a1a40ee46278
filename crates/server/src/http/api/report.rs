//! What a player measured of its frames, joined with what the server knows of them.

use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use glassline_latency::{self as latency, FrameStamps, LayerView, Origins, Report, ViewerLatency};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::extract::Path;
use super::super::problem::Problem;
use super::super::session_layers::{SessionLayer, SessionLayers};
use super::super::{body, resource};
use crate::app::App;
use crate::sessions::{ChangeError, SessionRecord};

/// Returns the server's stamps of the frames of a report, which the viewer's shard has.
async fn stamps(
    app: &App,
    record: &SessionRecord,
    report: &Report,
) -> Result<Vec<Option<FrameStamps>>, Problem> {
    let stamps = app.sessions.stamps(record, report.timestamps());
    let stamps = stamps.map_err(|error| match error {
        ChangeError::Busy => Problem::try_later(
            "Server busy",
            "the viewer's shard has too many requests waiting",
        ),
        other => other.into(),
    })?;
    stamps.await.map_err(|_| Problem::no_session())
}

/// The answer to the report of a player.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::http) struct ReportAnswer {
    #[serde(flatten)]
    latency: ViewerLatency,
    /// Layer of the video that the viewer gets by its path; absent for a stream with a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<LayerView>,
    /// The layers among which the viewer can choose; absent where there is no choice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    layers: Vec<SessionLayer>,
    /// Seconds after which the player should report again: 1, and up to 3 where many players report.
    report_every_s: u64,
}

/// Takes a player's measurements of its frames: `POST /{stream}/whep/{session}/report`.
pub(in crate::http) async fn report(
    State(app): State<App>,
    Path((name, session)): Path<(String, String)>,
    body: Body,
) -> Result<Json<ReportAnswer>, Problem> {
    let record = resource::find(&app.sessions, &name, &session)?;
    let body = body::read(body).await?;
    let report = Report::read(&body).map_err(|error| {
        let line = error.line();
        Problem::bad_request(format!("not a report: {error}")).with("line", line)
    })?;
    report
        .check()
        .map_err(|error| Problem::bad_request(error.to_string()))?;
    if !record.take_report(Instant::now()) {
        return Err(Problem::too_many_reports());
    }
    let mut report = report.without_doubles();
    if record.plays_past() {
        // The delay of a frame that was recorded says nothing of the stream.
        report.frames.clear();
    }
    let stamps = if report.frames.is_empty() {
        Vec::new()
    } else {
        stamps(&app, &record, &report).await?
    };
    let (code, captures) = (app.frame_code(&name), app.sessions.captures(&record.stream));
    let origins = Origins {
        code: code.as_ref(),
        captures: captures.as_deref(),
    };
    let joined = latency::join(&report, &stamps, origins, &app.clock);
    let now = Instant::now();
    let (stream, viewer) = (&record.stream, &record.id);
    let mut figures = app.latencies.report(stream, viewer, &joined, now);
    if !report.details {
        figures.frames = Vec::new();
    }
    let answer = ReportAnswer {
        latency: figures,
        layer: app.latencies.layer(stream, viewer, now),
        layers: SessionLayers::of(&app, &record, now).layers,
        report_every_s: app.latencies.report_interval_s(now),
    };
    // The session may have ended while its shard was asked; then nobody else removes what was
    // written here.
    if app.sessions.by_id(&record.id).is_none() {
        app.latencies.forget(&record.stream, &record.id);
    }
    Ok(Json(answer))
}
