//! `/api/v1/config` and `/api/v1/reloads`: the configuration in force, and what became of reading it
//! again.

use std::time::UNIX_EPOCH;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use glassline_access::auth::Role;
use glassline_config::reason_for_restart;
use glassline_service::settings::{Cause, Outcome, RecordedReload};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::super::openapi::{Operation, Routes};
use super::super::paging::{Extent, Page};
use super::super::problem::Problem;
use crate::app::App;

pub(super) fn routes() -> Routes {
    Routes::default()
        .get(
            "/api/v1/config",
            Operation::new(
                "getConfig",
                "Returns the configuration in force, with secrets hidden",
            )
            .needs(Role::Admin),
            config,
        )
        .get(
            "/api/v1/reloads",
            Operation::new(
                "listReloads",
                "Lists what became of reading the configuration again, the newest first",
            ),
            list,
        )
        .on(
            axum::http::Method::POST,
            "/api/v1/reloads",
            Operation::new(
                "reload",
                "Reads the configuration, users and certificates again, and says what has changed",
            )
            .needs(Role::Operator)
            .problem(409, "The server was started without a file")
            .problem(
                422,
                "The content cannot be put in force, and nothing has changed",
            ),
            reload,
        )
}

/// One reading of the configuration.
#[derive(Debug, Serialize, JsonSchema)]
struct ReloadView {
    /// Number of the reading since the server started.
    number: u64,
    /// Calendar time in ms since 1970 (UTC).
    at_ms: u64,
    /// Time from reading the file to the end of the change, in ms.
    took_ms: f64,
    cause: Cause,
    /// The outcome of the key: `applied`, `unchanged` or `refused`.
    outcome: &'static str,
    /// The reason why it was refused; null if it was not.
    error: Option<String>,
    /// Keys whose new values are in force.
    changed: Vec<String>,
    /// Keys that differ from the start of the server and are heeded after a restart only.
    needs_restart: Vec<String>,
    /// The keys that wait for a restart, each with the reason.
    restart: Vec<AwaitedKey>,
}

/// A key that is heeded after a restart only.
#[derive(Debug, Serialize, JsonSchema)]
struct AwaitedKey {
    key: String,
    /// The reason why  in words that follow the key and a colon.
    reason: &'static str,
}

impl From<&String> for AwaitedKey {
    fn from(key: &String) -> Self {
        Self {
            key: key.clone(),
            reason: reason_for_restart(key),
        }
    }
}

impl From<RecordedReload> for ReloadView {
    fn from(RecordedReload { number, at, reload }: RecordedReload) -> Self {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (outcome, error) = match reload.outcome {
            Outcome::Applied => ("applied", None),
            Outcome::Unchanged => ("unchanged", None),
            Outcome::Refused(error) => ("refused", Some(error)),
        };
        Self {
            number,
            at_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            took_ms: reload.took.as_secs_f64() * 1_000.0,
            cause: reload.cause,
            outcome,
            error,
            changed: reload.changed,
            restart: reload.needs_restart.iter().map(AwaitedKey::from).collect(),
            needs_restart: reload.needs_restart,
        }
    }
}

/// A page of readings.
#[derive(Debug, Serialize, JsonSchema)]
struct Reloads {
    reloads: Vec<ReloadView>,
    #[serde(flatten)]
    extent: Extent,
}

async fn list(State(app): State<App>, page: Page) -> Json<Reloads> {
    let (reloads, extent) = page.of(app.settings.history.newest());
    Json(Reloads {
        reloads: reloads.into_iter().map(ReloadView::from).collect(),
        extent,
    })
}

async fn reload(State(app): State<App>) -> Result<Json<ReloadView>, Problem> {
    let requests = &app.settings.requests;
    let before = app.settings.history.latest().map(|it| it.number);
    requests.done(requests.ask(Cause::Api)).await;
    let latest = app.settings.history.latest();
    let Some(latest) = latest.filter(|it| Some(it.number) != before) else {
        let detail = "the server was started without a configuration file, so there is nothing to \
                      read again but certificates: start it with `glassline serve FILE`";
        return Err(Problem::new(StatusCode::CONFLICT, "No file", detail));
    };
    if let Outcome::Refused(error) = &latest.reload.outcome {
        let title = "Configuration refused";
        return Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            title,
            error.clone(),
        ));
    }
    Ok(Json(latest.into()))
}

async fn config(State(app): State<App>) -> Json<Value> {
    let config = serde_json::to_value(&*app.config());
    Json(config.expect("a configuration is plain data"))
}
