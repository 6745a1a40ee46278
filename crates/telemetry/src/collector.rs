//! Requests to the collector, and what their answers mean (OTLP 1.x, "OTLP/HTTP Response").

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Request, StatusCode, header};
use bytes::Bytes;
use glassline_access::outbound::{Bounds, BoxError, ClientError, HttpClient};
use glassline_runtime::is_deceptive;
use http_body_util::Full;
use serde_json::Value;

use super::counters::{Signal, TelemetryCounters};
use super::settings::Otlp;

/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Longest pause that a collector may ask for.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The collector that one signal is sent to.
#[derive(Debug)]
pub(super) struct Collector {
    client: HttpClient,
    settings: Arc<Otlp>,
    signal: Signal,
    counters: Arc<TelemetryCounters>,
}

/// The reason why a request was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExportError {
    /// Another attempt may work, after a pause that the collector may have named.
    #[error("{why}")]
    Retry {
        why: BoxError,
        after: Option<Duration>,
    },
    /// The collector does not want it.
    #[error("status {status}{}", detail(.answer))]
    Refused { status: StatusCode, answer: String },
}

fn detail(answer: &str) -> String {
    match answer {
        "" => String::new(),
        answer => format!(": {answer}"),
    }
}

impl Collector {
    /// Creates the sender of `signal`.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the file of trusted certificates cannot be used.
    pub(super) fn new(
        settings: &Arc<Otlp>,
        signal: Signal,
        counters: &Arc<TelemetryCounters>,
    ) -> Result<Self, ClientError> {
        Ok(Self {
            client: HttpClient::new(settings.roots.as_deref())?,
            settings: Arc::clone(settings),
            signal,
            counters: Arc::clone(counters),
        })
    }

    /// Sends `body` once, within `time`.
    ///
    /// # Errors
    /// Returns [`ExportError`], which tells whether another attempt may work.
    pub(super) async fn post(&self, body: Bytes, time: Duration) -> Result<(), ExportError> {
        let lasting = |why: BoxError| ExportError::Retry { why, after: None };
        let endpoint = self.settings.endpoint.as_str().trim_end_matches('/');
        let url = format!("{endpoint}/v1/{}", self.signal.as_str());
        let mut request = Request::post(url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(
                header::USER_AGENT,
                concat!("glassline/", env!("CARGO_PKG_VERSION")),
            );
        for (name, value) in &self.settings.headers {
            request = request.header(name, value.reveal());
        }
        let request = request.body(Full::new(body));
        let request = request.map_err(|error| lasting(error.into()))?;
        let bounds = Bounds {
            time,
            body_bytes: ANSWER_BYTES_MAX,
        };
        let answer = self.client.fetch(request, bounds).await.map_err(lasting)?;
        let status = answer.status();
        if status.is_success() {
            self.note_rejected(answer.body());
            return Ok(());
        }
        let after = answer.headers().get(header::RETRY_AFTER);
        let after = after.and_then(|it| it.to_str().ok()?.trim().parse::<u64>().ok());
        let after = after.map(|seconds| Duration::from_secs(seconds).min(PAUSE_MAX));
        match status.as_u16() {
            429 | 502..=504 => Err(ExportError::Retry {
                why: format!("status {status}").into(),
                after,
            }),
            _ => Err(ExportError::Refused {
                status,
                answer: shown(answer.body()),
            }),
        }
    }

    /// Counts what the collector rejected out of a request that it took.
    fn note_rejected(&self, answer: &[u8]) {
        let Ok(answer) = serde_json::from_slice::<Value>(answer) else {
            return;
        };
        let partial = &answer["partialSuccess"];
        let rejected = [&partial["rejectedSpans"], &partial["rejectedDataPoints"]];
        let count = rejected.iter().find_map(|it| match it {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64(),
        });
        let count: u64 = count.unwrap_or_default();
        if count > 0 {
            self.counters.of(self.signal).rejected.add(count);
            let why = shown(
                partial["errorMessage"]
                    .as_str()
                    .unwrap_or_default()
                    .as_bytes(),
            );
            tracing::warn!(count, signal = self.signal.as_str(), %why, "telemetry: the collector rejected some of it");
        }
    }
}

/// Returns the beginning of an answer, fit for the log.
fn shown(answer: &[u8]) -> String {
    let answer = String::from_utf8_lossy(&answer[..answer.len().min(200)]);
    let fit = |it: char| if is_deceptive(it) { ' ' } else { it };
    answer.trim().chars().map(fit).collect()
}
