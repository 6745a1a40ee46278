//! The API about connections that failed.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use glassline_events::failures::FailureRecord;

use super::super::extract::Query;
use super::super::paging::{Extent, Page};
use super::OfStream;
use crate::app::App;

/// A page of the list of failed connections.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FailureList {
    failures: Vec<FailureView>,
    #[serde(flatten)]
    extent: Extent,
}

/// Equal failures of one source.
#[derive(Debug, Serialize, JsonSchema)]
struct FailureView {
    /// Name of the stream, file or room that the client asked for.
    stream: String,
    protocol: &'static str,
    role: &'static str,
    /// Stage at which the connections failed: `rights`, `server`, `stream`, `offer`, `ice`,
    /// `handshake`, `media` or `connected`.
    stage: &'static str,
    /// The client's IPv4 address or IPv6 /64.
    source: String,
    reason: String,
    remedy: Option<String>,
    /// Beginning of the latest session's name, as the log has it.
    session: Option<String>,
    count: u64,
    /// Seconds since the first and since the latest failure.
    first_s_ago: f64,
    latest_s_ago: f64,
}

impl FailureView {
    fn of(record: FailureRecord, now: Instant) -> Self {
        let ago = |at: Instant| round(now.saturating_duration_since(at));
        Self {
            stream: record.stream.into(),
            protocol: record.protocol.as_str(),
            role: record.role.as_str(),
            stage: record.stage.as_str(),
            source: record.source.to_string(),
            reason: record.reason.into(),
            remedy: record.remedy.map(Into::into),
            session: record.sessions.last().map(ToString::to_string),
            count: record.count,
            first_s_ago: ago(record.first),
            latest_s_ago: ago(record.latest),
        }
    }
}

/// Returns seconds with three decimal places.
fn round(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).round() / 1e3
}

/// Lists the connections that failed in the last hour, the latest first: `GET /api/v1/failures`.
pub(in crate::http) async fn failures(
    State(app): State<App>,
    Query(filter): Query<OfStream>,
    page: Page,
) -> Json<FailureList> {
    let now = Instant::now();
    let mut records = app.failures.all(now);
    records.retain(|it| filter.wants(&it.stream));
    let (records, extent) = page.of(records);
    let failures = records.into_iter().map(|it| FailureView::of(it, now));
    Json(FailureList {
        failures: failures.collect(),
        extent,
    })
}
