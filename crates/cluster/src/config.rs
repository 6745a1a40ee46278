//! What the operator and the process give to a [`crate::Node`].

use std::time::{Duration, Instant};

use crate::name::{NodeId, Region};
use crate::record::NodeRecord;

/// Time as the server reads it, once per turn of its loop.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Monotonic clock: all deadlines and all judgements of liveness go by it.
    pub at: Instant,
    /// Unix time in ms. It only raises epochs, and may leap.
    pub unix_ms: u64,
}

/// Everything that a node knows before it starts.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of this node.
    pub node: NodeId,
    /// Region of this node.
    pub region: Region,
    /// Record that other nodes read; its `inc` is the random number of this process. The core
    /// replaces `region` and `state`.
    pub record: NodeRecord,
    /// Seed of all jitter; a random number of the process.
    pub seed: u64,
    /// Whether the node hears of every stream and node (up to 100 nodes and 10,000 streams), or
    /// asks for what it needs.
    pub hears_everything: bool,
    /// Whether viewers may be redirected to another region when no node of this one has room.
    pub redirects_far: bool,
    /// Whether this node sends viewers away when a node comes and it has clearly more than its share.
    pub rebalances: bool,
    /// Viewers of one stream on one node from which on new ones are sent to, or pulled by,
    /// another node.
    pub viewers_per_stream: u32,
    /// Most nodes that pull one stream from this one.
    pub children_max: u32,
    /// Most pulls from this node, over all streams, before it hands newcomers to its children.
    pub children_in_all_max: u32,
    /// Mark of the secret that all nodes of the cluster share, by which nodes with another one are
    /// told apart; 0 for none.
    pub key: u64,
    /// How long a pull stays after its last viewer.
    pub linger: Duration,
}

impl Config {
    /// Returns a configuration with the defaults of the documentation.
    pub fn new(node: NodeId, region: Region, record: NodeRecord, seed: u64) -> Self {
        Self {
            node,
            region,
            record,
            seed,
            hears_everything: true,
            redirects_far: false,
            rebalances: true,
            viewers_per_stream: 200,
            children_max: 32,
            children_in_all_max: 64,
            key: 0,
            linger: Duration::from_secs(5),
        }
    }
}
