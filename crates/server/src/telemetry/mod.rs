//! Traces of joins, and metrics, for a collector of OpenTelemetry: OTLP 1.x as JSON over HTTP.
//!
//! ```text
//!  http: an offer ───────┐ JoinPart, dropped and counted if the queue is full
//!  sessions: its peer ───┴─► Assembly: one Join a session ─► spans ─► POST …/v1/traces
//!  text of /metrics, every interval_s ─► data points ──────────────► POST …/v1/metrics
//! ```
//!
//! Only the settings exist without the Cargo feature `otlp`. No thread that carries media waits for a
//! collector: a part of a join is offered to a queue, and the rest happens in tasks.

mod settings;

#[cfg(feature = "otlp")]
mod assembly;
#[cfg(feature = "otlp")]
mod collector;
#[cfg(feature = "otlp")]
mod counters;
#[cfg(feature = "otlp")]
mod data_points;
#[cfg(feature = "otlp")]
mod export;
#[cfg(feature = "otlp")]
mod join;
#[cfg(feature = "otlp")]
mod resource;
#[cfg(feature = "otlp")]
mod spans;
#[cfg(feature = "otlp")]
mod trace_context;

#[cfg(feature = "otlp")]
pub(crate) use counters::{Signal, TelemetryCounters};
#[cfg(feature = "otlp")]
pub(crate) use export::{Exporter, JoinQueue, Text};
#[cfg(feature = "otlp")]
pub(crate) use join::{JoinPart, JoinSender, Outcome, PeerPart, RequestPart, Steps, queue};
pub use settings::{HeaderText, HeaderTextError, Otlp, Telemetry};
#[cfg(feature = "otlp")]
pub(crate) use trace_context::TraceContext;
