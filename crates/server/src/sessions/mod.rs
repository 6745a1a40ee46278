//! WebRTC sessions.

mod counters;
mod peer;
mod registry;
mod shard;

pub use counters::Counters;
pub use peer::Peer;
pub(crate) use peer::{DataPublisher, Participant, Role, Viewer};
pub use registry::{Bounds, Entry, Full, Home, IceTag, Permit, Registry};
pub use shard::{Command, Forwarded, Handle, Shards, Shared, StartError};
