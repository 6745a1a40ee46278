//! Answers of requests that create or delete something.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::problem::Problem;

/// Something was created: status 201 with its path and its present form.
#[derive(Clone, Debug)]
pub(super) struct Created<T> {
    pub(super) path: String,
    pub(super) view: T,
}

/// Something was done, and there is nothing to tell: status 204.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoContent;

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        match HeaderValue::try_from(self.path) {
            Ok(path) => {
                let location = [(header::LOCATION, path)];
                (StatusCode::CREATED, location, Json(self.view)).into_response()
            }
            Err(_) => Problem::bad_request("its name cannot stand in a path").into_response(),
        }
    }
}

impl IntoResponse for NoContent {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}
