//! What a shard gives to its peers while it serves them, and the results of serving.

use glassline_egress::webrtc::Outbox;
use glassline_latency::{FrameStamps, LatencyRegistry};
use glassline_runtime::Key;

use crate::sessions::counters::Counters;

/// The parts of a shard that a peer uses while it is served.
pub(in crate::sessions) struct ShardContext<'a> {
    /// The key of the peer on its shard.
    pub(in crate::sessions) key: Key,
    pub(in crate::sessions) outbox: &'a mut Outbox,
    pub(in crate::sessions) counters: &'a Counters,
    /// Frames that are handed to the kernel with the outbox's next system call.
    pub(in crate::sessions) leaving: &'a mut Vec<Leaving>,
    /// Buffer for control datagrams, kept for its capacity.
    pub(in crate::sessions) control: &'a mut Vec<u8>,
    /// Registry that shows what viewers report.
    pub(in crate::sessions) latencies: &'a LatencyRegistry,
}

/// A frame that is sealed but not handed to the kernel yet; `frame.sent` is still to be set.
#[derive(Clone, Copy, Debug)]
pub(in crate::sessions) struct Leaving {
    /// The peer that the frame is sent to.
    pub(in crate::sessions) key: Key,
    pub(in crate::sessions) frame: FrameStamps,
}

/// The state of a peer after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sessions) enum Served {
    /// The peer's session continues.
    Alive,
    /// The peer's session is over, and the peer is to be released.
    Closed,
}
