//! Egress: delivers the hub's streams to WebRTC viewers, RTSP players and MoQ readers.

// This crate is outside the sans-IO cores: it reads the clock for them.
#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock and draws chance for the cores"
)]

pub mod moq;
pub mod rtsp;
pub mod units;
pub mod webrtc;
