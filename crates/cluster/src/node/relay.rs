//! What a node keeps about a stream that it has viewers of, pulls, or offers to others.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use super::stall::Stall;
use crate::engine::RequestId;
use crate::event::{Access, PullId, ViewerId};
use crate::name::NodeId;
use crate::question::Holder;
use crate::record::Fence;

/// Most nodes that a stream passes, the owner and the last one included.
pub const PATH_MAX: usize = 4;

/// The knowledge and the work of this node about a stream of another node, or with viewers of its own.
#[derive(Debug, Default)]
pub(super) struct Relay {
    /// Viewers that the core let in.
    pub(super) viewers: u32,
    /// Viewers that the server counts.
    pub(super) counted: u32,
    pub(super) waiting: Vec<Waiting>,
    pub(super) places: Places,
    /// The look-up or question under way.
    pub(super) request: Option<RequestId>,
    pub(super) asked: Option<NodeId>,
    pub(super) depth: u32,
    pub(super) holders: Vec<Holder>,
    /// A node of this region that had room, or that may reach an owner which this one cannot reach.
    pub(super) contact: Option<NodeId>,
    pub(super) running: Option<Running>,
    pub(super) starting: Option<Starting>,
    /// The silence of the pull that runs, if it lasts.
    pub(super) stall: Option<Stall>,
    pub(super) failed: BTreeMap<NodeId, Instant>,
    pub(super) children: BTreeMap<NodeId, Child>,
    /// Highest fence that was read or pulled, and when.
    pub(super) highest: Fence,
    pub(super) highest_at: Option<Instant>,
    pub(super) is_watched: bool,
    pub(super) dues: Dues,
    pub(super) attempts: u32,
}

/// Deadlines of a relay.
#[derive(Debug, Default)]
pub(super) struct Dues {
    pub(super) retry: Option<Instant>,
    pub(super) linger: Option<Instant>,
    pub(super) old_epoch: Option<Instant>,
    pub(super) adopt: Option<Instant>,
    pub(super) stall: Option<Instant>,
}

/// Places for viewers, here and elsewhere.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Until when each place here is kept for a viewer who was told to come, the oldest first.
    pub(super) kept: VecDeque<Instant>,
    /// The search for places elsewhere for those who wait.
    pub(super) round: Option<Round>,
    /// When nobody had a place for those who waited.
    pub(super) full_at: Option<Instant>,
}

/// Nodes that were asked for places for the same viewers, and those that may still be asked.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) asked: Vec<NodeId>,
    /// Places that the node asked last was asked for.
    pub(super) wanted: u32,
    pub(super) candidates: Vec<Holder>,
    /// Whether nodes without the stream were added.
    pub(super) has_strangers: bool,
}

/// A viewer who waits for a decision.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) viewer: ViewerId,
    pub(super) access: Access,
    pub(super) until: Instant,
}

/// A pull that feeds the hub.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) pull: PullId,
    pub(super) from: NodeId,
    pub(super) fence: Fence,
    pub(super) path: Vec<NodeId>,
}

/// A pull without keyframe yet; without number while the address of its node is read.
#[derive(Debug)]
pub(super) struct Starting {
    pub(super) pull: Option<PullId>,
    pub(super) from: NodeId,
    pub(super) since: Instant,
}

/// A node that pulls a stream from this one.
#[derive(Debug)]
pub(super) struct Child {
    /// The stream as it has it; `None` until its pull runs.
    pub(super) holder: Option<Holder>,
    pub(super) until: Instant,
}

impl Relay {
    /// Whether somebody here or below needs the stream.
    pub(super) fn is_needed(&self) -> bool {
        self.viewers.max(self.counted) > 0
            || !self.waiting.is_empty()
            || !self.places.kept.is_empty()
            || !self.children.is_empty()
    }
}
