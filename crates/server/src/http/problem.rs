//! Errors as `application/problem+json` (RFC 9457): what happened, to what, and what to do.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use glassline_hub::{NoSuchLayer, State, Status, StreamName};
use glassline_transcoding::{ENCODED_AGAIN, Hindered};
use serde_json::{Map, Value};

use super::server::WaitRefusal;

/// An error response with a status, a detail for people and members for programs.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    title: &'static str,
    detail: String,
    members: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Title, detail and remedy of an error response, left with the response for those who note
/// it.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) title: &'static str,
    pub(super) detail: String,
    /// Remedy of the problem, if the response states one apart from its detail.
    pub(super) remedy: Option<String>,
}

impl Problem {
    /// Creates an error whose `detail` tells a person what is wrong here.
    pub(crate) fn new(status: StatusCode, title: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            title,
            detail: detail.into(),
            members: Map::new(),
            headers: Vec::new(),
        }
    }

    /// Adds a member for programs.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// Adds that the viewer may ask for `video` to be transcoded.
    pub(crate) fn or_transcoded(mut self, video: Hindered) -> Self {
        self.detail = format!("{}; {ENCODED_AGAIN}", self.detail);
        self.with("transcode", true)
            .with("hindrance", video.hindrance.as_str())
            .with("codec", video.codec.to_string())
    }

    /// Adds the rule that the request broke to the detail.
    pub(crate) fn because(mut self, rule: &str) -> Self {
        self.detail = format!("{rule}; {}", self.detail);
        self
    }

    /// Adds a header; `value` must be visible ASCII.
    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Self {
        let value = HeaderValue::from_str(value).expect("ours is visible ASCII");
        self.headers.push((name, value));
        self
    }

    #[cfg(test)]
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Bad request", detail)
    }

    pub(crate) fn no_stream(name: &str) -> Self {
        let detail = format!(
            "there is no stream called '{name}'; GET /api/v1/streams lists the streams that exist"
        );
        Self::new(StatusCode::NOT_FOUND, "No such stream", detail)
    }

    /// Returns the answer to a request for a layer that a stream does not have.
    pub(crate) fn no_layer(why: &NoSuchLayer) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "No such layer",
            why.to_string(),
        )
    }

    /// Returns the answer to a viewer of a stream that has no tracks at present.
    pub(crate) fn not_live(stream: &StreamName, state: &State, status: Status) -> Self {
        let detail = match state.detail() {
            None => format!("stream '{stream}' is still connecting to its source"),
            Some(why) => format!("stream '{stream}' is {}: {why}", status.as_str()),
        };
        // The WHEP draft has this status for a stream without a publisher.
        Self::new(StatusCode::CONFLICT, "Stream not live", detail)
            .header(header::RETRY_AFTER, "1")
            .with("state", state.as_str())
            .with("stream_status", status.as_str())
    }

    pub(crate) fn no_session() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "No such session",
            "this session has ended or never was; POST a new offer",
        )
    }

    pub(crate) fn too_many_reports() -> Self {
        let detail = "a session reports once a second";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "Too many reports", detail)
            .header(header::RETRY_AFTER, "1")
    }

    pub(crate) fn try_later(title: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, title, detail).header(header::RETRY_AFTER, "1")
    }
}

impl From<WaitRefusal> for Problem {
    fn from(refusal: WaitRefusal) -> Self {
        Self::try_later("Too many requests wait", refusal.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = self.members;
        let refusal = Refusal {
            title: self.title,
            detail: self.detail.clone(),
            remedy: body
                .get("remedy")
                .and_then(Value::as_str)
                .map(str::to_owned),
        };
        body.insert("type".to_owned(), "about:blank".into());
        body.insert("title".to_owned(), self.title.into());
        body.insert("status".to_owned(), self.status.as_u16().into());
        body.insert("detail".to_owned(), self.detail.into());
        let kind = [
            (header::CONTENT_TYPE, "application/problem+json"),
            (header::CACHE_CONTROL, "no-store"),
        ];
        let mut response = (self.status, kind, Value::Object(body).to_string()).into_response();
        response.extensions_mut().insert(refusal);
        for (name, value) in self.headers {
            response.headers_mut().append(name, value);
        }
        response
    }
}
