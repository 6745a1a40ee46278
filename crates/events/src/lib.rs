//! What happened to the server and its streams since it started, and why: the newest events of each
//! kind.
//!
//! ```text
//!  hub: what happens to streams ─► server::observing ──────────┐
//!  certificates, threads, cluster ─► server::observing ────────┤
//!  reload: files that were read again ─────────────────────────┼─► EventLog ─► API, dashboard
//!  http: sign-ins ─────────────────────────────────────────────┘
//! ```
//!
//! How busy the server was beside them is in [`History`].
//!
//! Connections that failed have a list of their own, [`failures`], which the API lays beside
//! these events. Each kind has a bound of its own, and within a kind the subject with most events
//! gives way first: neither strangers who try passwords nor a camera that comes and goes every second
//! push out what happened elsewhere.

// This crate is outside the sans-IO cores: events have a time of day, and hooks a time limit.
#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock for the cores"
)]

pub mod failures;
mod history;
pub mod hooks;
mod log;
mod streams;

pub use history::{History, Load, READING, Reading, Sample};
pub use log::{Event, EventKind, EventLog, RecordedEvent, Severity};
pub use streams::{StreamObserver, status_reason};
