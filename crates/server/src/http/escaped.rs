//! Answers in JSON, in which characters that would turn or hide text are written as escapes: operators
//! read answers on terminals, and strangers have a part in names and reasons.

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::{Method, Response as HttpResponse, header};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use glassline_runtime::escaped_json;
use http_body_util::BodyExt as _;

/// Escapes the JSON of an answer, or of its events. What it says stays the same.
pub(super) async fn escape(request: Request, next: Next) -> Response {
    // Without a body, the length is that of the answer to GET.
    let has_body = request.method() != Method::HEAD;
    let response = next.run(request).await;
    match has_body {
        true => escape_body(response).await,
        false => response,
    }
}

/// Escapes the JSON in the body of an answer.
pub(super) async fn escape_body(response: Response) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    let is_json = kind == "application/json" || kind.ends_with("+json");
    if !is_json && kind != "text/event-stream" {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Some(bytes) = body.size_hint().exact().filter(|_| is_json) else {
        // Each event is one frame.
        let escaping = body.map_frame(|frame| frame.map_data(escaped));
        return HttpResponse::from_parts(parts, Body::new(escaping));
    };
    let limit = usize::try_from(bytes).unwrap_or(usize::MAX);
    let whole = to_bytes(body, limit).await.unwrap_or_default();
    let whole = escaped(whole);
    if let Some(length) = parts.headers.get_mut(header::CONTENT_LENGTH) {
        *length = whole.len().into();
    }
    HttpResponse::from_parts(parts, Body::from(whole))
}

fn escaped(bytes: Bytes) -> Bytes {
    match std::str::from_utf8(&bytes).map(escaped_json) {
        Ok(std::borrow::Cow::Owned(escaped)) => escaped.into(),
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::Json;
    use axum::response::IntoResponse as _;
    use axum::response::sse::{Event, Sse};

    use super::*;

    #[tokio::test]
    async fn no_answer_has_a_character_that_turns_text() {
        const NAME: &str = "h/\u{202e}evil\u{200b}\u{7f}ä";
        let events = || {
            let event = Event::default().json_data(NAME).expect("plain data");
            let events = futures_util::stream::iter([Ok::<_, Infallible>(event)]);
            Sse::new(events).into_response()
        };
        for answer in [Json(NAME).into_response(), events()] {
            let answer = escape_body(answer).await;
            let length = answer.headers().get(header::CONTENT_LENGTH).cloned();
            let body = to_bytes(answer.into_body(), 1000).await.expect("a body");
            if let Some(length) = length {
                assert_eq!(length.to_str().expect("a number"), body.len().to_string());
            }
            let text = std::str::from_utf8(&body).expect("text");
            let json = text.trim().trim_start_matches("data: ");
            assert!(!json.contains(glassline_runtime::is_deceptive), "{json}");
            assert_eq!(serde_json::from_str::<String>(json).expect("JSON"), NAME);
        }
    }
}
