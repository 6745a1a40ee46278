//! What a shard lends to its peers, and learns from them.

use crate::egress::webrtc::Outbox;
use crate::latency::{Board, FrameStamps};
use crate::runtime::Key;
use crate::sessions::counters::Counters;

/// What a shard lends to a peer while it is served.
pub(in crate::sessions) struct ShardContext<'a> {
    /// Names the peer on its shard.
    pub(in crate::sessions) key: Key,
    pub(in crate::sessions) outbox: &'a mut Outbox,
    pub(in crate::sessions) counters: &'a Counters,
    /// Frames that leave with the outbox's next system call.
    pub(in crate::sessions) leaving: &'a mut Vec<Leaving>,
    /// For datagrams of control, kept for its room.
    pub(in crate::sessions) control: &'a mut Vec<u8>,
    /// Where what viewers tell is shown.
    pub(in crate::sessions) board: &'a Board,
}

/// A frame that is sealed but not yet with the kernel; `frame.sent` is still to be set.
#[derive(Clone, Copy, Debug)]
pub(in crate::sessions) struct Leaving {
    /// To whom.
    pub(in crate::sessions) key: Key,
    pub(in crate::sessions) frame: FrameStamps,
}

/// What became of a peer after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sessions) enum Served {
    /// It goes on.
    Alive,
    /// It is over.
    Closed,
}
