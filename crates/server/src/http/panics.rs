//! A panic while a request is answered: it costs that request.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use glassline_runtime::{FaultPoint, Part};

use super::problem::Problem;
use crate::app::App;

/// Answers with status 500 if the handler of a request panics.
pub(super) async fn contain(State(app): State<App>, request: Request, next: Next) -> Response {
    contained(&app, next.run(request)).await
}

/// Returns what `answering` returns, or status 500 if it panics.
pub(super) async fn contained(app: &App, answering: impl Future<Output = Response>) -> Response {
    let answered = async {
        app.supervisor.fault_point(FaultPoint::HttpRequest);
        answering.await
    };
    let answered = app.supervisor.catch_task(Part::Http, answered);
    answered.await.unwrap_or_else(|_| {
        let detail = "the server made a mistake; its log has the place in the code";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "Server error", detail).into_response()
    })
}
