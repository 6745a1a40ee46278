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

pub mod clock;
pub mod config;
mod http;
pub mod ingest;
pub mod latency;
pub mod library;
mod messages;
pub mod quic;
pub mod registry;
mod reload;
pub mod rooms;
pub mod rtsp;
mod server;
pub mod shard;
pub mod users;

pub use server::{Server, StartError};
