//! Listening sockets: sources in, shards of viewers, HTTP beside them.
//!
//! ```text
//! ingest ──► hub ──► shard threads ──► UDP        http (tokio) ── commands ──► shards
//! ```

// A shell: here the clock is read and chance is drawn, for the cores below.
#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock and draws chance for the cores"
)]

pub mod clock;
pub mod config;
pub mod ingest;
