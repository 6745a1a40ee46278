//! Egress: delivers the hub's streams to WebRTC viewers, RTSP players and MoQ readers.

pub(crate) mod moq;
pub(crate) mod rtsp;
pub(crate) mod units;
pub mod webrtc;
