//! What nodes ask each other over the engine, and what they reply: JSON of at most 4 KiB.

use std::cmp::Reverse;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::engine::{Answered, CallError};
use crate::name::{NodeId, Region, StreamName};
use crate::record::{RecordError, read, write};

/// Most holders of a stream in one reply; a reply then stays below 4 KiB with long names.
pub const HOLDERS_MAX: usize = 6;

/// A question to another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Question {
    /// Does the node have this stream, does its publisher send, and which nodes have room?
    Live(Live),
    /// Is there another process of the asked node? Only another one replies.
    Greet {
        /// Incarnation of the asking process.
        inc: u64,
    },
    /// The asking node pulls this stream from the asked one; repeated while it does.
    Adopt {
        /// Name of the stream that is meant.
        name: StreamName,
        /// The child with its streams.
        child: Holder,
    },
    /// The asking node no longer pulls this stream from the asked one.
    Leave {
        /// Name of the stream that is meant.
        name: StreamName,
    },
    /// The asking node is about to stop serving this stream; the asked one pulls it from there
    /// and should find another node.
    Moving {
        /// Name of the stream that is meant.
        name: StreamName,
    },
}

/// A question about a stream, and what the asking node wants of the asked one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// Name of the stream that is meant.
    pub name: StreamName,
    /// Region of the asking node, whose holders come first in the reply.
    pub region: Region,
    /// Whether the asking node is about to pull, so that a child is counted.
    pub pull: bool,
    /// Viewers for whom the asking node wants places at the asked one. The room of the asked
    /// node in the reply is kept for them.
    #[serde(default)]
    pub places: u32,
    /// Node that no longer brings the asking one the stream: its place as a child is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<NodeId>,
}

/// A node that has a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Name of the node that has the stream.
    pub node: NodeId,
    /// Region of the node.
    pub region: Region,
    /// Base of its URLs for viewers over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// Base of its URLs for viewers over RTSP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtsp: Option<String>,
    /// How many more viewers of this stream the node takes.
    #[serde(default)]
    pub room: u32,
    /// How many more nodes may pull this stream from the node.
    #[serde(default)]
    pub slots: u32,
    /// Nodes that the stream passes up to this one, both ends included; 0 for a node that does not
    /// have the stream.
    #[serde(default)]
    pub hops: u32,
    /// How busy the node is, in percent of what it can do.
    #[serde(default)]
    pub busy: u32,
}

impl Holder {
    /// Orders holders by how well a node of `region` is served from them, the best one last: those
    /// of the region before others, then those that the stream reaches over fewer nodes, then those
    /// with less to do, then those with more places, of which each has `free`.
    pub fn rank(&self, region: &Region, free: u32) -> impl Ord + use<> {
        // A tenth more load is no reason for another choice: what is told is some seconds old.
        let busy = self.busy / 10;
        (
            self.region == *region,
            Reverse(self.hops),
            Reverse(busy),
            free,
        )
    }
}

/// The reply to every [`Question`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Incarnation of the replying node.
    pub inc: u64,
    /// Beats that the replying process has sent, in reply to a greeting.
    #[serde(default, skip_serializing_if = "is_none")]
    pub beats: u64,
    /// Epoch that the replying node holds or pulls; 0 if it does not have the stream.
    #[serde(default)]
    pub epoch: u64,
    /// Whether a publisher or camera of the replying node sent a frame within the last second.
    #[serde(default)]
    pub publishing: bool,
    /// Time since the latest frame of a publisher or camera of the replying node, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_ms: Option<u64>,
    /// The replying node, if it has the stream, and the nodes that pull from it: those in the
    /// asking region first, then those with most room.
    #[serde(default)]
    pub holders: Vec<Holder>,
}

impl Question {
    /// Reads a question.
    ///
    /// # Errors
    /// Returns [`RecordError`] for anything that is no question.
    pub fn parse(payload: &[u8]) -> Result<Self, RecordError> {
        read(payload)
    }

    /// Writes the payload of a question.
    pub fn to_payload(&self) -> Bytes {
        write(self)
    }
}

impl Report {
    /// Reads a reply.
    ///
    /// # Errors
    /// Returns [`RecordError`] for anything that is no reply.
    pub fn parse(payload: &[u8]) -> Result<Self, RecordError> {
        read(payload)
    }

    /// Returns the reply in the answer to a question; `None` if there is none that can be read.
    pub fn in_answer(answer: &Result<Answered, CallError>) -> Option<Self> {
        match answer {
            Ok(Answered::Reply(payload)) => Self::parse(payload).ok(),
            _ => None,
        }
    }

    /// Writes the payload of a reply.
    pub fn to_payload(&self) -> Bytes {
        write(self)
    }
}

const fn is_none(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_full_reply_fits_into_a_message() {
        let name = "n".repeat(63);
        let holder = Holder {
            node: NodeId::new(&name).expect("a name"),
            region: Region::new(&name).expect("a name"),
            http: Some(format!("https://{}:8443", "h".repeat(200))),
            rtsp: Some(format!("rtsps://{}:8554", "h".repeat(200))),
            room: u32::MAX,
            slots: u32::MAX,
            hops: 4,
            busy: 100,
        };
        let report = Report {
            inc: u64::MAX,
            beats: 0,
            epoch: u64::MAX,
            publishing: true,
            silent_ms: Some(u64::MAX),
            holders: vec![holder; HOLDERS_MAX],
        };
        let payload = report.to_payload();
        assert_eq!(Report::parse(&payload).expect("a reply"), report);
    }

    #[test]
    fn a_question_is_readable_json() {
        let question = Question::Leave {
            name: StreamName::new("cam").expect("a name"),
        };
        assert_eq!(&question.to_payload()[..], br#"{"leave":{"name":"cam"}}"#);
        assert_eq!(
            Question::parse(&question.to_payload()).expect("read"),
            question
        );
    }

    proptest! {
        #[test]
        fn no_payload_panics(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Question::parse(&payload);
            let _ = Report::parse(&payload);
        }
    }
}
