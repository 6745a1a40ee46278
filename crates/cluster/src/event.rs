//! What a [`crate::Node`] decides: the server carries each [`Event`] out, in order.

use std::time::Instant;

use bytes::Bytes;

use crate::name::{NodeId, StreamName};
use crate::record::NodeRecord;

/// Number that the server gives a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublisherId(pub u64);

/// Number that the server gives a viewer, or somebody who enters a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewerId(pub u64);

/// Number that the core gives a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PullId(pub u64);

/// Number that the core gives a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeId(pub u64);

/// The rule for a second publisher of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The second publisher is refused while the first one sends.
    #[default]
    Refuse,
    /// The second publisher takes over.
    Replace,
}

/// A decision for the server to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A publisher may send, or may not.
    Publish {
        /// The publisher of [`crate::Node::publish`].
        publisher: PublisherId,
        /// Stream that it publishes.
        name: StreamName,
        /// Whether it may.
        decision: PublishDecision,
    },
    /// A publisher that was admitted without the engine now has a claim: the stream is announced
    /// with this epoch from now on.
    Announce {
        /// Name of the stream that is meant.
        name: StreamName,
        /// Epoch of the claim, for the catalog.
        epoch: u64,
    },
    /// Another node holds the stream with a higher fence, or the policy replaced the publisher:
    /// send the publisher away, and end its media at once.
    Superseded {
        /// Publisher that must be sent away.
        publisher: PublisherId,
        /// Name of the stream that is meant.
        name: StreamName,
        /// The node that holds the stream now.
        by: NodeId,
    },
    /// Connect to the camera or open the file: this node holds the claim.
    Dial {
        /// The configured source.
        name: StreamName,
        /// Epoch of the claim, for the catalog.
        epoch: u64,
    },
    /// Disconnect from the camera, because another node has it or the node drains.
    HangUp {
        /// The configured source.
        name: StreamName,
    },
    /// Where a viewer is served.
    Viewer {
        /// The viewer of [`crate::Node::view`].
        viewer: ViewerId,
        /// Name of the stream that is meant.
        name: StreamName,
        /// Where it is served.
        decision: ViewDecision,
    },
    /// Where a participant meets the others of a room.
    Room {
        /// The participant of [`crate::Node::enter_room`].
        viewer: ViewerId,
        /// Name of the room that is meant.
        name: StreamName,
        /// Where the room is.
        decision: ViewDecision,
    },
    /// Somebody else has the room: its participants here have to enter again.
    RoomMoved {
        /// Name of the room that is meant.
        name: StreamName,
        /// Node that has the room now.
        to: NodeId,
    },
    /// Connect to a node and read a stream. When its first keyframe is there, ask
    /// [`crate::Node::admit`] before any of it reaches the hub; when it fails before or
    /// afterwards, call [`crate::Node::pull_failed`]. Viewers find the stream here from now on: all of
    /// them count, by [`crate::Node::view`] or [`crate::Node::set_viewers`], or the pull ends under them.
    Pull {
        /// Number of the pull that is meant.
        pull: PullId,
        /// Name of the stream that is meant.
        name: StreamName,
        /// Node to pull from.
        from: NodeId,
        /// Address and certificate of that node.
        record: Box<NodeRecord>,
    },
    /// End a pull: nobody needs it, or its epoch is over. Its frames must not reach the hub any
    /// more.
    EndPull {
        /// Number of the pull that is meant.
        pull: PullId,
        /// Name of the stream that is meant.
        name: StreamName,
    },
    /// Find out within 1 s whether a node answers over QUIC; call
    /// [`crate::Node::handle_probe`] with the result.
    Probe {
        /// Number that the result carries.
        probe: ProbeId,
        /// Node to reach.
        node: NodeId,
        /// Address and certificate of that node; `None` if its record was not found, then the
        /// result is silence.
        record: Option<Box<NodeRecord>>,
        /// Question to pass on, if the connection can carry one.
        question: Bytes,
    },
    /// Send viewers to other nodes, because this one has clearly more than its share: those whose
    /// clients connect again by themselves. [`crate::Node::view`] finds places for them elsewhere.
    SendAway {
        /// Viewers to send away now; more may follow in a second.
        count: u32,
        /// Viewers who came later stay.
        came_before: Instant,
    },
    /// The drain came to its end: publishers and viewers that are left must go now.
    Drained,
    /// This node must not serve beside the others: it sends no beats and has given up what it held.
    Outcast {
        /// The reason why it must not.
        reason: Outcast,
    },
    /// The engine refused what this node needs. The text is for the operator.
    EngineRefused {
        /// The words of the engine.
        reason: String,
    },
}

/// The reason why a node must not serve beside the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcast {
    /// Another process has the name of this node, and had it before.
    NameTaken,
    /// The other nodes have another secret, such as this one.
    OtherSecret(NodeId),
}

/// Whether a publisher may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishDecision {
    /// The publisher may send.
    Admitted {
        /// Epoch of the claim, for the catalog.
        epoch: u64,
        /// Whether the engine was away: viewers of this node see the stream, and other nodes see
        /// it after [`Event::Announce`].
        provisional: bool,
    },
    /// The publisher may not send.
    Refused(Refusal),
}

/// Reasons to refuse a publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another publisher sends under this name (HTTP 409).
    Taken {
        /// Node that has the other publisher.
        by: NodeId,
    },
    /// A node has a camera or file of this name in its configuration (HTTP 409).
    Configured {
        /// Node that has the camera or file now.
        by: NodeId,
    },
    /// The node is draining (HTTP 503).
    Draining,
    /// The record of the name cannot be read; a newer version of the software wrote it.
    Unreadable,
}

/// Where a viewer is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewDecision {
    /// Here, from a publisher, a source or a pull that runs or starts. The viewer counts until
    /// [`crate::Node::viewer_left`].
    Here,
    /// At another node, which has the stream and room.
    Redirect {
        /// The other node.
        node: NodeId,
        /// Base of its URLs for viewers over HTTP.
        http: Option<String>,
        /// Base of its URLs for viewers over RTSP.
        rtsp: Option<String>,
    },
    /// Nobody has such a stream.
    NotFound,
    /// There is such a stream, and it cannot be had now; trying again helps.
    Unavailable,
}

/// How a viewer asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A viewer over HTTP that follows a redirect to any URL.
    Http,
    /// A viewer over HTTP whose page came by HTTPS: browsers let it follow a redirect to HTTPS
    /// only.
    Https,
    /// A viewer over RTSP without TLS, which follows a redirect to such a URL.
    Rtsp,
    /// A viewer over RTSP within TLS, which follows a redirect to such a URL.
    Rtsps,
    /// A viewer that must be served here: it cannot follow, or was redirected already.
    Here,
}

impl Access {
    /// Returns that one of a node's bases of URLs, over HTTP and over RTSP, which such a viewer can
    /// be redirected to.
    pub fn base<'a>(self, http: Option<&'a str>, rtsp: Option<&'a str>) -> Option<&'a str> {
        let (base, schemes): (_, &[&str]) = match self {
            Self::Http => (http, &["http://", "https://"]),
            Self::Https => (http, &["https://"]),
            Self::Rtsp => (rtsp, &["rtsp://"]),
            Self::Rtsps => (rtsp, &["rtsps://"]),
            Self::Here => return None,
        };
        base.filter(|base| schemes.iter().any(|scheme| base.starts_with(scheme)))
    }
}

/// The content of the catalog of a pulled stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    /// Epoch of the claim of the owner.
    pub epoch: u64,
    /// Incarnation of the owner.
    pub inc: u64,
    /// Nodes that the stream has passed, from the owner to the node that is pulled from.
    pub path: Vec<NodeId>,
}

/// The fate of a pull whose first keyframe is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Put it into the hub; the stream has no other source.
    Begin,
    /// Put it into the hub in place of this pull, in one step at this keyframe, then end that one.
    Replace(PullId),
    /// End it: its epoch is over, it passed this node before, or nobody needs it.
    End,
}
