//! A real server and a small test peer in one process, for everything that a browser cannot be made
//! to do (lose packets, change its address, restart ICE, lie).
//!
//! ```text
//!  Source ─► server.hub() ─► shards ─► UDP ─► Peer (glassline_webrtc, dialling)
//!                              ▲ HTTP (Running::request) ◄── the test
//! ```
//!
//! Deadlines are long: a busy machine makes these tests slower, and does not make them fail.

#![expect(
    clippy::disallowed_methods,
    reason = "a test of sockets reads the clock and waits"
)]

mod abuse;
mod admin;
mod away;
mod broken_connections;
mod browsers;
mod certificates;
mod check;
mod cluster;
mod cluster_messages;
mod configured_sources;
mod connections;
mod data;
mod dual_stack;
mod events;
mod exclusions;
mod failures;
mod handshake;
mod hijack;
mod hls_http2;
mod hooks;
mod https;
mod ice_tcp;
mod isolation;
mod kernel;
mod large_keyframes;
mod latency;
mod layers;
mod logins;
mod loss;
mod media;
mod moq_keyframes;
mod multicast;
mod names;
mod on_demand;
mod onvif;
mod openapi;
mod pacing;
mod panics;
mod peer;
mod playback;
mod problems;
mod proxies;
mod ptz_rights;
mod publishing;
mod quic;
mod refused_connections;
mod reload;
mod reload_settings;
mod reordered;
mod restart;
mod roaming;
mod room_rights;
mod rooms;
mod rtsp;
mod rtsps;
mod running;
mod shards;
mod soak {
    //! The long forms of tests.

    mod pull_cost;
}
mod source;
mod source_actions;
mod sources;
mod srtp;
mod start;
mod talk;
mod telemetry;
mod tokens;
mod track_changes;
mod users;
mod waiting;
mod webhook_rights;
mod whip;
