//! `/api/v1/load-test`: the last run of `glassline bench viewers` against this server.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use glassline_access::auth::Role;

use super::super::created::NoContent;
use super::super::extract::JsonBody;
use super::super::openapi::{Operation, Routes};
use super::super::problem::Problem;
use super::sources::panicked;
use crate::app::App;
use crate::stored::{LoadTest, LoadTestError, StoredLoadTest};

/// Returns the routes of the last load test, for operators.
pub(super) fn routes() -> Routes {
    Routes::default()
        .get(
            "/api/v1/load-test",
            Operation::new("getLoadTest", "Returns the last load test of the server")
                .problem(404, "There is none"),
            get,
        )
        .on(
            Method::PUT,
            "/api/v1/load-test",
            Operation::new(
                "putLoadTest",
                "Keeps a report of `glassline bench viewers` as the last load test",
            )
            .problem(422, "It has no figures of the server")
            .problem(500, "It cannot be kept")
            .needs(Role::Operator),
            put,
        )
        .on(
            Method::DELETE,
            "/api/v1/load-test",
            Operation::new("deleteLoadTest", "Forgets the last load test")
                .problem(404, "There is none")
                .problem(500, "Its file cannot be removed")
                .needs(Role::Operator),
            delete,
        )
}

/// Returns the last load test: `GET /api/v1/load-test`.
async fn get(State(app): State<App>) -> Result<Json<LoadTest>, Problem> {
    let latest = app.stored.load_test.latest().ok_or_else(absent)?;
    Ok(Json(Arc::unwrap_or_clone(latest)))
}

/// Keeps a report of `glassline bench viewers --json` as it is, or the same without what is not
/// shown: `PUT /api/v1/load-test`.
async fn put(
    State(app): State<App>,
    JsonBody(load_test): JsonBody<LoadTest>,
) -> Result<NoContent, Problem> {
    on_disk(&app, move |stored| stored.put(load_test)).await?;
    Ok(NoContent)
}

/// Forgets the last load test: `DELETE /api/v1/load-test`.
async fn delete(State(app): State<App>) -> Result<NoContent, Problem> {
    let remove = |stored: &StoredLoadTest| stored.remove().map_err(LoadTestError::from);
    match on_disk(&app, remove).await? {
        true => Ok(NoContent),
        false => Err(absent()),
    }
}

/// Runs `change` on a thread that may wait for the disk.
async fn on_disk<T: Send + 'static>(
    app: &App,
    change: impl FnOnce(&StoredLoadTest) -> Result<T, LoadTestError> + Send + 'static,
) -> Result<T, Problem> {
    let stored = Arc::clone(&app.stored.load_test);
    let changed = app.stored.change(move || change(&stored)).await;
    changed.map_err(|_| panicked())?.map_err(Problem::from)
}

fn absent() -> Problem {
    let detail = "there is no load test: `glassline bench viewers URL --server-pid PID --report-to \
                  ADMIN_URL` makes one";
    Problem::new(StatusCode::NOT_FOUND, "No load test", detail)
}

impl From<LoadTestError> for Problem {
    fn from(error: LoadTestError) -> Self {
        let (status, title) = match error {
            LoadTestError::File(_) => (StatusCode::INTERNAL_SERVER_ERROR, "Not kept"),
            _ => (StatusCode::UNPROCESSABLE_ENTITY, "No load test"),
        };
        Self::new(status, title, error.to_string())
    }
}
