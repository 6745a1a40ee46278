//! Starts the export of traces and metrics.

use std::sync::Arc;
use std::time::Duration;

use glassline_runtime::{Part, spawn_kept};
use glassline_telemetry::{Exporter, JoinQueue, TelemetryCounters, Text, queue};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::start_error::StartError;
use crate::app::App;
use crate::http::metrics;

/// Time that a viewer waits for a keyframe before its trace is sent without one.
const KEYFRAME_WAIT: Duration = Duration::from_secs(60);

/// Starts the tasks that send traces and metrics; none without `telemetry.otlp`.
///
/// # Errors
/// Returns [`StartError`] if the certificates that the collector is trusted by cannot be used.
pub(super) fn start(
    app: &App,
    stopped: &watch::Receiver<bool>,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let config = app.settings.config.get();
    let Some(otlp) = &config.telemetry.otlp else {
        return Ok(Vec::new());
    };
    if !otlp.headers.is_empty() && !otlp.endpoint.is_protected() {
        tracing::warn!(
            "telemetry.otlp: the headers go over plain HTTP, where others may read them; write https://"
        );
    }
    let counters = Arc::<TelemetryCounters>::default();
    let node = app.sessions.directory().and_then(|it| it.member());
    let node = node.map(|it| it.node().to_string());
    let exporter = Arc::new(Exporter::new(
        otlp,
        node.as_deref(),
        &counters,
        app.clock,
        config.limits.handshake() + KEYFRAME_WAIT,
    ));
    exporter.check()?;
    let (joins, parts) = queue(&counters);
    let mut tasks = Vec::new();
    let kept = |name| Part::Background.task(name);
    // The sender is kept in any case: it knows the counters.
    let _ = app.sessions.shared().joins.set(joins);
    if otlp.traces {
        let parts: JoinQueue = Arc::new(tokio::sync::Mutex::new(parts));
        let (exporter, until) = (Arc::clone(&exporter), stopped.clone());
        let send = move || Arc::clone(&exporter).send_traces(Arc::clone(&parts), until.clone());
        tasks.push(spawn_kept(&app.supervisor, kept("traces"), stopped, send));
    }
    if otlp.metrics {
        let of_text = app.clone();
        let text: Text = Arc::new(move || {
            let app = of_text.clone();
            Box::pin(async move { metrics::text(&app).await })
        });
        let until = stopped.clone();
        let send = move || Arc::clone(&exporter).send_metrics(Arc::clone(&text), until.clone());
        tasks.push(spawn_kept(&app.supervisor, kept("metrics"), stopped, send));
    }
    Ok(tasks)
}
