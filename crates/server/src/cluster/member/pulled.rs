//! The pulls that the core wants: each feeds the hub when the core admits it.

use std::sync::Arc;

use glassline_cluster::record::NodeRecord;
use glassline_cluster::{Admission, Catalog, NodeId, PullId, StreamName as Name};
use glassline_quic::moq::{NodeName, Provenance};
use tokio::sync::mpsc;

use super::{Core, Member, moment, node_id, record};
use crate::cluster::pull::{Gate, PullEvent, PullSource};

/// Lets a pull feed the hub if the core admits it.
#[derive(Debug)]
struct Admitting {
    member: Arc<Member>,
    pull: PullId,
    name: Name,
}

impl Gate for Admitting {
    fn pass(&self, provenance: &Provenance, begin: &mut dyn FnMut()) -> bool {
        let path = provenance
            .path
            .iter()
            .map(node_id)
            .collect::<Option<Vec<_>>>();
        let catalog = Catalog {
            epoch: provenance.epoch,
            inc: provenance.incarnation,
            path: path.unwrap_or_default(),
        };
        // Whoever claims the name later finds the stream published, and takes it over.
        let mut core = self.member.lock();
        let admission = core.node.admit(moment(), self.pull, &self.name, &catalog);
        let is_admitted = admission != Admission::End;
        if is_admitted {
            begin();
        }
        if let Admission::Replace(old) = admission {
            core.end_pull(old);
        }
        drop(core);
        self.member.wake();
        is_admitted
    }
}

impl Core {
    /// Ends a pull, whose bytes stay counted.
    pub(super) fn end_pull(&mut self, pull: PullId) {
        // A pull ends when it is dropped.
        if let Some(ended) = self.pulls.remove(&pull) {
            self.counts.pulled_bytes += ended.figures().bytes();
        }
    }
}

impl Member {
    pub(super) fn begin_pull(
        self: &Arc<Self>,
        pull: PullId,
        name: Name,
        from: &NodeId,
        record: &NodeRecord,
    ) {
        let (address, stream) = (record::address(record), self.stream_of(&name));
        let (Some(address), Some(stream)) = (address, stream) else {
            tracing::warn!(stream = %name, %from, "cannot be pulled: the address of the server is malformed, or the hub has no room");
            return self.pull_over(pull, &name);
        };
        let source = PullSource {
            address,
            epoch: None,
        };
        let gate = Admitting {
            member: Arc::clone(self),
            pull,
            name: name.clone(),
        };
        let mut core = self.lock();
        // Viewers find the stream in the hub from now on, and do not ask the cluster for it.
        core.follow(&name, &stream);
        let (handle, events) = self
            .pulls
            .start_behind(stream, source, &[], Some(Box::new(gate)));
        core.counts.pulls += 1;
        core.pulls.insert(pull, handle);
        drop(core);
        tokio::spawn(Arc::clone(self).follow(pull, name, from.clone(), events));
    }

    /// Waits for the end of a pull.
    async fn follow(
        self: Arc<Self>,
        pull: PullId,
        name: Name,
        from: NodeId,
        mut events: mpsc::Receiver<PullEvent>,
    ) {
        while let Some(event) = events.recv().await {
            match event {
                PullEvent::FirstData { provenance, .. } => {
                    let path = provenance.path.iter().map(NodeName::as_str);
                    let path = path.collect::<Vec<_>>().join(" → ");
                    let epoch = provenance.epoch;
                    tracing::info!(stream = %name, %from, path, epoch, "stream is pulled");
                }
                PullEvent::Failed { why, .. } => {
                    tracing::info!(stream = %name, %from, %why, "pull failed");
                    break;
                }
                PullEvent::Stalled { heard } => self.with_core(|core, now| {
                    core.node.pull_stalled(now, pull, &name, heard);
                }),
                PullEvent::Resumed => {
                    self.with_core(|core, now| core.node.pull_resumed(now, pull, &name));
                }
                PullEvent::CodecChanged { .. } => {}
                PullEvent::Ended => break,
            }
        }
        self.pull_over(pull, &name);
    }

    fn pull_over(&self, pull: PullId, name: &Name) {
        self.with_core(|core, now| {
            core.end_pull(pull);
            core.node.pull_failed(now, pull, name);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use glassline_access::auth::Secret;
    use glassline_cluster::engine::{
        Answer, Answered, Call, CallError, Entry, Incoming, KeyKind, Version,
    };
    use glassline_cluster::question::{Holder, Question, Report};
    use glassline_cluster::record::{Kind, NodeState, RECORD_VERSION, StreamRecord, StreamState};
    use glassline_cluster::{Access, Event, Key, Moment, Region, ViewerId};
    use glassline_cluster_nats::{Login, Options};
    use glassline_hub::{Hub, Limits};
    use glassline_latency::FrameCodes;
    use glassline_quic::moq::NodeClock;
    use glassline_runtime::Supervisor;

    use super::*;
    use crate::cluster::identity::{Identity, Provenances};
    use crate::cluster::member::MemberSettings;
    use crate::messages::MessageLinks;

    const EPOCH: u64 = 1_700_000_000_000;
    const INCARNATION: u64 = 3;

    fn region() -> Region {
        Region::new("here").expect("a region")
    }

    fn owner() -> NodeId {
        NodeId::new("owner").expect("a name")
    }

    fn owner_record() -> NodeRecord {
        NodeRecord {
            inc: INCARNATION,
            quic: "127.0.0.1:9".to_owned(),
            sha256: "00".repeat(32),
            http: Some("http://127.0.0.1:9".to_owned()),
            rtsp: None,
            region: region(),
            state: NodeState::Serving,
            version: "1".to_owned(),
        }
    }

    /// A member whose pulls are kept for 2 s after their last viewer.
    fn member() -> Arc<Member> {
        let identity = Identity {
            name: "edge".parse().expect("a name"),
            secret: Secret::new("0123456789abcdef").expect("a secret"),
            incarnation: 7,
            clock: NodeClock::since(moment().at),
        };
        let settings = MemberSettings {
            engine: Options {
                servers: Vec::new(),
                node: NodeId::new("edge").expect("a name"),
                region: region(),
                login: Login::Anonymous,
                tls: None,
                replicas: None,
                monitoring: None,
            },
            region: region(),
            linger: Duration::from_secs(2),
            viewers_max: 100,
            viewers_per_stream: 10,
            pulls_per_stream: 4,
            redirects: true,
            redirects_far: false,
            hears_everything: true,
            rebalances: true,
            mbps_max: None,
        };
        let provenances = Arc::new(Provenances::new(&identity, FrameCodes::default()));
        let supervisor = Supervisor::start().expect("a thread");
        let hub = Arc::new(Hub::new(Limits::default()));
        let links = MessageLinks::new(None);
        Member::new(&hub, &identity, &provenances, &supervisor, &links, settings).expect("a socket")
    }

    /// Answers as a store would in which the owner has the stream; the owner keeps no place for viewers,
    /// and one for a pull.
    fn answer(name: &Name, call: Call) -> Result<Answered, CallError> {
        let entry = |value: Bytes| Entry {
            value,
            version: Version(1),
        };
        Ok(match call {
            Call::Get { .. } => Answered::Got(None),
            Call::List {
                kind: KeyKind::Nodes,
            } => {
                let record = entry(owner_record().to_value());
                Answered::Listed(vec![(Key::Node(region(), owner()), record)])
            }
            Call::List {
                kind: KeyKind::Streams,
            } => {
                let record = StreamRecord {
                    v: RECORD_VERSION,
                    node: owner(),
                    region: region(),
                    inc: INCARNATION,
                    epoch: EPOCH,
                    kind: Kind::Pushed,
                    state: StreamState::Live,
                    tracks: Vec::new(),
                    bps: 0,
                };
                Answered::Listed(vec![(Key::Stream(name.clone()), entry(record.to_value()))])
            }
            Call::PutIf { .. } => Answered::Put(Version(1)),
            Call::DeleteIf { .. } => Answered::Deleted,
            Call::Changes { .. } => Answered::Watching,
            Call::Beat { .. } => Answered::Sent,
            Call::Ask { question, .. } => {
                let pulls = match Question::parse(&question) {
                    Ok(Question::Live(live)) => live.pull,
                    _ => false,
                };
                let holder = Holder {
                    node: owner(),
                    region: region(),
                    http: owner_record().http,
                    rtsp: None,
                    room: 0,
                    slots: u32::from(pulls),
                    hops: 1,
                    busy: 0,
                };
                let report = Report {
                    inc: INCARNATION,
                    epoch: EPOCH,
                    holders: vec![holder],
                    ..Report::default()
                };
                Answered::Reply(report.to_payload())
            }
        })
    }

    /// Answers what the core asks, and returns what it decided.
    fn settle(member: &Member, now: Moment, name: &Name) -> Vec<Event> {
        let (mut core, mut events) = (member.lock(), Vec::new());
        loop {
            events.extend(std::iter::from_fn(|| core.node.poll_event()));
            let Some(request) = core.node.poll_request() else {
                return events;
            };
            let (id, result) = (request.id, answer(name, request.call));
            core.node.handle_answer(now, Answer { id, result });
        }
    }

    #[tokio::test]
    async fn a_viewer_who_finds_a_stream_that_is_pulled_already_keeps_the_pull() {
        let (member, begun) = (member(), moment());
        let name = Name::new("cam").expect("a name");
        member
            .lock()
            .node
            .handle_incoming(begun, Incoming::Connected);
        settle(&member, begun, &name);
        // The owner has no place for the viewer: this server keeps one, and pulls the stream.
        let viewer = ViewerId(1);
        member.lock().node.view(begun, viewer, &name, Access::Http);
        let pull = begin_pull(&member, begun, &name);
        let catalog = Catalog {
            epoch: EPOCH,
            inc: INCARNATION,
            path: vec![owner()],
        };
        let admission = member.lock().node.admit(begun, pull, &name, &catalog);
        assert_eq!(admission, Admission::Begin);
        // The viewer comes late, finds the stream in the hub, and asks for nothing.
        let stream = member.hub.stream(name.as_str()).expect("it is pulled");
        let (_counted, _demand) = (stream.add_viewer(), stream.demand());
        member.look();
        settle(&member, begun, &name);
        for s in 1..=60 {
            let now = Moment {
                at: begun.at + Duration::from_secs(s),
                unix_ms: begun.unix_ms + s * 1_000,
            };
            member.lock().node.handle_timeout(now);
            let events = settle(&member, now, &name);
            let ends = |it: &Event| matches!(it, Event::EndPull { .. });
            assert!(!events.iter().any(ends), "the pull ended after {s} s");
        }
    }

    /// Begins the pull that the core has decided on.
    fn begin_pull(member: &Arc<Member>, now: Moment, name: &Name) -> PullId {
        let begun = settle(member, now, name).into_iter().find_map(|event| {
            let Event::Pull {
                pull, from, record, ..
            } = event
            else {
                return None;
            };
            member.begin_pull(pull, name.clone(), &from, &record);
            Some(pull)
        });
        begun.expect("the core pulls the stream")
    }
}
