//! What other threads ask of an RTSP thread.

use std::sync::Arc;

use glassline_rtsp::server::{Answer, RequestId};
use tokio::sync::oneshot;

use super::pending_request::PendingRequest;
use super::tunnels::Handover;
use super::view::ClientView;
use crate::ingest::library::Title;
use crate::runtime::Key;

/// A command to an RTSP thread.
#[derive(Debug)]
pub(super) enum Command {
    /// A request's answer, which took time.
    Answer {
        client: Key,
        id: RequestId,
        answer: Box<Answer>,
    },
    /// List the clients that have a session.
    List(oneshot::Sender<Vec<ClientView>>),
    /// A path was looked up in the media folder.
    Found(Box<LookupResult>),
    /// The other half of a client's tunnel came to another thread.
    Tunnel(Box<Handover>),
    /// Say goodbye to everyone and end.
    Stop,
}

/// What came of a path that was looked up in the media folder.
#[derive(Debug)]
pub(super) struct LookupResult {
    pub(super) client: Key,
    pub(super) id: RequestId,
    pub(super) request: PendingRequest,
    /// `None`: there is no such file, or it cannot be played.
    pub(super) title: Option<Arc<Title>>,
}
