//! The member of a cluster, with a store and an owner of streams that the tests stand for. The core's
//! time is handed on by hand.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use glassline_access::auth::Secret;
use glassline_cluster::engine::{
    Answer, Answered, Call, CallError, Entry, Incoming, KeyKind, Version,
};
use glassline_cluster::question::{Holder, Question, Report};
use glassline_cluster::record::NodeRecord;
use glassline_cluster::record::{Kind, NodeState, RECORD_VERSION, StreamRecord, StreamState};
use glassline_cluster::{Access, Admission, Catalog, Event, Key, Moment, Region, ViewerId};
use glassline_cluster_nats::{Login, Options};
use glassline_hub::{Hub, Limits, Stream};
use glassline_latency::FrameCodes;
use glassline_quic::moq::NodeClock;
use glassline_runtime::{SourcePrefix, Supervisor};

use super::*;

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

/// A store, and the owner of a stream, which keeps no place for viewers and one for a pull.
struct Others {
    /// The record of the stream.
    record: Option<Bytes>,
}

impl Others {
    fn with_owner() -> Self {
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
        Self {
            record: Some(record.to_value()),
        }
    }

    /// Answers what the core asks, and returns what it decided.
    fn settle(&mut self, member: &Member, now: Moment) -> Vec<Event> {
        let (mut core, mut events) = (member.core.lock(), Vec::new());
        loop {
            events.extend(std::iter::from_fn(|| core.node.poll_event()));
            let Some(request) = core.node.poll_request() else {
                return events;
            };
            let (id, result) = (request.id, self.answer(request.call));
            core.node.handle_answer(now, Answer { id, result });
        }
    }

    fn answer(&mut self, call: Call) -> Result<Answered, CallError> {
        let version = Version(1);
        let entry = |value: Bytes| Entry { value, version };
        Ok(match call {
            Call::Get {
                key: Key::Stream(_),
            } => Answered::Got(self.record.clone().map(entry)),
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
                let record = self.record.clone();
                let key = Key::Stream(cam());
                Answered::Listed(record.map(|it| (key, entry(it))).into_iter().collect())
            }
            Call::PutIf {
                key: Key::Stream(_),
                value,
                ..
            } => {
                self.record = Some(value);
                Answered::Put(version)
            }
            Call::PutIf { .. } => Answered::Put(version),
            Call::DeleteIf { .. } => Answered::Deleted,
            Call::Changes { .. } => Answered::Watching,
            Call::Beat { .. } => Answered::Sent,
            Call::Ask { question, .. } => Answered::Reply(reply(&question)),
        })
    }
}

/// Returns what the owner replies.
fn reply(question: &[u8]) -> Bytes {
    let pulls = match Question::parse(question) {
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
    report.to_payload()
}

fn cam() -> Name {
    Name::new("cam").expect("a name")
}

/// Returns the moment some seconds after another one.
fn after(begun: Moment, s: u64) -> Moment {
    Moment {
        at: begun.at + Duration::from_secs(s),
        unix_ms: begun.unix_ms + s * 1_000,
    }
}

/// Connects a member to `others`.
fn connect(member: &Member, others: &mut Others, now: Moment) {
    let connected = Incoming::Connected;
    member.core.lock().node.handle_incoming(now, connected);
    others.settle(member, now);
}

#[tokio::test]
async fn a_viewer_who_finds_a_stream_that_is_pulled_already_keeps_the_pull() {
    let (member, begun, name) = (member(), moment(), cam());
    let mut others = Others::with_owner();
    connect(&member, &mut others, begun);
    // The owner has no place for the viewer: this server keeps one, and pulls the stream.
    let viewer = ViewerId(1);
    member
        .core
        .lock()
        .node
        .view(begun, viewer, &name, Access::Http);
    let decided = others.settle(&member, begun);
    let pull = decided.into_iter().find_map(|event| {
        let pull = match &event {
            Event::Pull { pull, .. } => Some(*pull),
            _ => None,
        };
        member.on_event(event);
        pull
    });
    let pull = pull.expect("the core pulls the stream");
    let catalog = Catalog {
        epoch: EPOCH,
        inc: INCARNATION,
        path: vec![owner()],
    };
    let admission = member.core.lock().node.admit(begun, pull, &name, &catalog);
    assert_eq!(admission, Admission::Begin);
    // The viewer comes late, finds the stream in the hub, and asks for nothing.
    let stream = member.hub.stream(name.as_str()).expect("it is pulled");
    let (_counted, _demand) = (stream.add_viewer(), stream.demand());
    member.look();
    others.settle(&member, begun);
    for s in 1..=60 {
        let now = after(begun, s);
        member.core.lock().node.handle_timeout(now);
        let events = others.settle(&member, now);
        let ends = |it: &Event| matches!(it, Event::EndPull { .. });
        assert!(!events.iter().any(ends), "the pull ended after {s} s");
    }
}

/// Adds the source `cam`, and lets some seconds pass.
fn add_source(member: &Arc<Member>, others: &mut Others, begun: Moment) -> Arc<Stream> {
    let name = StreamName::parse("cam").expect("a name");
    let stream = member.hub.create(name.clone()).expect("room");
    let _dialled = member.add_source(&name).expect("a name of the core");
    // Less than the time after which a server that sends no beats is asked whether it lives.
    for s in 0..3 {
        member.core.lock().node.handle_timeout(after(begun, s));
        for event in others.settle(member, after(begun, s)) {
            member.on_event(event);
        }
    }
    stream
}

#[tokio::test]
async fn clients_publish_in_place_of_a_source_that_lets_them_at_the_server_that_has_it() {
    let (member, begun) = (member(), moment());
    let mut others = Others { record: None };
    connect(&member, &mut others, begun);
    let stream = add_source(&member, &mut others, begun);
    let claim = member.claim(stream.name(), false).await;
    assert!(matches!(claim, Ok(None)), "{claim:?}");
    stream.set_only_source(Some("camera"));
    let none = member.lets_clients_in(stream.name(), &cam());
    assert_eq!(none, Ok(false), "the core refuses");
}

#[tokio::test]
async fn a_publisher_in_place_of_a_source_learns_which_server_has_it() {
    let (member, begun) = (member(), moment());
    let mut others = Others::with_owner();
    connect(&member, &mut others, begun);
    let stream = add_source(&member, &mut others, begun);
    let refused = member.claim(stream.name(), false).await;
    let told = refused.expect_err("the owner is another one").to_string();
    assert!(
        told.contains("'owner'") && told.contains("publish there"),
        "{told}"
    );
}

#[tokio::test]
async fn a_request_whose_server_is_silent_gives_way_to_another_address() {
    let (member, begun) = (member(), moment());
    connect(&member, &mut Others::with_owner(), begun);
    let ask = |last| {
        let asker = SourcePrefix::V4(Ipv4Addr::new(192, 0, 2, last));
        Box::pin(member.open_request("owner", Some(asker)))
    };
    // Nothing runs between these polls, so that no attempt to connect comes to its end.
    let mut connecting: Vec<_> = (0..4).flat_map(|last| [last; 128]).map(ask).collect();
    for request in &mut connecting {
        assert!(request.now_or_never().is_none(), "it connects");
    }
    let mut newcomer = ask(9);
    assert!((&mut newcomer).now_or_never().is_none(), "it has a place");
    // The polls before have used up what tokio lets a task do at once.
    let displaced = tokio::task::unconstrained(connecting.remove(0)).now_or_never();
    assert!(matches!(displaced, Some(Err(NotHandedOn::Busy))));
    assert!((&mut connecting[0]).now_or_never().is_none());
}
