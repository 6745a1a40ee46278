//! Listening sockets: sources in, shards of viewers, HTTP beside them.
//!
//! ```text
//!  sources ─► ingest ─► hub ─┬► shard threads ─► UDP ─► viewers
//!                            └► rtsp threads ──► TCP, UDP ─► players, recorders
//!                               ▲ commands
//!                       http (tokio): WHEP, pages, API, metrics
//! ```

// A shell: here the clock is read and chance is drawn, for the cores below.
#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock and draws chance for the cores"
)]

mod app;
pub mod auth;
pub mod config;
pub mod egress;
mod http;
pub mod ingest;
pub mod latency;
mod messages;
mod metrics;
pub mod quic;
mod reload;
pub mod rooms;
pub mod rtsp;
pub mod runtime;
mod server;
pub mod sessions;
mod spelling;

pub use server::{Server, StartError};
