//! Recordings of the other servers of the cluster: `POST /-/playback/ask`, which they ask each other.
//!
//! ```text
//! Playback ─ Question ─► ClusterServers ─ HTTP/1.1 on a stream of QUIC, with a ticket ─► answer ─► Playback
//! ```
//!
//! A question needs no rights of a viewer: the server that asks has checked these. It is answered of what the
//! server has itself, so that no question goes round.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use glassline_cluster_member::Member;
use glassline_hub::StreamName;
use glassline_playback::{Missing, OtherServers, Question};
use http_body_util::{BodyExt as _, Full, Limited};
use serde::Deserialize;

use super::super::distant_session::exchange;
use super::super::extract::{JsonBody, Query};
use super::super::problem::Problem;
use super::{catalogue, playback, stream_name};
use crate::app::App;

/// Largest answer of another server: 25,000 files with their names and times.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// The name of a server that may have more than the answer shows, and why it is not known.
const MISSING: HeaderName = HeaderName::from_static("glassline-missing");

/// The other servers of this one's cluster.
#[derive(Debug)]
struct ClusterServers(Arc<Member>);

/// Returns the other servers of the cluster that this one is a `member` of, with what they have recorded.
pub(crate) fn others(member: &Arc<Member>) -> Arc<dyn OtherServers> {
    Arc::new(ClusterServers(Arc::clone(member)))
}

impl OtherServers for ClusterServers {
    fn names(&self) -> Vec<String> {
        self.0.other_servers()
    }

    fn ask<'a>(
        &'a self,
        server: &'a str,
        stream: &'a StreamName,
        question: &'a Question,
    ) -> BoxFuture<'a, Result<Bytes, String>> {
        ask(&self.0, server, stream, question).boxed()
    }
}

async fn ask(
    member: &Member,
    server: &str,
    stream: &StreamName,
    question: &Question,
) -> Result<Bytes, String> {
    let query = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("path", stream.as_str())
        .append_pair("ticket", &member.ticket_for_recordings(stream.as_str()))
        .finish();
    let body = serde_json::to_vec(question).expect("plain data");
    let request = hyper::Request::builder()
        .method(Method::POST)
        .uri(format!("/-/playback/ask?{query}"))
        .header(header::CONTENT_TYPE, "application/json")
        // Such a request never counts as one of the other server's own machine.
        .header(header::FORWARDED, "for=unknown")
        .body(Full::new(Bytes::from(body)))
        .expect("a path and plain headers");
    let opened = member.open_request(server, None).await;
    let opened = opened.map_err(|why| why.to_string())?;
    let exchanging = exchange(opened.stream, request, ANSWER_BYTES_MAX);
    let answer = opened.place.during(exchanging).await;
    let answer = answer.map_err(|why| why.to_string())?;
    let answer = answer.map_err(|error| error.to_string())?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect();
    let body = body.await.map_err(|error| error.to_string())?.to_bytes();
    match status {
        StatusCode::OK => Ok(body),
        _ => Err(refusal(status, &body)),
    }
}

/// Returns the reason in the body of a problem.
fn refusal(status: StatusCode, body: &[u8]) -> String {
    let problem: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let detail = problem.and_then(|it| it["detail"].as_str().map(str::to_owned));
    detail.unwrap_or_else(|| format!("it answers with status {}", status.as_u16()))
}

#[derive(Debug, Deserialize)]
pub(super) struct AskQuery {
    path: Option<String>,
}

/// Answers another server of the cluster.
pub(super) async fn answer(
    State(app): State<App>,
    Query(query): Query<AskQuery>,
    JsonBody(question): JsonBody<Question>,
) -> Result<Bytes, Problem> {
    let stream = stream_name(query.path.as_deref())?;
    let catalogue = catalogue(&app).unwrap_or_default();
    let answering = playback(&app)?.answer(catalogue, stream, question);
    Ok(answering.await?)
}

/// Returns the headers that name the servers which did not answer.
pub(super) fn told(missing: &Missing) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for server in &missing.0 {
        let why = server
            .why
            .replace(|it: char| !(' '..='~').contains(&it), "?");
        if let Ok(value) = HeaderValue::try_from(format!("{}: {why}", server.name)) {
            headers.append(MISSING, value);
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use glassline_playback::{MissingPart, PartKind};

    use super::*;

    #[test]
    fn servers_that_do_not_answer_are_named_with_the_reason() {
        let missing = ["a", "b"].map(|name| MissingPart {
            kind: PartKind::Server,
            name: name.to_owned(),
            why: "no\nanswer".to_owned(),
        });
        let headers = told(&Missing(missing.into()));
        let values: Vec<_> = headers.get_all(MISSING).iter().collect();
        assert_eq!(values, ["a: no?answer", "b: no?answer"]);
        let problem = br#"{"detail":"a disk fails"}"#;
        assert_eq!(
            refusal(StatusCode::SERVICE_UNAVAILABLE, problem),
            "a disk fails"
        );
        assert_eq!(
            refusal(StatusCode::NOT_FOUND, b"?"),
            "it answers with status 404"
        );
    }
}
