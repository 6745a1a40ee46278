//! Whatever delivers the hub's streams.

pub(crate) mod moq;
pub(crate) mod rtsp;
pub mod webrtc;
