//! Who may want to hear of a change, so that not every node is asked at each write.

use std::collections::{BTreeMap, BTreeSet};

use glassline_cluster::engine::Scope;
use glassline_cluster::name::{Key, NodeId, Region, StreamName};

/// Nodes by what they want to hear. A node may stand here that wants it no more: its
/// [`Client`](super::client::Client) decides.
#[derive(Debug, Default)]
pub(super) struct Audience {
    everything: BTreeSet<NodeId>,
    of_stream: BTreeMap<StreamName, BTreeSet<NodeId>>,
    of_region: BTreeMap<Region, BTreeSet<NodeId>>,
    /// Nodes that are in a region, which hear its beats.
    within: BTreeMap<Region, BTreeSet<NodeId>>,
}

impl Audience {
    /// Notes that a node connected from a region.
    pub(super) fn join(&mut self, node: &NodeId, region: &Region) {
        let within = self.within.entry(region.clone()).or_default();
        within.insert(node.clone());
    }

    /// Notes what a node wants to hear from now on.
    pub(super) fn set_scope(&mut self, node: &NodeId, scope: &Scope) {
        match scope {
            Scope::Everything => {
                self.everything.insert(node.clone());
            }
            Scope::Region(region) => {
                let nodes = self.of_region.entry(region.clone()).or_default();
                nodes.insert(node.clone());
            }
            Scope::Stream(name) => {
                let nodes = self.of_stream.entry(name.clone()).or_default();
                nodes.insert(node.clone());
            }
            Scope::Forget(name) => {
                if let Some(nodes) = self.of_stream.get_mut(name) {
                    nodes.remove(node);
                }
            }
        }
    }

    /// Returns the nodes that may want to hear of a change of this key, in the order of their names.
    pub(super) fn of_change(&self, key: &Key) -> BTreeSet<&NodeId> {
        let named = match key {
            Key::Stream(name) => self.of_stream.get(name),
            Key::Node(region, _) => self.of_region.get(region),
        };
        self.everything
            .iter()
            .chain(named.into_iter().flatten())
            .collect()
    }

    /// Returns the nodes that may hear the beats of a region, in the order of their names.
    pub(super) fn of_beat(&self, region: &Region) -> impl Iterator<Item = &NodeId> {
        self.within.get(region).into_iter().flatten()
    }
}
