//! Traces of joins, and metrics, for a collector of OpenTelemetry: OTLP 1.x as JSON over HTTP.
//!
//! ```text
//!  http: an offer ───────┐ JoinPart, dropped and counted if the queue is full
//!  sessions: its peer ───┴─► Assembly: one Join a session ─► spans ─► POST …/v1/traces
//!  text of /metrics, every interval_s ─► data points ──────────────► POST …/v1/metrics
//! ```
//!
//! No thread that carries media waits for a collector: a part of a join is offered to a queue, and
//! the rest happens in tasks.

// This crate is outside the sans-IO cores: spans have a time of day, and identities are random.
#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock for the cores"
)]

mod settings;

mod assembly;
mod collector;
mod counters;
mod data_points;
mod export;
mod join;
mod resource;
mod spans;
mod trace_context;

pub use counters::{Signal, SignalCounters, TelemetryCounters};
pub use export::{Exporter, JoinQueue, Text};
pub use join::{JoinPart, JoinSender, Outcome, PeerPart, RequestPart, Steps, queue};
pub use settings::{HeaderText, HeaderTextError, Otlp, Telemetry};
pub use trace_context::TraceContext;
