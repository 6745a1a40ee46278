//! The clock of the server, which pages compare theirs with.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, header};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;

/// Two times of the server in a four-timestamp exchange (RFC 5905 §8: T2, T3), in ns.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(in crate::http) struct ClockTimes {
    /// Name of the server in its cluster, by which a page behind a balancer tells the clocks of several
    /// servers apart; null for a server alone.
    server: Option<String>,
    /// When the request arrived.
    received_ns: i64,
    /// When the answer was made.
    sent_ns: i64,
}

/// Also the clock of a session, for a page whose own server is another one of the cluster.
pub(in crate::http) async fn clock(
    State(app): State<App>,
) -> ([(HeaderName, &'static str); 1], Json<ClockTimes>) {
    let received_ns = app.clock.nanos(Instant::now());
    let config = app.config();
    let times = ClockTimes {
        server: config.cluster.as_ref().map(|it| it.name.to_string()),
        received_ns,
        sent_ns: app.clock.nanos(Instant::now()),
    };
    ([(header::CACHE_CONTROL, "no-store")], Json(times))
}
