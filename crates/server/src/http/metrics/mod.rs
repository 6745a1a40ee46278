//! `GET /metrics`: Prometheus text format 0.0.4.
//!
//! The components that count are asked for their counters, and [`glassline_service::metrics`] writes them. The
//! tables here name the counters of components that `glassline_service::metrics` does not know.

mod certificates;
mod cluster;
mod connections;
mod failures;
mod hooks;
mod reloads;
mod telemetry;
mod transcoding;
mod webhook;

use std::time::Instant;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use glassline_runtime::FaultPoint;
use glassline_service::metrics;
use glassline_service::{Audience, Services};

use crate::app::App;

pub(super) async fn prometheus(State(app): State<App>) -> Response {
    let text = text(&app).await;
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// Writes all metrics of the server.
pub(crate) async fn text(app: &App) -> String {
    let mut text = String::with_capacity(8 << 10);
    let audiences = audiences(&app.services).await;
    let streams = app.hub.streams();
    metrics::streams(&streams, &app.latencies, Instant::now(), &mut text);
    viewers(app, audiences, &mut text);
    metrics::rooms(&app.rooms, &mut text);
    app.supervisor.fault_point(FaultPoint::Metrics);
    for service in app.services.iter() {
        service.metrics(&mut text);
    }
    cluster::metrics(app, &mut text);
    connections::metrics(app, &mut text);
    certificates::metrics(app, &mut text);
    failures::failures(app, &mut text);
    transcoding::metrics(app, &mut text);
    metrics::paths(&app.latencies.selected(), &mut text);
    if let Some(library) = &app.library {
        metrics::files(library.counts(), &mut text);
    }
    if !app.config().hooks.is_empty() {
        hooks::metrics(&app.hooks, &mut text);
    }
    metrics::logins(app.users.failures(), &mut text);
    app.users
        .with_keys(|keys| metrics::token_keys(keys, Instant::now(), &mut text));
    if let Some((counters, is_held_back)) = app.users.webhook() {
        webhook::metrics(&counters, is_held_back, &mut text);
    }
    let registry = &app.sessions.shared().registry;
    let (sessions, half_open) = registry.counts();
    metrics::sessions(sessions, half_open, registry.evicted(), &mut text);
    metrics::supervision(&app.supervisor, &mut text);
    metrics::log(&mut text);
    reloads::metrics(app, &mut text);
    telemetry::metrics(app, &mut text);
    metrics::process(&mut text);
    text
}

/// Returns the viewers of those protocols whose viewers are told from others.
async fn audiences(services: &Services) -> Vec<(&'static str, Audience)> {
    let mut audiences = Vec::new();
    for service in services.iter() {
        let audience = service.audience().await;
        audiences.extend(audience.map(|it| (service.name(), it)));
    }
    audiences
}

/// Writes the number of viewers of each stream by protocol, and of each file that is played without
/// a stream in the hub.
fn viewers(app: &App, mut audiences: Vec<(&'static str, Audience)>, text: &mut String) {
    let mut rows = Vec::new();
    for stream in app.hub.streams() {
        let name = stream.name().to_string();
        let mut others = stream.viewers();
        let first = rows.len();
        for (protocol, audience) in &mut audiences {
            let count = audience.remove(&name).unwrap_or_default();
            // The counts are read one after the other: a viewer may have left in between.
            others = others.saturating_sub(count.shared);
            rows.push((name.clone(), *protocol, count.shared + count.private));
        }
        rows.insert(first, (name, "whep", others));
    }
    for (protocol, audience) in audiences {
        let files = audience.into_iter();
        rows.extend(files.map(|(name, count)| (name, protocol, count.shared + count.private)));
    }
    metrics::viewers(&rows, text);
}
