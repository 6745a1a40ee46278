//! Records that this node knows.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Node, Purpose};
use crate::engine::{Answered, Call, CallError, Entry, KeyKind, Scope, Version};
use crate::name::{Key, NodeId, StreamName};
use crate::record::{Fence, NodeRecord, NodeState, StreamRecord};

/// How long the record of a node of another region is taken as it was read.
const NODE_FRESH: Duration = Duration::from_secs(60);

/// How long the record of a stream is taken as it was read, when no notices come for it.
const STREAM_FRESH: Duration = Duration::from_secs(5);

/// Most streams and nodes whose records are kept.
const RECORDS_MAX: usize = 200_000;

/// Records of streams and nodes.
#[derive(Debug, Default)]
pub(super) struct Directory {
    pub(super) streams: BTreeMap<StreamName, Known>,
    pub(super) nodes: BTreeMap<NodeId, KnownNode>,
    /// Whether a full list was read and notices come for everything.
    pub(super) is_complete: bool,
    /// When the list was asked for: what changed later is newer than the list.
    pub(super) listed_at: Option<Instant>,
    /// Number of changes to which streams have a record, and to what the records say.
    pub(super) revision: u64,
}

impl Directory {
    /// Keeps what is known of a name.
    pub(super) fn set_stream(&mut self, name: &StreamName, known: Known) {
        let before = self.streams.get(name).and_then(|it| it.record.record());
        if before != known.record.record() {
            self.revision += 1;
        }
        self.streams.insert(name.clone(), known);
    }

    /// Forgets a name.
    pub(super) fn remove_stream(&mut self, name: &StreamName) {
        let removed = self.streams.remove(name);
        if removed.is_some_and(|it| it.record.record().is_some()) {
            self.revision += 1;
        }
    }
}

/// What is known of one name.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) record: Found,
    pub(super) read_at: Instant,
}

/// What stands under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Record(StreamRecord, Version),
    /// A value that this software cannot read and therefore never overwrites.
    Unreadable,
}

/// What is known of one node.
#[derive(Clone, Debug)]
pub(super) struct KnownNode {
    pub(super) record: NodeRecord,
    read_at: Instant,
}

impl Found {
    pub(super) fn new(entry: Option<&Entry>) -> Self {
        let Some(entry) = entry else {
            return Self::Nothing;
        };
        match StreamRecord::parse(&entry.value) {
            Ok(record) => Self::Record(record, entry.version),
            Err(_) => Self::Unreadable,
        }
    }

    pub(super) const fn record(&self) -> Option<&StreamRecord> {
        match self {
            Self::Record(record, _) => Some(record),
            Self::Nothing | Self::Unreadable => None,
        }
    }

    pub(super) const fn fence(&self) -> Option<Fence> {
        match self {
            Self::Record(record, _) => Some(record.fence()),
            Self::Nothing | Self::Unreadable => None,
        }
    }
}

impl Node {
    /// The last known record of a name, whatever its age.
    pub(super) fn known(&self, name: &StreamName) -> Option<&StreamRecord> {
        self.directory.streams.get(name)?.record.record()
    }

    /// What stands under a name, if that is known well enough to decide about a viewer.
    pub(super) fn fresh(&self, name: &StreamName) -> Option<Found> {
        let known = self.directory.streams.get(name);
        if self.directory.is_complete && self.presence.is_connected {
            return Some(known.map_or(Found::Nothing, |it| it.record.clone()));
        }
        let known = known?;
        let is_fresh = self.now.at - known.read_at < STREAM_FRESH
            || !self.presence.is_connected
            || self.relays.get(name).is_some_and(|relay| relay.is_watched);
        is_fresh.then(|| known.record.clone())
    }

    /// Address of a node, if it is known well enough.
    pub(super) fn address(&self, node: &NodeId) -> Option<&NodeRecord> {
        let known = self.directory.nodes.get(node)?;
        let is_notified = self.config.hears_everything || known.record.region == self.config.region;
        let is_fresh = self.now.at - known.read_at < NODE_FRESH;
        (is_notified || is_fresh || !self.presence.is_connected).then_some(&known.record)
    }

    /// Asks for notices, for the lists that go with them, and for the node's own record.
    pub(super) fn read_everything(&mut self) {
        self.directory.is_complete = false;
        let scope = match self.config.hears_everything {
            true => Scope::Everything,
            false => Scope::Region(self.config.region.clone()),
        };
        self.call(Purpose::Hint, Call::Changes { scope });
        if self.config.hears_everything {
            self.directory.listed_at = Some(self.now.at);
            let kind = KeyKind::Streams;
            self.call(Purpose::ListStreams, Call::List { kind });
            let kind = KeyKind::Nodes;
            self.call(Purpose::ListNodes, Call::List { kind });
        } else {
            let watched = self.relays.iter().filter(|(_, relay)| relay.is_watched);
            let claimed = self.claims.names();
            let names: Vec<_> = watched
                .map(|(name, _)| name.clone())
                .chain(claimed)
                .collect();
            for name in names {
                let scope = Scope::Stream(name);
                self.call(Purpose::Hint, Call::Changes { scope });
            }
        }
    }

    /// Asks for notices about a name, if not all come anyway.
    pub(super) fn watch(&mut self, name: &StreamName) {
        if !self.config.hears_everything {
            let scope = Scope::Stream(name.clone());
            self.call(Purpose::Hint, Call::Changes { scope });
        }
    }

    /// Ends the notices about a name that is neither held nor pulled any more.
    pub(super) fn unwatch(&mut self, name: &StreamName) {
        let is_pulled = self.relays.get(name).is_some_and(|relay| relay.is_watched);
        if !self.config.hears_everything && !is_pulled && !self.claims.has(name) {
            let scope = Scope::Forget(name.clone());
            self.call(Purpose::Hint, Call::Changes { scope });
            self.directory.remove_stream(name);
        }
    }

    pub(super) fn read_node(&mut self, node: &NodeId, region: &crate::name::Region) {
        let key = Key::Node(region.clone(), node.clone());
        self.call(Purpose::NodeRead(node.clone()), Call::Get { key });
    }

    pub(super) fn on_streams_listed(&mut self, result: Result<Answered, CallError>) {
        let Ok(Answered::Listed(entries)) = result else {
            self.presence.list_due = Some(self.now.at + Duration::from_secs(5));
            return;
        };
        let began = self.directory.listed_at.unwrap_or(self.now.at);
        let is_old = |known: &Known| known.read_at < began;
        let mut gone: Vec<StreamName> = self
            .directory
            .streams
            .iter()
            .filter(|(_, known)| is_old(known))
            .map(|(name, _)| name.clone())
            .collect();
        let mut present = std::collections::BTreeSet::new();
        for (key, entry) in entries {
            if let Key::Stream(name) = key {
                present.insert(name.clone());
                if self.directory.streams.get(&name).is_none_or(is_old) {
                    self.learn(&name, &Found::new(Some(&entry)));
                }
            }
        }
        gone.retain(|name| !present.contains(name));
        for name in gone {
            self.learn(&name, &Found::Nothing);
        }
        self.directory.is_complete = true;
    }

    pub(super) fn on_nodes_listed(&mut self, result: Result<Answered, CallError>) {
        if let Ok(Answered::Listed(entries)) = result {
            for (key, entry) in entries {
                self.learn_node(&key, Some(&entry));
            }
        }
    }

    pub(super) fn on_node_read(&mut self, node: &NodeId, result: &Result<Answered, CallError>) {
        if let Ok(Answered::Got(Some(entry))) = result
            && let Ok(record) = NodeRecord::parse(&entry.value)
        {
            self.keep_node(node.clone(), record);
        }
        self.on_address(node);
    }

    pub(super) fn on_changed(&mut self, key: Key, entry: Option<&Entry>) {
        match key {
            Key::Stream(name) => self.learn(&name, &Found::new(entry)),
            Key::Node(..) => self.learn_node(&key, entry),
        }
    }

    fn learn_node(&mut self, key: &Key, entry: Option<&Entry>) {
        let Key::Node(region, node) = key else {
            return;
        };
        let record = entry.and_then(|it| NodeRecord::parse(&it.value).ok());
        // A record that names another region than its key was not written by this software.
        if let Some(record) = record.filter(|it| it.region == *region) {
            let drains = record.state == NodeState::Draining;
            self.keep_node(node.clone(), record);
            if drains {
                self.sources_of_gone(node);
            }
        }
    }

    fn keep_node(&mut self, node: NodeId, record: NodeRecord) {
        let read_at = self.now.at;
        if self.directory.nodes.len() < RECORDS_MAX {
            self.directory
                .nodes
                .insert(node, KnownNode { record, read_at });
        }
    }

    /// Takes what stands under a name, from a notice or from a read.
    pub(super) fn learn(&mut self, name: &StreamName, record: &Found) {
        let is_needed =
            self.config.hears_everything || self.claims.has(name) || self.relays.contains_key(name);
        let is_nothing = *record == Found::Nothing;
        let known = Known {
            record: record.clone(),
            read_at: self.now.at,
        };
        // What is gone is only remembered where somebody would ask again.
        if is_nothing && self.directory.is_complete && !self.relays.contains_key(name) {
            self.directory.remove_stream(name);
        } else if is_needed && self.directory.streams.len() < RECORDS_MAX {
            self.directory.set_stream(name, known);
        }
        self.claim_learns(name, record);
        self.relay_learns(name, record);
    }
}
