//! Records, beats, questions and keys from outside, and a node that gets them in any order with
//! whatever else can happen to it.
//!
//! Nothing panics; what parses comes back as it was written; and a node that is left alone asks
//! for a bounded number of calls.

use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_cluster::engine::{
    Answer, Answered, CallError, Entry, Incoming, QuestionId, RequestId, Version,
};
use glassline_cluster::question::{Question, Report};
use glassline_cluster::record::{Beat, NodeRecord, NodeState, StreamRecord};
use glassline_cluster::{
    Access, Catalog, Config, Event, Key, Moment, Node, NodeId, Policy, ProbeResult, PublisherId,
    PullId, Region, StreamName, ViewerId,
};

pub(crate) fn run(bytes: &[u8]) {
    parse(bytes);
    operate(bytes);
}

fn parse(bytes: &[u8]) {
    if let Ok(record) = StreamRecord::parse(bytes) {
        let again = StreamRecord::parse(&record.to_value());
        assert_eq!(again.expect("what was written is read"), record);
    }
    if let Ok(record) = NodeRecord::parse(bytes) {
        let again = NodeRecord::parse(&record.to_value());
        assert_eq!(again.expect("what was written is read"), record);
    }
    let _ = Beat::parse(bytes);
    let _ = Question::parse(bytes);
    let _ = Report::parse(bytes);
    if let Some(key) = std::str::from_utf8(bytes)
        .ok()
        .and_then(|it| Key::parse(it).ok())
    {
        assert_eq!(key.to_string().as_bytes(), bytes);
    }
}

/// Two bytes an operation: what happens, and to what. The rest of the input is a payload.
fn operate(bytes: &[u8]) {
    let mut now = Moment {
        at: Instant::now(),
        unix_ms: 1_763_900_000_000,
    };
    let names = ["a", "b.c", "d"].map(|it| StreamName::new(it).expect("a name"));
    let nodes = ["me", "other", "third"].map(|it| NodeId::new(it).expect("a name"));
    let mut node = new_node(&nodes[0], now);
    node.add_source(now, &names[2], &nodes);
    let mut requests: Vec<RequestId> = Vec::new();
    for (at, pair) in bytes.chunks_exact(2).take(400).enumerate() {
        let payload = bytes.get(at * 2..).unwrap_or_default();
        let payload = Bytes::copy_from_slice(&payload[..payload.len().min(300)]);
        let (name, other) = (
            &names[usize::from(pair[1] % 3)],
            &nodes[usize::from(pair[1] / 3 % 3)],
        );
        let number = u64::from(pair[1] >> 4);
        let entry = Entry {
            value: payload.clone(),
            version: Version(number),
        };
        match pair[0] % 20 {
            0 => node.handle_incoming(now, Incoming::Connected),
            1 => node.handle_incoming(now, Incoming::Disconnected),
            2 => node.publish(now, PublisherId(number), name, Policy::Refuse),
            3 => node.publish(now, PublisherId(number), name, Policy::Replace),
            4 => node.publish_ended(now, PublisherId(number), name),
            5 => node.view(now, ViewerId(number), name, Access::Http),
            6 => node.viewer_left(now, name),
            7 => node.pull_failed(now, PullId(number), name),
            8 => {
                let catalog = Catalog {
                    epoch: number,
                    inc: 1,
                    path: vec![other.clone()],
                };
                node.admit(now, PullId(number), name, &catalog);
            }
            9 => node.drain(now, now.at + Duration::from_secs(number)),
            10 => node.undrain(now),
            11 => node.enter_room(now, ViewerId(number), name),
            12 => node.leave_room(now, name),
            13 => {
                let key = Key::Stream(name.clone());
                let entry = (pair[1] & 4 == 0).then_some(entry);
                node.handle_incoming(now, Incoming::Changed { key, entry });
            }
            14 => {
                let node_id = other.clone();
                let beat = Incoming::Beat {
                    node: node_id,
                    payload,
                };
                node.handle_incoming(now, beat);
            }
            15 => {
                let question = Incoming::Question {
                    from: other.clone(),
                    id: QuestionId(number),
                    payload,
                };
                node.handle_incoming(now, question);
            }
            16 => {
                let probe = glassline_cluster::ProbeId(number);
                node.handle_probe(now, probe, &ProbeResult::Replied(payload));
            }
            17 | 18 => {
                if let Some(id) = requests.pop() {
                    let result = result(pair[1], entry);
                    node.handle_answer(now, Answer { id, result });
                }
            }
            _ => {
                now.at += Duration::from_millis(u64::from(pair[1]) * 20);
                now.unix_ms = now.unix_ms.wrapping_sub(number);
                node.handle_timeout(now);
            }
        }
        drain(&mut node, &mut requests);
    }
}

fn new_node(id: &NodeId, now: Moment) -> Node {
    let region = Region::new("r").expect("a name");
    let record = NodeRecord {
        inc: 1,
        quic: "127.0.0.1:4443".to_owned(),
        sha256: String::new(),
        http: None,
        rtsp: None,
        region: region.clone(),
        state: NodeState::Serving,
        version: String::new(),
    };
    Node::new(Config::new(id.clone(), region, record, 7), now)
}

fn result(choice: u8, entry: Entry) -> Result<Answered, CallError> {
    match choice % 9 {
        0 => Ok(Answered::Got(Some(entry))),
        1 => Ok(Answered::Got(None)),
        2 => Ok(Answered::Put(entry.version)),
        3 => Ok(Answered::Deleted),
        4 => Ok(Answered::Reply(entry.value)),
        5 => Err(CallError::Conflict),
        6 => Err(CallError::Unknown),
        7 => Err(CallError::Away),
        _ => Err(CallError::Refused("no".to_owned())),
    }
}

/// Takes everything that the node wants. One input must not make it want things for ever.
fn drain(node: &mut Node, requests: &mut Vec<RequestId>) {
    let mut count = 0;
    while let Some(request) = node.poll_request() {
        requests.push(request.id);
        count += 1;
        assert!(count < 10_000, "a node asks without end");
    }
    while node.poll_reply().is_some() {}
    while let Some(event) = node.poll_event() {
        if let Event::Pull { pull, .. } = event {
            assert!(pull.0 > 0);
        }
    }
}
