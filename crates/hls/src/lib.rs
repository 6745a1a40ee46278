//! Playlists of HTTP Live Streaming (draft-pantos-hls-rfc8216bis) with low latency: their state as parts
//! arrive, their text, and a reader that judges the playlists of any server.
//!
//! The crate is sans-IO: it knows durations and names of segments, and no media.

pub mod judge;
pub mod reader;
