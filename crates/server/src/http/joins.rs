//! Traces of joins: what the exchange of offer and answer tells of each.
//!
//! ```text
//!  trace: begins ─► page guard, guard: rights ─► admitted: a time ─► handler: negotiation
//!     └◄ refusal or session ◄────────────────────────────────────────────┘
//! ```

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::Extension;
use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::Next;
use axum::response::Response;

use glassline_events::failures::Stage;
use glassline_telemetry::{JoinPart, RequestPart, TraceContext};

use super::problem::Refusal;
use super::redirect::RequestTarget;
use super::rules::Wanted;
use crate::app::App;
use crate::sessions::{ConnectionAddresses, SessionRecord};

/// The header that names the trace above a request.
pub(super) const TRACEPARENT: &str = "traceparent";

/// When the rights of a request were known.
#[derive(Clone, Debug, Default)]
struct Admission(Arc<OnceLock<Instant>>);

/// Tells the trace of a join what its request did. Other requests pass.
pub(super) async fn trace(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Extension(target): Extension<Arc<RequestTarget>>,
    mut request: Request,
    next: Next,
) -> Response {
    let role = match target.rules().client(request.method()) {
        Some((role, Wanted::Connection)) => role.as_str(),
        _ => return next.run(request).await,
    };
    let Some(joins) = app.sessions.shared().joins.get() else {
        return next.run(request).await;
    };
    let started = Instant::now();
    let above = request.headers().get(TRACEPARENT);
    let above = above.and_then(|it| TraceContext::parse(it.to_str().ok()?));
    let stream = target.wanted(request.uri());
    let admission = Admission::default();
    request.extensions_mut().insert(admission.clone());
    let response = next.run(request).await;
    let (status, extensions) = (response.status().as_u16(), response.extensions());
    let refusal = extensions.get::<Refusal>().map(|it| {
        let reason = format!("{} ({status}): {}", it.title, it.detail);
        (Stage::of_status(status).as_str(), reason)
    });
    let session = extensions.get::<Arc<SessionRecord>>();
    joins.send(JoinPart::Request(Box::new(RequestPart {
        context: above.unwrap_or_else(TraceContext::draw),
        route: target.rules().path.to_owned(),
        stream: stream.unwrap_or_default().chars().take(256).collect(),
        role,
        client: connection.peer.ip(),
        started,
        admitted: admission.0.get().copied(),
        ended: Instant::now(),
        status,
        refusal,
        session: session.map(|it| it.id.clone()),
    })));
    response
}

/// Notes that the rights of a request are known, just before its handler runs.
pub(super) async fn admitted(request: Request, next: Next) -> Response {
    if let Some(admission) = request.extensions().get::<Admission>() {
        admission.0.get_or_init(Instant::now);
    }
    next.run(request).await
}
