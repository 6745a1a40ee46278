//! `POST /api/v1/faults`: makes a thread of this process fail, or its calendar jump, for tests.
//!
//! The route exists in a build with debug assertions only, which no release has.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use glassline_runtime::{Fault, FaultPoint, calendar};
use schemars::JsonSchema;
use serde::Deserialize;

use super::extract::Query;
use super::problem::Problem;
use crate::app::App;

/// The fault to make.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "FaultRequest")]
pub(super) struct Request {
    /// Name of the thread, such as `shard-0`; `/healthz` lists them as JSON.
    #[serde(default)]
    thread: String,
    /// Place in the code of a task, instead of a thread.
    point: Option<FaultPoint>,
    kind: Kind,
    /// Time that the thread hangs.
    #[serde(default)]
    ms: u64,
    /// Step of the calendar in ms; negative for a step back.
    #[serde(default)]
    step_ms: i64,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// Panic while no peer is served.
    Panic,
    /// Panic while the next peer is served.
    PanicServing,
    /// Hang for `ms` milliseconds in the next turn.
    Hang,
    /// The calendar of this process jumps by `step_ms`.
    Calendar,
}

/// `POST /api/v1/faults?thread=NAME&kind=panic|panic-serving|hang[&ms=N]`,
/// `?point=NAME&kind=panic|hang[&ms=N]`, or `?kind=calendar&step_ms=N`
pub(super) async fn inject(
    State(app): State<App>,
    Query(request): Query<Request>,
) -> Result<StatusCode, Problem> {
    let fault = match request.kind {
        Kind::Panic => Fault::Panic,
        Kind::PanicServing => Fault::PanicServing,
        Kind::Hang => Fault::Hang(Duration::from_millis(request.ms)),
        Kind::Calendar => {
            calendar::step(request.step_ms);
            return Ok(StatusCode::ACCEPTED);
        }
    };
    if let Some(point) = request.point {
        app.supervisor.inject_at(point, fault);
        return Ok(StatusCode::ACCEPTED);
    }
    if app.supervisor.inject(&request.thread, fault) {
        return Ok(StatusCode::ACCEPTED);
    }
    let detail = format!("no thread is called '{}'", request.thread);
    Err(Problem::new(
        StatusCode::NOT_FOUND,
        "No such thread",
        detail,
    ))
}
