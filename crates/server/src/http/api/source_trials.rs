//! `/api/v1/source-trials`: a source is tried before it is made.

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use glassline_access::auth::Role;
use glassline_config::SourceKeys;
use glassline_ingest::{TrialError, Tried};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::extract::JsonBody;
use super::super::openapi::{Operation, Routes};
use super::super::problem::Problem;
use super::super::track_row::TrackRow;
use super::sources::panicked;
use crate::app::App;
use crate::stored::TrialRefusal;

/// Returns the route of trials, for operators.
pub(super) fn routes() -> Routes {
    Routes::default().on(
        Method::POST,
        "/api/v1/source-trials",
        Operation::new(
            "trySource",
            "Tries a source for some seconds, and returns what it found",
        )
        .needs(Role::Operator)
        .problem(403, "The address or file must not be named over the API")
        .problem(422, "The source cannot be understood")
        .problem(503, "Several sources are being tried now"),
        try_source,
    )
}

/// The finding of a trial of a source. Nothing of the source is kept.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SourceTrial")]
struct Trial {
    /// The source with its options; the password is hidden.
    source: String,
    /// Whether the source can be made as it is: media came, or a publisher is expected.
    works: bool,
    /// Tracks of the source.
    tracks: Vec<TrackRow>,
    /// The reason why no media came.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// The remedy that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'static str>,
}

async fn try_source(
    State(app): State<App>,
    JsonBody(keys): JsonBody<SourceKeys>,
) -> Result<Json<Trial>, Problem> {
    let sources = app.stored.sources.clone();
    // The place of a trial is free once its source has ended, also if the client goes away.
    let trying = tokio::spawn(async move { sources.try_source(keys).await });
    let (source, outcome) = trying.await.map_err(|_| panicked())??;
    let (tracks, error) = match outcome {
        Ok(Tried::Plays(tracks)) => (tracks, None),
        Ok(Tried::AwaitsPublisher) => (Vec::new(), None),
        Err(error) => (Vec::new(), Some(error)),
    };
    Ok(Json(Trial {
        source,
        works: error.is_none(),
        tracks: tracks.iter().map(TrackRow::from).collect(),
        problem: error.as_ref().map(ToString::to_string),
        remedy: error.as_ref().and_then(TrialError::remedy),
    }))
}

impl From<TrialRefusal> for Problem {
    fn from(refusal: TrialRefusal) -> Self {
        match refusal {
            TrialRefusal::Named(error) => error.into(),
            TrialRefusal::Busy => Self::try_later("Too many trials", refusal.to_string()),
        }
    }
}
