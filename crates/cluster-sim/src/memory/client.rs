//! What the engine in memory knows of a connected node.

use std::collections::BTreeSet;

use glassline_cluster::engine::Scope;
use glassline_cluster::name::{Key, Region, StreamName};

/// One connected node, and the notices that it wants.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) region: Region,
    /// Raised by each connection: what was sent to an earlier one does not arrive.
    pub(super) generation: u64,
    pub(super) is_connected: bool,
    hears_everything: bool,
    region_scope: Option<Region>,
    names: BTreeSet<StreamName>,
}

impl Client {
    pub(super) const fn new(region: Region, generation: u64) -> Self {
        Self {
            region,
            generation,
            is_connected: true,
            hears_everything: false,
            region_scope: None,
            names: BTreeSet::new(),
        }
    }

    pub(super) fn set_scope(&mut self, scope: Scope) {
        match scope {
            Scope::Everything => self.hears_everything = true,
            Scope::Region(region) => {
                self.hears_everything = false;
                self.names.clear();
                self.region_scope = Some(region);
            }
            Scope::Stream(name) => {
                self.names.insert(name);
            }
            Scope::Forget(name) => {
                self.names.remove(&name);
            }
        }
    }

    /// Whether the beats that go to all regions are told.
    pub(super) const fn hears_far_beats(&self) -> bool {
        self.hears_everything
    }

    /// Whether a change of this key is told.
    pub(super) fn hears(&self, key: &Key) -> bool {
        self.hears_everything
            || match key {
                Key::Stream(name) => self.names.contains(name),
                Key::Node(region, _) => self.region_scope.as_ref() == Some(region),
            }
    }
}
