//! `/healthz` and `/readyz`: whether the server's threads make progress, and whether media can flow.
//!
//! Both answer everybody with plain text. An operator whose client accepts `application/json` gets the
//! progress of each thread.

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json};
use glassline_access::tls::CertificateStore;
use glassline_cluster_member::Member;
use glassline_hub::{State as StreamState, Stream};
use glassline_runtime::ThreadProgress;
use schemars::JsonSchema;
use serde::Serialize;

use super::operators::Visitor;
use super::rules::Right;
use super::viewer_routes::ViewerRoutes;
use crate::app::App;

/// Returns the route for balancers, which have no credentials, and ask by an address or a name of their
/// own.
pub(super) fn routes() -> ViewerRoutes {
    ViewerRoutes::default().route("/readyz", Right::Nothing, get(ready_for_viewers))
}

/// The result of a health check.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Health {
    /// Whether the check passed.
    ok: bool,
    /// The reason why the check failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    threads: Vec<ThreadView>,
    /// The connection to NATS of a server in a cluster: `connected` or `away`. Media flows without it,
    /// and streams of other servers are found again when it is back.
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<&'static str>,
    /// The certificates of the listeners within TLS.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    certificates: Vec<CertificateView>,
}

/// One certificate of the server.
#[derive(Debug, Serialize, JsonSchema)]
struct CertificateView {
    /// Section of the configuration that names the certificate.
    source: &'static str,
    present: bool,
    /// Time until clients no longer accept the certificate; negative if that time has passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in_s: Option<i64>,
    /// The reason why the newest attempt to renew the certificate failed. The one before is in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// One thread of the server.
#[derive(Debug, Serialize, JsonSchema)]
struct ThreadView {
    thread: String,
    /// Time since the thread was last seen to make progress.
    last_progress_s: f64,
    stuck: bool,
}

/// `GET /healthz`: 200 while every thread makes progress. A service that answers 503 for long
/// should be started again.
pub(super) async fn alive(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
) -> Response {
    answer(&app, &visitor, &headers, "ok", fault(&app))
}

/// `GET /readyz`: 200 while every thread makes progress, and a source is live, waits for
/// viewers, or none is there. A server whose cluster agrees through NATS is ready for streams of the
/// others, too, unless it drains.
pub(super) async fn ready(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
) -> Response {
    let well = match member(&app).is_none_or(|it| it.is_connected()) {
        true => "ready",
        false => "ready, while NATS is away: streams of other servers cannot be found",
    };
    answer(&app, &visitor, &headers, well, unready(&app))
}

/// Returns why new clients had better go to another server.
fn unready(app: &App) -> Option<String> {
    let streams = app.hub.streams();
    // A source that waits for viewers is as good as one that is live.
    let live = |stream: &Arc<Stream>| {
        matches!(stream.state(), StreamState::Live { .. } | StreamState::Idle)
    };
    let member = member(app);
    let has_source = member.is_some() || streams.is_empty() || streams.iter().any(live);
    let sourceless = || (!has_source).then(|| "no source is live yet".to_owned());
    let is_draining = member.is_some_and(|it| it.is_draining());
    let draining = || is_draining.then(|| "the server drains".to_owned());
    fault(app).or_else(draining).or_else(sourceless)
}

/// `GET /readyz` on the ports for viewers, for balancers: whether new clients are welcome, and nothing
/// else that a stranger could learn.
async fn ready_for_viewers(State(app): State<App>) -> Response {
    let (status, text) = match unready(&app) {
        None => (StatusCode::OK, "ready\n"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
    };
    (status, [(header::CACHE_CONTROL, "no-store")], text).into_response()
}

fn member(app: &App) -> Option<&Arc<Member>> {
    app.sessions.directory()?.member()
}

/// Returns what is wrong with the server's threads.
fn fault(app: &App) -> Option<String> {
    if let Some(failure) = app.supervisor.failure() {
        return Some(format!("the server is about to end: {failure}"));
    }
    app.supervisor.stuck(None).map(|stuck| stuck.to_string())
}

fn answer(
    app: &App,
    visitor: &Visitor,
    headers: &HeaderMap,
    well: &str,
    detail: Option<String>,
) -> Response {
    let status = match detail {
        None => StatusCode::OK,
        Some(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let uncached = [(header::CACHE_CONTROL, "no-store")];
    let accepts = headers
        .get(header::ACCEPT)
        .and_then(|it| it.to_str().ok())
        .is_some_and(|it| it.contains("application/json"));
    let mut response = if accepts && visitor.caller().is_some() {
        let threads = app.supervisor.threads();
        let health = Health {
            ok: detail.is_none(),
            detail,
            threads: threads.into_iter().map(view).collect(),
            engine: member(app).map(|it| match it.is_connected() {
                true => "connected",
                false => "away",
            }),
            certificates: certificates(app),
        };
        (status, uncached, Json(health)).into_response()
    } else {
        let text = detail.unwrap_or_else(|| well.to_owned());
        (status, uncached, format!("{text}\n")).into_response()
    };
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let second = header::HeaderValue::from_static("1");
        response.headers_mut().insert(header::RETRY_AFTER, second);
    }
    response
}

fn certificates(app: &App) -> Vec<CertificateView> {
    let now = SystemTime::now();
    let view = |store: &Arc<CertificateStore>| {
        let status = store.status();
        CertificateView {
            source: status.source,
            present: status.is_present,
            expires_in_s: status.expires_in_s(now),
            problem: status.problem,
        }
    };
    app.tls.certificates.iter().map(view).collect()
}

fn view(thread: ThreadProgress) -> ThreadView {
    ThreadView {
        thread: thread.thread,
        last_progress_s: thread.quiet.as_secs_f64(),
        stuck: thread.is_stuck,
    }
}
