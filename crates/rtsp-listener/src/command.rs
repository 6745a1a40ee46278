//! Commands from other threads to an RTSP thread.

use std::net::SocketAddr;
use std::sync::Arc;

use glassline_hub::{Demand, StreamName};
use glassline_ingest::NameClaim;
use glassline_ingest::library::MediaFile;
use glassline_playback::PastFrom;
use glassline_rtsp::sdp::Description;
use glassline_rtsp::server::{Answer, RequestId};
use glassline_runtime::{Key, SourcePrefix};
use tokio::sync::oneshot;

use super::pending_request::PendingRequest;
use super::tunnels::Handover;
use super::view::ClientView;

/// A command to an RTSP thread.
#[derive(Debug)]
pub(super) enum Command {
    /// The answer to a request that took time.
    Answer {
        client: Key,
        id: RequestId,
        answer: Box<Answer>,
    },
    /// End the session of a client, if there is one.
    Dismiss(Dismissal),
    /// Return the clients that have a session.
    List(oneshot::Sender<Vec<ClientView>>),
    /// The result of looking something up on a disk.
    Found(Box<LookupResult>),
    /// A request that has waited for the tracks of a stream.
    Awaited(Box<AwaitedStream>),
    /// A publisher whose stream's name was claimed among several servers, or not.
    Claimed(Box<ClaimOutcome>),
    /// The other connection of a client's tunnel, which another thread accepted.
    Tunnel(Box<Handover>),
    /// Close the oldest connection that neither plays nor publishes, of this source prefix if one is
    /// given, because another thread refused a connection and has none to close.
    MakeRoom(Option<SourcePrefix>),
    /// End every session and then the thread.
    Stop,
}

/// The wish to end the session of a client.
#[derive(Debug)]
pub(super) struct Dismissal {
    /// Address of the client.
    pub(super) address: SocketAddr,
    /// Whether an operator wants that. Otherwise the client is to come back, to another server.
    pub(super) by_operator: bool,
    /// Takes whether there is such a session.
    pub(super) reply: oneshot::Sender<bool>,
}

/// The result of looking up a path in the media folder, or an instant in the recordings.
#[derive(Debug)]
pub(super) struct LookupResult {
    pub(super) client: Key,
    pub(super) id: RequestId,
    pub(super) request: PendingRequest,
    /// The file or the recordings, or the refusal to answer with.
    pub(super) found: Result<Found, Answer>,
}

/// The file or the recordings that a path or an instant leads to.
#[derive(Debug)]
pub(super) enum Found {
    /// A file of the media folder.
    File(Arc<MediaFile>),
    /// The recordings of a stream.
    Past(Box<PastFrom>),
}

/// The outcome of claiming the name of an announced stream among several servers.
#[derive(Debug)]
pub(super) struct ClaimOutcome {
    pub(super) client: Key,
    pub(super) id: RequestId,
    pub(super) name: StreamName,
    pub(super) description: Box<Description>,
    /// The claim; the answer if there is none.
    pub(super) claim: Result<Option<Box<dyn NameClaim>>, Answer>,
}

/// A request that has waited for the tracks of a stream, which may still have none.
#[derive(Debug)]
pub(super) struct AwaitedStream {
    pub(super) client: Key,
    pub(super) id: RequestId,
    pub(super) request: PendingRequest,
    /// Keeps the stream's source until the request is answered.
    pub(super) demand: Demand,
}
