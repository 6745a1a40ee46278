//! What a server shows of its node, and what it changes of the node's record while it runs.

use super::Node;
use crate::config::Moment;
use crate::event::PullId;
use crate::name::{NodeId, StreamName};
use crate::record::{Load, NodeRecord, StreamRecord};

/// A node whose beats are heard, or were heard until it died.
#[derive(Clone, Copy, Debug)]
pub struct PeerView<'a> {
    /// Name of the node.
    pub node: &'a NodeId,
    /// Whether the node sends no more beats.
    pub is_dead: bool,
    /// The load of the node, from its latest beat.
    pub load: Load,
    /// How far the wall clock of the node is ahead of this node's, in ms; `None` if it does not tell.
    pub ahead_ms: Option<i64>,
}

/// A pull that feeds the hub of this node.
#[derive(Clone, Copy, Debug)]
pub struct RunningPull<'a> {
    /// Number of the pull.
    pub pull: PullId,
    /// Name of the stream that is meant.
    pub name: &'a StreamName,
    /// Node that the stream is pulled from.
    pub from: &'a NodeId,
    /// Epoch of the owner's claim.
    pub epoch: u64,
    /// Nodes that the stream has passed, from the owner to the node that is pulled from.
    pub path: &'a [NodeId],
}

impl Node {
    /// Replaces the record that other nodes read, because an address or the certificate changed,
    /// and writes it. The core keeps `region` and `state` as they are, and its own `inc`.
    pub fn set_record(&mut self, now: Moment, record: NodeRecord) {
        self.now = now;
        let inc = self.config.record.inc;
        self.config.record = NodeRecord { inc, ..record };
        self.write_own_record();
    }

    /// Returns the node that has the stream, as its last known record says.
    pub fn owner(&self, name: &StreamName) -> Option<&NodeId> {
        self.known(name).map(|record| &record.node)
    }

    /// Returns the records of streams that this node knows, in the order of their names.
    pub fn known_streams(&self) -> impl Iterator<Item = (&StreamName, &StreamRecord)> {
        let known = self.directory.streams.iter();
        known.filter_map(|(name, it)| Some((name, it.record.record()?)))
    }

    /// Returns a number that grows whenever [`known_streams`](Self::known_streams) has changed.
    pub const fn streams_revision(&self) -> u64 {
        self.directory.revision
    }

    /// Returns the records of nodes that this node knows, in the order of their names; its own one
    /// may be among them.
    pub fn known_nodes(&self) -> impl Iterator<Item = (&NodeId, &NodeRecord)> {
        let known = self.directory.nodes.iter();
        known.map(|(node, it)| (node, &it.record))
    }

    /// Returns the nodes of all regions whose beats are heard, or were heard until they died. A node
    /// that died is left out once nothing in the store names it any more.
    pub fn peers(&self) -> impl Iterator<Item = PeerView<'_>> {
        let now = self.now.at;
        let near = self.peers.iter().map(|(node, peer)| PeerView {
            node,
            is_dead: peer.is_dead,
            load: peer.load,
            ahead_ms: peer.ahead_ms,
        });
        let far = self.presence.far.iter().map(move |(node, seen)| PeerView {
            node,
            is_dead: !seen.is_alive(now),
            load: seen.load,
            ahead_ms: seen.ahead_ms,
        });
        let all = near.chain(far.filter(|it| self.peers.get(it.node).is_none()));
        all.filter(|it| !it.is_dead || self.directory.nodes.contains_key(it.node))
    }

    /// Returns whether a node of this region, which is not dead, has sent no beat for longer than its
    /// beats are apart, although the engine carries those of this node.
    pub fn is_overdue(&self, now: Moment, node: &NodeId) -> bool {
        self.peers.is_overdue(node, now.at)
    }

    /// Returns the pulls that feed the hub of this node, in the order of the names of streams.
    pub fn running_pulls(&self) -> impl Iterator<Item = RunningPull<'_>> {
        self.relays.iter().filter_map(|(name, relay)| {
            let running = relay.running.as_ref()?;
            Some(RunningPull {
                pull: running.pull,
                name,
                from: &running.from,
                epoch: running.fence.epoch,
                path: &running.path,
            })
        })
    }

    /// Returns how many nodes pull a stream from this one, or were promised a place.
    pub fn children(&self, name: &StreamName) -> usize {
        self.relays.get(name).map_or(0, |it| it.children.len())
    }

    /// Returns whether no record of this node stands or is being written: it may stop without
    /// leaving a claim behind.
    pub fn holds_nothing(&self) -> bool {
        self.claims.has_no_record() && !self.presence.is_leaving
    }
}
