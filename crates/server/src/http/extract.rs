//! The path and the query of a request as values, whose errors are problems like all others.
//!
//! The extractors of axum answer a malformed path or query with plain text.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::problem::Problem;
use super::{body, resource};

/// The parameters in the path of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<T>(pub(crate) T);

/// The query of a request. Keys that `T` does not have are ignored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = axum::extract::Path::from_request_parts(parts, state).await;
        read.map(|axum::extract::Path(value)| Self(value))
            .map_err(|rejection| Problem::bad_request(format!("path: {}", rejection.body_text())))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = axum::extract::Query::from_request_parts(parts, state).await;
        read.map(|axum::extract::Query(value)| Self(value))
            .map_err(|rejection| Problem::bad_request(format!("query: {}", rejection.body_text())))
    }
}

/// The body of a request, in JSON.
///
/// It is read when the extractor runs, which is after the rights of the request were checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        // A page of another site can send text without asking, and JSON not (Fetch standard).
        resource::expect_type(request.headers(), "application/json")?;
        let body = body::read(request.into_body()).await?;
        serde_json::from_slice(&body).map(Self).map_err(|error| {
            let told = without_text(error.to_string());
            Problem::bad_request(format!("body: {told}")).with("line", error.line())
        })
    }
}

/// Leaves out the text that serde repeats where another type is expected: it may be a secret.
fn without_text(mut told: String) -> String {
    let start = told.find("string \"").map(|at| at + "string \"".len());
    if let Some((start, end)) = start.zip(told.rfind('"'))
        && start <= end
    {
        told.replace_range(start..end, "…");
    }
    told
}

/// Returns whether a query has `word` as a key, with whatever value.
pub(super) fn has_word(query: Option<&str>, word: &str) -> bool {
    let mut keys = query.unwrap_or_default().split('&');
    keys.any(|pair| pair.split('=').next() == Some(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_the_wrong_place_is_not_repeated() {
        let error = serde_json::from_str::<bool>(r#""rtsp://ann:hunter\"two@cam/""#);
        let told = without_text(error.expect_err("no switch").to_string());
        assert!(!told.contains("hunter") && !told.contains("two@"), "{told}");
        assert!(
            told.contains(r#"invalid type: string "…", expected a bool"#),
            "{told}"
        );
    }
}
