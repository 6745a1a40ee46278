//! Answers to the HTTP-01 challenges of an authority (RFC 8555 §8.3).
//!
//! The authority asks by the names of the order, over plain HTTP and without credentials. Only the
//! tokens of the order that is under way are answered.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::extract::Path;
use super::problem::Problem;
use super::rules::Right;
use super::viewer_routes::ViewerRoutes;
use crate::app::App;

/// Returns the route of challenges. An authority has no credentials, and asks by names that may not be
/// configured elsewhere.
pub(super) fn routes() -> ViewerRoutes {
    ViewerRoutes::default().route(
        "/.well-known/acme-challenge/{token}",
        Right::Nothing,
        get(answer),
    )
}

/// `GET /.well-known/acme-challenge/{token}`
async fn answer(State(app): State<App>, Path(token): Path<String>) -> Result<Response, Problem> {
    let challenges = app.tls.challenges.as_ref();
    let answer = challenges.and_then(|challenges| challenges.key_authorization(&token));
    let answer = answer.ok_or_else(|| {
        let detail = "no certificate is being ordered with this token";
        Problem::new(StatusCode::NOT_FOUND, "No such challenge", detail)
    })?;
    let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
    Ok((kind, answer).into_response())
}
