//! `/api/v1/history`: how busy the server was.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use glassline_events::Sample;

use super::super::extract::Query;
use super::super::openapi::{Operation, Routes};
use crate::app::App;

/// Returns the route of the history, for operators.
pub(super) fn routes() -> Routes {
    Routes::default().get(
        "/api/v1/history",
        Operation::new(
            "getHistory",
            "Returns how busy the server was, of the last ten minutes or the last day",
        ),
        history,
    )
}

/// The time that is asked for.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
enum Span {
    /// The last ten minutes, in steps of 5 s.
    #[default]
    #[serde(rename = "10m")]
    Recent,
    /// The last day, in steps of 2 minutes.
    #[serde(rename = "1d")]
    Day,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct HistoryQuery {
    #[serde(default)]
    span: Span,
}

/// Samples of the server, the oldest first. All lists have the same length.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "History")]
struct HistoryView {
    /// Present time, in seconds since the server began.
    now_s: u64,
    /// Ends of the samples, in seconds since the server began.
    at_s: Vec<u32>,
    /// Mean of the cores in use.
    cpu_cores: Vec<f32>,
    /// Most memory in use, in MiB.
    memory_mib: Vec<u32>,
    /// Most viewers of streams.
    viewers: Vec<u32>,
    /// Largest number of streams.
    streams: Vec<u32>,
    /// Most streams that hang or are unreachable.
    broken: Vec<u32>,
    /// Largest bitrate of all sources together.
    in_bps: Vec<u64>,
}

impl HistoryView {
    fn push(&mut self, sample: &Sample) {
        let Sample {
            at_s,
            cpu_cores,
            load,
        } = *sample;
        self.at_s.push(at_s);
        self.cpu_cores.push(cpu_cores);
        self.memory_mib.push(load.memory_mib);
        self.viewers.push(load.viewers);
        self.streams.push(load.streams);
        self.broken.push(load.broken);
        self.in_bps.push(load.in_bps);
    }
}

async fn history(
    State(app): State<App>,
    Query(HistoryQuery { span }): Query<HistoryQuery>,
) -> Json<HistoryView> {
    let samples = match span {
        Span::Recent => app.http.history.recent(),
        Span::Day => app.http.history.day(),
    };
    let mut view = HistoryView {
        now_s: app.clock.uptime().as_secs(),
        ..HistoryView::default()
    };
    for sample in &samples {
        view.push(sample);
    }
    Json(view)
}
