//! WebRTC sessions.

mod registry;

pub use registry::{Bounds, Entry, Full, Home, IceTag, Permit, Registry};
