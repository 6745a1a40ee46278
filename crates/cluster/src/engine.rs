//! The seam between the core and an engine: seven calls, their answers, and what an engine
//! tells unasked. All of it is data, so that a back end is a loop without decisions.
//!
//! ```text
//!            Node::poll_request ── Request { id, call } ──►            NATS
//!  Node      Node::poll_reply ──── Reply { question, payload } ──►     memory (virtual time)
//!  (core)  ◄── Node::handle_answer ── Answer { id, result }
//!          ◄── Node::handle_incoming ── Incoming
//! ```
//!
//! What a back end must do:
//!
//! - **Answer every request exactly once**, within [`STORE_TIMEOUT`] or, for [`Call::Ask`], the
//!   call's own `within`. Answers may come in any order. The core treats a request without answer
//!   as [`CallError::Unknown`] one second after that time, and ignores an answer that is later.
//! - **Tell the errors apart** as [`CallError`] says. To report `Conflict` or `Away` for a write
//!   that may have been applied is the one mistake that can split a stream; when in doubt, the
//!   answer is `Unknown`.
//! - Send [`Incoming::Connected`] when the engine can be used, at first and after each outage, and
//!   [`Incoming::Disconnected`] when it cannot. Between the two, answer every request with
//!   [`CallError::Away`] at once, requests under way with `Unknown` (writes) or `Away` (others).
//! - After `Connected`, deliver nothing of an earlier scope: the core asks for its [`Scope`] again.
//! - Values, payloads and questions are the core's bytes. A back end reads none of them.

use std::time::Duration;

use bytes::Bytes;

use crate::name::{Key, NodeId, Region, StreamName};

/// Time within which a back end answers every call except [`Call::Ask`]: 2 s.
pub const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// Most bytes of a value, beat, question or reply. Larger ones from outside are refused.
pub const VALUE_BYTES_MAX: usize = 4096;

/// Number of a request; unique within one [`crate::Node`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Number that a back end gives a question from another node; unique within the back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuestionId(pub u64);

/// Version of a stored value, made by the store: a revision in NATS.
///
/// The core only hands it back as the expected version of a write. It is never ordered and never
/// used as an epoch, because a store that lost data may give a version out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// A stored value with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The value as it was put.
    pub value: Bytes,
    /// Version of this value.
    pub version: Version,
}

/// A call that the back end makes for the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number that the answer carries.
    pub id: RequestId,
    /// The call to make.
    pub call: Call,
}

/// One of the seven calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Reads one key from the leader, not from a replica: [`Answered::Got`].
    Get {
        /// Key to read.
        key: Key,
    },
    /// Reads all keys of one kind: [`Answered::Listed`]. Keys that do not parse are left out.
    List {
        /// Which keys to read.
        kind: KeyKind,
    },
    /// Writes a value if the key still has the expected version: [`Answered::Put`].
    PutIf {
        /// Key to write.
        key: Key,
        /// Value to write, at most [`VALUE_BYTES_MAX`] bytes.
        value: Bytes,
        /// Version that must be there; `None` if the key must not exist or be deleted.
        expected: Option<Version>,
    },
    /// Deletes a key if it still has the expected version: [`Answered::Deleted`].
    DeleteIf {
        /// Key to delete.
        key: Key,
        /// Version that must be there.
        expected: Version,
    },
    /// Changes which notices arrive as [`Incoming::Changed`]: [`Answered::Watching`].
    Changes {
        /// Difference to the notices that arrive now.
        scope: Scope,
    },
    /// Sends a beat to all nodes of this region, this node included: [`Answered::Sent`]. The
    /// answer says only that the beat left; the node's own beat comes back as
    /// [`Incoming::Beat`], which is how the node knows that it is heard.
    Beat {
        /// Content of the beat.
        payload: Bytes,
        /// Whether the beat goes to the nodes of all regions that hear everything, too, as
        /// [`Incoming::FarBeat`].
        is_far: bool,
    },
    /// Asks another node, and waits for its reply: [`Answered::Reply`].
    ///
    /// Silence is [`CallError::Unknown`]. So is a refusal by an engine that knows of no listener
    /// for the node, and it may come at once.
    Ask {
        /// Node that is asked.
        node: NodeId,
        /// Content of the question, as the core wrote it.
        question: Bytes,
        /// How long to wait.
        within: Duration,
    },
}

/// The two kinds of keys; each has a bucket of its own in NATS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Keys `s.NAME`.
    Streams,
    /// Keys `n.REGION.NODE`, of all regions.
    Nodes,
}

/// Notices of changes that the core wants.
///
/// Notices are hints: one may be missing, doubled or late, and only the last state of a key
/// matters. A back end may deliver the present values of a scope as notices when it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// From now on all keys of both kinds, instead of what was asked for before.
    Everything,
    /// From now on the records of the nodes of this region only, instead of what was asked for
    /// before. Streams are added one by one.
    Region(Region),
    /// In addition this stream. Asked for in a region's scope only.
    Stream(StreamName),
    /// This stream no longer.
    Forget(StreamName),
}

/// Answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Number of the request.
    pub id: RequestId,
    /// The outcome of the call.
    pub result: Result<Answered, CallError>,
}

/// Outcome of a call that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The value of the key; `None` if there is none or it was deleted.
    Got(Option<Entry>),
    /// All keys of the kind with their values.
    Listed(Vec<(Key, Entry)>),
    /// The value was written and has this version.
    Put(Version),
    /// The key was deleted.
    Deleted,
    /// Notices of the scope arrive from now on.
    Watching,
    /// The beat was sent.
    Sent,
    /// The reply of the asked node.
    Reply(Bytes),
}

/// Reasons why a call failed. Each says whether a write may have been applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The key has another version than expected, or another write to it is under way (NATS
    /// codes 10071 and 10164). Certainly not applied.
    #[error("the record changed meanwhile")]
    Conflict,
    /// No answer in time, or the connection broke after the request left. A write may have been
    /// applied, or may still be applied later.
    #[error("no answer in time")]
    Unknown,
    /// The engine is not connected and the request did not leave. Certainly not applied.
    #[error("the engine is away")]
    Away,
    /// The engine refuses such a request, and would refuse it again: too large, no permission,
    /// no such bucket. Certainly not applied. The text is for the operator.
    #[error("the engine refused: {0}")]
    Refused(String),
}

/// A message of an engine that nobody asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The engine can be used.
    Connected,
    /// The engine cannot be used.
    Disconnected,
    /// A key has a new value, or none any more.
    Changed {
        /// Key that has changed.
        key: Key,
        /// Its value now; `None` if it was deleted or purged.
        entry: Option<Entry>,
    },
    /// A key has no value any more, although nobody was seen to delete it: a store lost it, or the
    /// deletion was missed.
    Missing {
        /// Key that has no value.
        key: Key,
    },
    /// A node of any region sent a beat that went to all of them.
    FarBeat {
        /// Sender, from the subject and not from the payload.
        node: NodeId,
        /// Content of the beat.
        payload: Bytes,
    },
    /// A node of this region sent a beat; this node's own beats come back, too.
    Beat {
        /// Sender, from the subject and not from the payload.
        node: NodeId,
        /// Content of the beat.
        payload: Bytes,
    },
    /// A node asks this one. The core replies through `Node::poll_reply`, at once or never.
    Question {
        /// Node that asks.
        from: NodeId,
        /// Number that the reply carries.
        id: QuestionId,
        /// Content of the question, as the core wrote it.
        payload: Bytes,
    },
}

/// The reply to an [`Incoming::Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Number of the question.
    pub question: QuestionId,
    /// Content of the reply.
    pub payload: Bytes,
}
