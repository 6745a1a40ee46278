//! Static origins: a back end without any engine, for edges whose origins stand in their
//! configuration.
//!
//! Every name belongs to the first origin, and the others hold it, too: when a pull from one
//! fails, the core takes the next. Nobody claims anything here: a publisher of this node is
//! admitted by this node alone, and a name of its own hides the origins'. An origin needs no
//! cluster, only a QUIC listener. The node's [`crate::Config::hears_everything`] must be false,
//! since no list of all names exists.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::engine::{
    Answer, Answered, Call, CallError, Entry, Incoming, KeyKind, Request, Version,
};
use crate::name::{Key, NodeId, Region, StreamName};
use crate::question::{Holder, Question, Report};
use crate::record::{Kind, NodeRecord, RECORD_VERSION, StreamRecord, StreamState};

/// Version of everything that stands in the configuration.
const CONFIGURED: Version = Version(0);

/// Incarnation and epoch that origins without cluster have.
const NO_EPOCH: u64 = 0;

/// Pulls that an origin takes from one edge and name; the origin has its own limits.
const SLOTS: u32 = 1;

/// An origin of the configuration.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Name of the origin in messages and logs.
    pub node: NodeId,
    /// Address and certificate of the origin.
    pub record: NodeRecord,
}

/// A back end that answers from the configuration.
#[derive(Debug)]
pub struct Fixed {
    origins: Vec<Origin>,
    /// Records of this node's own publishers.
    own: BTreeMap<Key, Entry>,
    versions: u64,
    answers: VecDeque<Answer>,
}

impl Fixed {
    /// Returns a back end with these origins, in the order in which they are tried.
    pub const fn new(origins: Vec<Origin>) -> Self {
        Self {
            origins,
            own: BTreeMap::new(),
            versions: 0,
            answers: VecDeque::new(),
        }
    }

    /// Returns what the core must hear once at the start.
    pub const fn start(&self) -> Incoming {
        Incoming::Connected
    }

    /// Takes a request of the core.
    pub fn handle_request(&mut self, request: Request) {
        let result = self.result(request.call);
        self.answers.push_back(Answer {
            id: request.id,
            result,
        });
    }

    /// Returns the next answer for the core.
    pub fn poll_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    fn result(&mut self, call: Call) -> Result<Answered, CallError> {
        match call {
            Call::Get { key } => Ok(Answered::Got(self.get(&key))),
            Call::List { kind } => Ok(Answered::Listed(self.list(kind))),
            Call::PutIf {
                key,
                value,
                expected,
            } => {
                // What the configuration says is not there for writers.
                let version = self.own.get(&key).map(|it| it.version);
                let expected = expected.filter(|it| *it != CONFIGURED);
                if version != expected {
                    return Err(CallError::Conflict);
                }
                self.versions += 1;
                let version = Version(self.versions);
                self.own.insert(key, Entry { value, version });
                Ok(Answered::Put(version))
            }
            Call::DeleteIf { key, expected } => {
                match self.own.get(&key).map(|it| it.version) == Some(expected) {
                    true => self.own.remove(&key),
                    false => return Err(CallError::Conflict),
                };
                Ok(Answered::Deleted)
            }
            Call::Changes { .. } => Ok(Answered::Watching),
            Call::Beat { .. } => Ok(Answered::Sent),
            Call::Ask { node, question, .. } => self.ask(&node, &question),
        }
    }

    fn get(&self, key: &Key) -> Option<Entry> {
        if let Some(entry) = self.own.get(key) {
            return Some(entry.clone());
        }
        let value = match key {
            Key::Stream(_) => self.record_of(self.origins.first()?).to_value(),
            Key::Node(_, node) => {
                let mut origins = self.origins.iter();
                let origin = origins.find(|it| it.node == *node)?;
                origin.record.to_value()
            }
        };
        Some(Entry {
            value,
            version: CONFIGURED,
        })
    }

    fn list(&self, kind: KeyKind) -> Vec<(Key, Entry)> {
        let own = self.own.iter().filter(|(key, _)| match kind {
            KeyKind::Streams => matches!(key, Key::Stream(_)),
            KeyKind::Nodes => matches!(key, Key::Node(..)),
        });
        let mut listed: Vec<(Key, Entry)> =
            own.map(|(key, it)| (key.clone(), it.clone())).collect();
        if kind == KeyKind::Nodes {
            for origin in &self.origins {
                let key = Key::Node(origin.record.region.clone(), origin.node.clone());
                let value = origin.record.to_value();
                let version = CONFIGURED;
                listed.push((key, Entry { value, version }));
            }
        }
        listed
    }

    fn record_of(&self, origin: &Origin) -> StreamRecord {
        StreamRecord {
            v: RECORD_VERSION,
            node: origin.node.clone(),
            region: origin.record.region.clone(),
            inc: NO_EPOCH,
            epoch: NO_EPOCH,
            kind: Kind::Pushed,
            state: StreamState::Live,
            tracks: Vec::new(),
            bps: 0,
        }
    }

    /// An origin is not asked: all origins are said to have every stream.
    fn ask(&self, node: &NodeId, question: &[u8]) -> Result<Answered, CallError> {
        let is_origin = self.origins.iter().any(|it| it.node == *node);
        let is_live = matches!(Question::parse(question), Ok(Question::Live(_)));
        if !is_origin || !is_live {
            return Err(CallError::Unknown);
        }
        // The origin that is tried first has most slots, so that the order holds.
        let count = u32::try_from(self.origins.len()).unwrap_or(u32::MAX);
        let holders = self.origins.iter().zip(0..).map(|(origin, index)| Holder {
            node: origin.node.clone(),
            region: self.region(),
            http: None,
            rtsp: None,
            room: 0,
            slots: SLOTS + count - index,
            hops: 1,
            busy: 0,
        });
        let report = Report {
            inc: NO_EPOCH,
            epoch: NO_EPOCH,
            publishing: true,
            holders: holders.collect(),
            ..Report::default()
        };
        let payload: Bytes = report.to_payload();
        Ok(Answered::Reply(payload))
    }

    /// One region for all, so that the order of the configuration decides alone.
    fn region(&self) -> Region {
        let first = self.origins.first().map(|it| it.record.region.clone());
        first.unwrap_or_else(|| Region::new("origins").expect("a name"))
    }
}

impl Fixed {
    /// Returns whether this node's own publisher has the name.
    pub fn is_own(&self, name: &StreamName) -> bool {
        self.own.contains_key(&Key::Stream(name.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::record::NodeState;
    use crate::{
        Access, Admission, Catalog, Config, Event, Moment, Node, Policy, PublisherId, ViewerId,
    };

    fn record(quic: &str) -> NodeRecord {
        NodeRecord {
            inc: 0,
            quic: quic.to_owned(),
            sha256: "ab".repeat(32),
            http: None,
            rtsp: None,
            region: Region::new("r").expect("a name"),
            state: NodeState::Serving,
            version: "0.1.0".to_owned(),
        }
    }

    struct Edge {
        node: Node,
        fixed: Fixed,
        now: Moment,
    }

    impl Edge {
        fn new() -> Self {
            let now = Moment {
                at: glassline_sim::Clock::new().now(),
                unix_ms: 5,
            };
            let origins = ["first", "second"].map(|name| Origin {
                node: NodeId::new(name).expect("a name"),
                record: record(&format!("{name}:4443")),
            });
            let own = record("edge:4443");
            let (id, region) = (NodeId::new("edge").expect("a name"), own.region.clone());
            let mut config = Config::new(id, region, own, 3);
            config.hears_everything = false;
            let mut node = Node::new(config, now);
            let fixed = Fixed::new(origins.to_vec());
            node.handle_incoming(now, fixed.start());
            let mut edge = Self { node, fixed, now };
            edge.run(Duration::ZERO);
            edge
        }

        /// Passes requests and answers for a time, and returns the events.
        fn run(&mut self, time: Duration) -> Vec<Event> {
            let end = self.now.at + time;
            let mut events = Vec::new();
            loop {
                while let Some(request) = self.node.poll_request() {
                    self.fixed.handle_request(request);
                }
                while let Some(answer) = self.fixed.poll_answer() {
                    self.node.handle_answer(self.now, answer);
                }
                events.extend(std::iter::from_fn(|| self.node.poll_event()));
                if self.node.poll_timeout().is_some_and(|at| at <= end) {
                    let at = self.node.poll_timeout().unwrap_or(end);
                    self.now.at = self.now.at.max(at);
                    self.node.handle_timeout(self.now);
                } else if let Some(request) = self.node.poll_request() {
                    self.fixed.handle_request(request);
                } else {
                    break;
                }
            }
            self.now.at = end;
            events
        }

        fn pulled_from(&mut self, time: Duration) -> Vec<(crate::PullId, String)> {
            let events = self.run(time).into_iter();
            let pulls = events.filter_map(|event| match event {
                Event::Pull { pull, from, .. } => Some((pull, from.to_string())),
                _ => None,
            });
            pulls.collect()
        }
    }

    #[test]
    fn the_next_origin_is_tried_when_one_fails() {
        let (mut edge, name) = (Edge::new(), StreamName::new("cam").expect("a name"));
        edge.node.view(edge.now, ViewerId(1), &name, Access::Here);
        let pulls = edge.pulled_from(Duration::from_millis(500));
        assert_eq!(pulls.len(), 1, "{pulls:?}");
        assert_eq!(pulls[0].1, "first");
        edge.node.pull_failed(edge.now, pulls[0].0, &name);
        let pulls = edge.pulled_from(Duration::from_secs(1));
        assert_eq!(pulls[0].1, "second");
        let catalog = Catalog {
            epoch: 0,
            inc: 0,
            path: vec![NodeId::new("second").expect("a name")],
        };
        let admission = edge.node.admit(edge.now, pulls[0].0, &name, &catalog);
        assert_eq!(admission, Admission::Begin);
        // The first is taken again when the second fails later.
        edge.run(Duration::from_secs(20));
        edge.node.pull_failed(edge.now, pulls[0].0, &name);
        let pulls = edge.pulled_from(Duration::from_secs(1));
        assert_eq!(pulls[0].1, "first");
    }

    #[test]
    fn a_publisher_of_the_edge_needs_nobody() {
        let (mut edge, name) = (Edge::new(), StreamName::new("own").expect("a name"));
        edge.node
            .publish(edge.now, PublisherId(1), &name, Policy::Replace);
        edge.run(Duration::from_secs(2));
        assert!(edge.fixed.is_own(&name) && edge.node.announced(&name));
        edge.node.publish_ended(edge.now, PublisherId(1), &name);
        edge.run(Duration::from_secs(2));
        assert!(!edge.fixed.is_own(&name));
    }
}
