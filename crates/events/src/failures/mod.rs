//! Why connections failed: what the server has seen, for an hour.
//!
//! ```text
//!  http: refused offers, ─┐
//!   changes, connections  │
//!  sessions: ICE, DTLS ───┼─► Failures ─► log, one line each
//!  rtsp, quic ────────────┘      └──────► API, and the client itself by its session
//! ```
//!
//! A connection has failed if it ends between its request and its first media, or later without that
//! its client ended it, unless the server is stopped. A refused change of ICE is noted as well, because
//! media may end with the old path.
//!
//! Strangers can make connections fail, so that the list has limits: each source has few entries,
//! equal failures of a source are one entry with a count, and texts are short and free of control
//! characters. Sessions that the server ended have few entries of their own, because one reason may
//! end thousands.

mod counters;
mod list;
mod record;
mod shown;

pub use counters::FailureCounters;
pub use list::Failures;
pub use record::{ClientRole, ConnectionFailure, DISMISSED, FailureRecord, Protocol, Stage};
pub use shown::shown;
