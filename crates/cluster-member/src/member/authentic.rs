//! Which of the addresses in NATS another server of the cluster has written.
//!
//! Whoever may write to NATS could name any address as that of a server: media would be pulled from
//! there, and viewers would be sent there with a ticket. So the record of a server, a question and a
//! reply carry a MAC: `"mac":"HEX"`, the last member of the object (of the object within a question),
//! HMAC-SHA256 (RFC 2104) under the cluster's secret over the purpose, the place and the bytes without
//! the member. What has no valid MAC is read without its addresses. The core knows nothing of it.
//!
//! Servers before this one ignore the member, and write none.

use std::collections::{BTreeSet, HashMap};

use aws_lc_rs::hmac;
use bytes::Bytes;
use glassline_access::auth::Secret;
use glassline_cluster::engine::{
    Answer, Answered, Call, Entry, Incoming, Reply, Request, RequestId,
};
use glassline_cluster::{Key, NodeId};
use parking_lot::Mutex;
use serde_json::Value;

/// The purpose of the MAC; it is none for anything else.
const PURPOSE: &[u8] = b"glassline cluster record 1";

/// Beginning of the member, and its length without the braces behind it: 64 digits and a quote follow.
const MEMBER: &[u8] = b",\"mac\":\"";
const MEMBER_BYTES: usize = MEMBER.len() + 64 + 1;

/// Members that are addresses, and whether a record must have them.
const ADDRESSES: [(&str, bool); 4] = [
    ("quic", true),
    ("sha256", true),
    ("http", false),
    ("rtsp", false),
];

/// Most servers that are remembered as unproven.
const UNPROVEN_MAX: usize = 1_000;

/// Signs what this server writes, and checks what it reads.
#[derive(derive_more::Debug)]
#[debug("Authentic {{ node: {node:?}, state: {:?}, .. }}", self.state.lock())]
pub(super) struct Authentic {
    key: hmac::Key,
    node: NodeId,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Places that the answers to requests come from. The engine answers each once.
    places: HashMap<RequestId, Document>,
    /// Servers whose records have no valid MAC.
    unproven: BTreeSet<NodeId>,
}

/// The document that bytes stand for, and its origin.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
enum Document {
    Record(Key),
    /// A question to this server.
    #[display("question to {_0}")]
    Question(NodeId),
    /// A reply of this server.
    #[display("reply of {_0}")]
    Reply(NodeId),
}

impl Document {
    /// Returns the number of braces behind the member.
    const fn depth(&self) -> usize {
        match self {
            // A question has one member, which older servers insist on.
            Self::Question(_) => 2,
            Self::Record(_) | Self::Reply(_) => 1,
        }
    }
}

impl Authentic {
    pub(super) fn new(secret: &Secret, node: NodeId) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes()),
            node,
            state: Mutex::default(),
        }
    }

    /// Returns whether the addresses of a server are used: its record has a valid MAC, or is unknown.
    pub(super) fn is_proven(&self, node: &NodeId) -> bool {
        !self.state.lock().unproven.contains(node)
    }

    /// Signs what a request writes or asks.
    pub(super) fn sign_request(&self, mut request: Request) -> Request {
        match &mut request.call {
            Call::PutIf { key, value, .. } => {
                if let Key::Node(..) = key {
                    *value = self.sign(&Document::Record(key.clone()), value);
                }
            }
            Call::Ask { node, question, .. } => {
                *question = self.sign(&Document::Question(node.clone()), question);
                let place = Document::Reply(node.clone());
                self.state.lock().places.insert(request.id, place);
            }
            Call::Get {
                key: key @ Key::Node(..),
            } => {
                let place = Document::Record(key.clone());
                self.state.lock().places.insert(request.id, place);
            }
            _ => {}
        }
        request
    }

    pub(super) fn sign_reply(&self, mut reply: Reply) -> Reply {
        let place = Document::Reply(self.node.clone());
        reply.payload = self.sign(&place, &reply.payload);
        reply
    }

    /// Returns an answer of the engine with the addresses that are proven.
    pub(super) fn check_answer(&self, mut answer: Answer) -> Answer {
        let place = self.state.lock().places.remove(&answer.id);
        match (&mut answer.result, place) {
            (Ok(Answered::Listed(entries)), _) => {
                for (key, entry) in entries {
                    self.check_record(key, Some(entry));
                }
            }
            (Ok(Answered::Got(entry)), Some(Document::Record(key))) => {
                self.check_record(&key, entry.as_mut());
            }
            (Ok(Answered::Reply(payload)), Some(place)) => *payload = self.check(&place, payload).0,
            _ => {}
        }
        answer
    }

    /// Returns what the engine tells with the addresses that are proven.
    pub(super) fn check_incoming(&self, mut incoming: Incoming) -> Incoming {
        match &mut incoming {
            Incoming::Changed { key, entry } => self.check_record(key, entry.as_mut()),
            Incoming::Missing { key } => self.check_record(key, None),
            Incoming::Question { payload, .. } => {
                *payload = self
                    .check(&Document::Question(self.node.clone()), payload)
                    .0;
            }
            // Requests under way are answered, and later ones have other numbers.
            Incoming::Connected
            | Incoming::Disconnected
            | Incoming::Beat { .. }
            | Incoming::FarBeat { .. } => {}
        }
        incoming
    }

    fn check_record(&self, key: &Key, entry: Option<&mut Entry>) {
        let Key::Node(_, node) = key else {
            return;
        };
        let is_proven = entry.is_none_or(|entry| {
            let (value, is_proven) = self.check(&Document::Record(key.clone()), &entry.value);
            entry.value = value;
            is_proven
        });
        let unproven = &mut self.state.lock().unproven;
        if is_proven {
            unproven.remove(node);
        } else if unproven.len() < UNPROVEN_MAX && unproven.insert(node.clone()) {
            tracing::warn!(%node, "the record of a server in NATS has no valid MAC, so nothing is pulled from its addresses and nobody is sent there: it has another `cluster.secret` or an older version, or somebody else has written the record");
        }
    }

    fn sign(&self, place: &Document, value: &Bytes) -> Bytes {
        let (body, braces) = split(value, place.depth());
        let mac = hmac::sign(&self.key, &message(place, value));
        let digits = mac.as_ref().iter().map(|byte| format!("{byte:02x}"));
        let mac: String = digits.collect();
        [body, MEMBER, mac.as_bytes(), b"\"", braces]
            .concat()
            .into()
    }

    /// Returns the bytes without the member, and whether the MAC is valid. If not, addresses are left
    /// out.
    fn check(&self, place: &Document, value: &Bytes) -> (Bytes, bool) {
        let (signed, braces) = split(value, place.depth());
        let at = signed.len().saturating_sub(MEMBER_BYTES);
        let (body, member) = signed.split_at(at);
        let mac = member
            .strip_prefix(MEMBER)
            .and_then(|it| it.strip_suffix(b"\""));
        let mac = mac.and_then(bytes_of);
        let whole: Bytes = [body, braces].concat().into();
        let is_valid =
            |mac: [u8; 32]| hmac::verify(&self.key, &message(place, &whole), &mac).is_ok();
        match mac.is_some_and(is_valid) {
            true => (whole, true),
            false => (without_addresses(value), false),
        }
    }
}

/// Splits an object in front of its last `depth` bytes, which are braces in all that this software
/// writes.
fn split(value: &[u8], depth: usize) -> (&[u8], &[u8]) {
    value.split_at(value.len().saturating_sub(depth))
}

/// The place has its length in front.
fn message(place: &Document, value: &[u8]) -> Vec<u8> {
    let place = place.to_string();
    let length = u32::try_from(place.len()).unwrap_or(u32::MAX);
    [PURPOSE, &length.to_be_bytes(), place.as_bytes(), value].concat()
}

/// Reads 32 bytes of hexadecimal digits.
fn bytes_of(text: &[u8]) -> Option<[u8; 32]> {
    let (pairs, rest) = text.as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
    let bytes: Vec<u8> = pairs.iter().map(byte).collect::<Option<_>>()?;
    rest.is_empty().then(|| bytes.try_into().ok()).flatten()
}

/// Returns JSON in which no member is an address; what is no JSON stays, since nobody can read it.
fn without_addresses(value: &Bytes) -> Bytes {
    let Ok(mut json) = serde_json::from_slice::<Value>(value) else {
        return value.clone();
    };
    strip(&mut json);
    json.to_string().into()
}

fn strip(json: &mut Value) {
    match json {
        Value::Object(members) => {
            for (name, is_needed) in ADDRESSES {
                if !is_needed {
                    members.remove(name);
                } else if let Some(address) = members.get_mut(name) {
                    *address = Value::String(String::new());
                }
            }
            members.values_mut().for_each(strip);
        }
        Value::Array(values) => values.iter_mut().for_each(strip),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use glassline_cluster::Region;
    use glassline_cluster::engine::{QuestionId, Version};
    use glassline_cluster::question::{Holder, Question, Report};
    use glassline_cluster::record::NodeRecord;

    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::new(name).expect("a name")
    }

    fn authentic(secret: &str, name: &str) -> Authentic {
        Authentic::new(&Secret::new(secret).expect("a secret"), node(name))
    }

    fn region() -> Region {
        Region::new("eu").expect("a name")
    }

    fn record() -> NodeRecord {
        let record = serde_json::json!({
            "inc": 7, "quic": "192.0.2.1:4443", "sha256": "07".repeat(32), "region": "eu",
            "http": "https://a.example", "rtsp": "rtsp://a.example", "state": "serving",
            "version": "1",
        });
        NodeRecord::parse(record.to_string().as_bytes()).expect("a record")
    }

    fn put(by: &Authentic, name: &str, record: &NodeRecord) -> Bytes {
        let call = Call::PutIf {
            key: Key::Node(region(), node(name)),
            value: record.to_value(),
            expected: None,
        };
        let request = by.sign_request(Request {
            id: RequestId(1),
            call,
        });
        match request.call {
            Call::PutIf { value, .. } => value,
            other => panic!("{other:?}"),
        }
    }

    fn read(by: &Authentic, name: &str, value: &Bytes) -> NodeRecord {
        let entry = Some(Entry {
            value: value.clone(),
            version: Version(1),
        });
        let key = Key::Node(region(), node(name));
        match by.check_incoming(Incoming::Changed { key, entry }) {
            Incoming::Changed {
                entry: Some(entry), ..
            } => NodeRecord::parse(&entry.value).expect("a record"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn addresses_that_no_server_of_the_cluster_has_written_are_not_used() {
        let (a, b) = (authentic("hunter2", "a"), authentic("hunter2", "b"));
        let value = put(&a, "a", &record());
        assert_eq!(read(&b, "a", &value), record());
        assert!(b.is_proven(&node("a")));
        // Servers before this one read it, too.
        assert_eq!(NodeRecord::parse(&value).expect("a record"), record());
        let text = std::str::from_utf8(&value).expect("JSON");
        let moved = text.replace("192.0.2.1", "192.0.2.9");
        let other_secret = put(&authentic("hunter3", "a"), "a", &record());
        let stranger = authentic("hunter2", "c");
        for (why, name, forged) in [
            ("without", "a", record().to_value()),
            ("changed", "a", moved.into()),
            ("of another secret", "a", other_secret),
            ("of another server", "c", value.clone()),
            (
                "empty",
                "a",
                text.replace("\"mac\":\"", "\"mac\":\"\",\"x\":\"").into(),
            ),
        ] {
            let found = read(&stranger, name, &forged);
            assert_eq!((found.quic.as_str(), found.http), ("", None), "{why}");
            assert_eq!(found.rtsp, None, "{why}");
            assert!(!stranger.is_proven(&node(name)), "{why}");
        }
        assert_eq!(read(&stranger, "a", &value), record(), "it is proven later");
        assert!(stranger.is_proven(&node("a")));
    }

    #[test]
    fn holders_in_questions_and_replies_have_addresses_only_if_a_server_named_them() {
        let (a, b) = (authentic("hunter2", "a"), authentic("hunter2", "b"));
        let holder = serde_json::json!({
            "node": "c", "region": "eu", "http": "https://c.example", "room": 1, "slots": 1,
        });
        let holder: Holder = serde_json::from_value(holder).expect("a holder");
        let question = Question::Adopt {
            name: glassline_cluster::StreamName::new("cam").expect("a name"),
            child: holder.clone(),
        };
        let ask = |question: &Question| Request {
            id: RequestId(5),
            call: Call::Ask {
                node: node("b"),
                question: question.to_payload(),
                within: std::time::Duration::from_secs(1),
            },
        };
        let Call::Ask {
            question: asked, ..
        } = a.sign_request(ask(&question)).call
        else {
            panic!("a question");
        };
        assert_eq!(Question::parse(&asked).expect("older servers"), question);
        let heard = |payload: &Bytes| {
            let question = Incoming::Question {
                from: node("a"),
                id: QuestionId(1),
                payload: payload.clone(),
            };
            match b.check_incoming(question) {
                Incoming::Question { payload, .. } => {
                    Question::parse(&payload).expect("a question")
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(heard(&asked), question);
        let Question::Adopt { child, .. } = heard(&question.to_payload()) else {
            panic!("another question");
        };
        assert_eq!((child.http, child.node), (None, node("c")));

        let report = Report {
            holders: vec![holder],
            ..Report::default()
        };
        let reply = b.sign_reply(Reply {
            question: QuestionId(1),
            payload: report.to_payload(),
        });
        let answer = |payload: &Bytes| {
            let _ = a.sign_request(ask(&question));
            let result = Ok(Answered::Reply(payload.clone()));
            let answer = a.check_answer(Answer {
                id: RequestId(5),
                result,
            });
            match answer.result {
                Ok(Answered::Reply(payload)) => Report::parse(&payload).expect("a reply"),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(answer(&reply.payload), report);
        assert_eq!(answer(&report.to_payload()).holders[0].http, None);
        assert!(a.state.lock().places.is_empty());
    }
}
