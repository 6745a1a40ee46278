//! Whatever delivers the hub's streams.

pub(crate) mod moq;
pub mod webrtc;
