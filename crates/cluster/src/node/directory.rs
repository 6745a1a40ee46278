//! Records that this node knows.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Node, Purpose};
use crate::engine::{Answered, Call, CallError, Entry, KeyKind, Scope, Version};
use crate::name::{Key, NodeId, StreamName};
use crate::record::{Fence, NodeRecord, NodeState, RECORD_VERSION, RecordError, StreamRecord};

/// How long the record of a node of another region is taken as it was read.
const NODE_FRESH: Duration = Duration::from_secs(60);

/// How long the record of a stream is taken as it was read, when no notices come for it.
const STREAM_FRESH: Duration = Duration::from_secs(5);

/// How long an owner whose record is gone is asked whether it still has the stream. Whoever asks in
/// vain, or finds it alive, begins anew.
const LOST_FOR: Duration = Duration::from_secs(60);

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
    /// Records of other nodes that are no longer in the store although nobody was seen to delete them,
    /// and when that was found.
    lost: BTreeMap<StreamName, (StreamRecord, Instant)>,
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

/// Facts about one name.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) record: Found,
    pub(super) read_at: Instant,
}

/// The entry under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Record(StreamRecord, Version),
    /// A record of a newer version of this software, which is never overwritten.
    Newer,
    /// A value that no node wrote, like what a tool or a faulty store leaves. The name counts as free, but for
    /// its owner.
    Damaged(Version),
}

/// Facts about one node.
#[derive(Clone, Debug)]
pub(super) struct KnownNode {
    pub(super) record: NodeRecord,
    pub(super) version: Version,
    pub(super) read_at: Instant,
}

impl Found {
    pub(super) fn new(entry: Option<&Entry>) -> Self {
        let Some(entry) = entry else {
            return Self::Nothing;
        };
        match StreamRecord::parse(&entry.value) {
            Ok(record) => Self::Record(record, entry.version),
            Err(RecordError::Version(version)) if version > RECORD_VERSION => Self::Newer,
            Err(_) => Self::Damaged(entry.version),
        }
    }

    pub(super) const fn record(&self) -> Option<&StreamRecord> {
        match self {
            Self::Record(record, _) => Some(record),
            Self::Nothing | Self::Newer | Self::Damaged(_) => None,
        }
    }

    pub(super) const fn fence(&self) -> Option<Fence> {
        match self {
            Self::Record(record, _) => Some(record.fence()),
            Self::Nothing | Self::Newer | Self::Damaged(_) => None,
        }
    }
}

impl Node {
    /// The last known record of a name, whatever its age.
    pub(super) fn known(&self, name: &StreamName) -> Option<&StreamRecord> {
        self.directory.streams.get(name)?.record.record()
    }

    /// The entry under a name, if it is known well enough to decide about a viewer.
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
            self.read_again(&name, None);
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
            self.keep_node(node.clone(), record, entry.version);
        }
        self.on_address(node);
    }

    pub(super) fn on_changed(&mut self, key: Key, entry: Option<&Entry>) {
        match key {
            Key::Stream(name) => {
                let found = Found::new(entry);
                match found {
                    Found::Damaged(_) => self.note_lost(&name, &found),
                    _ => drop(self.directory.lost.remove(&name)),
                }
                self.learn(&name, &found);
            }
            Key::Node(..) if entry.is_none() => self.node_deleted(&key),
            Key::Node(..) => self.learn_node(&key, entry),
        }
    }

    /// Takes what a read found under a name. A record that is gone without a notice is remembered.
    pub(super) fn read_again(&mut self, name: &StreamName, entry: Option<&Entry>) {
        let found = Found::new(entry);
        self.note_lost(name, &found);
        self.learn(name, &found);
    }

    /// Remembers the record of another node that is gone or damaged although nobody was seen to delete it.
    pub(super) fn note_lost(&mut self, name: &StreamName, found: &Found) {
        if !matches!(found, Found::Nothing | Found::Damaged(_)) {
            self.directory.lost.remove(name);
            return;
        }
        let known = self.known(name).filter(|it| it.node != self.config.node);
        if let Some(record) = known.cloned()
            && self.directory.lost.len() < RECORDS_MAX
        {
            let lost = (record, self.now.at);
            self.directory.lost.insert(name.clone(), lost);
        }
    }

    /// The record of a living node that is gone from the store: that node writes it back.
    pub(super) fn lost_record(&self, name: &StreamName) -> Option<StreamRecord> {
        let (record, at) = self.directory.lost.get(name)?;
        let is_fresh = self.now.at - *at < LOST_FOR;
        let is_over = self.peers.is_dead(&record.node, record.inc);
        (is_fresh && !is_over).then(|| record.clone())
    }

    /// Notes that the owner of a lost record still has the stream, so that it is asked again.
    pub(super) fn lost_is_alive(&mut self, name: &StreamName) {
        if let Some((_, at)) = self.directory.lost.get_mut(name) {
            *at = self.now.at;
        }
    }

    /// Forgets records that were lost long ago; called once a second.
    pub(super) fn expire_lost(&mut self) {
        let now = self.now.at;
        let lost = &mut self.directory.lost;
        lost.retain(|_, (_, at)| now - *at < LOST_FOR);
    }

    fn node_deleted(&mut self, key: &Key) {
        let Key::Node(_, node) = key else {
            return;
        };
        if *node == self.config.node {
            return self.own_record_deleted();
        }
        self.directory.nodes.remove(node);
    }

    fn learn_node(&mut self, key: &Key, entry: Option<&Entry>) {
        let Key::Node(region, node) = key else {
            return;
        };
        let record = entry.and_then(|it| Some((NodeRecord::parse(&it.value).ok()?, it.version)));
        // A record that names another region than its key was not written by this software.
        if let Some((record, version)) = record.filter(|(it, _)| it.region == *region) {
            let drains = record.state == NodeState::Draining;
            self.keep_node(node.clone(), record, version);
            if drains {
                self.sources_of_gone(node);
            }
        }
    }

    fn keep_node(&mut self, node: NodeId, record: NodeRecord, version: Version) {
        let known = KnownNode {
            record,
            version,
            read_at: self.now.at,
        };
        if self.directory.nodes.len() < RECORDS_MAX {
            self.directory.nodes.insert(node, known);
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
