//! What a request makes a thread do.

use std::sync::Arc;

use glassline_hub::{Stream, StreamName};
use glassline_rtsp::sdp::Description;
use glassline_rtsp::server::{Answer, Closed, RequestId};

use super::look_back::LookBack;
use super::pending_request::{Credentials, PendingRequest};
use super::redirect::Placing;

/// The work of a thread after a request or another event of a connection.
#[derive(Debug)]
pub(super) enum Effect {
    /// Answer the request with this number.
    Answer(RequestId, Answer),
    /// Answer PLAY, and begin to send if the client plays now.
    Play(RequestId, Answer),
    /// Hash a password, which answers the request.
    Verify(RequestId, Credentials),
    /// Look a path up in the media folder, which answers the request.
    LookUp {
        id: RequestId,
        path: String,
        request: PendingRequest,
    },
    /// Look for recordings, which answers the request.
    LookBack(RequestId, LookBack),
    /// Wait until the stream has tracks, and then answer the request.
    Await {
        id: RequestId,
        stream: Arc<Stream>,
        request: PendingRequest,
    },
    /// Ask which server of the cluster the client is to play the stream from, and then answer.
    ChooseServer(RequestId, Box<Placing>),
    /// Claim the name of the announced stream among several servers, and then answer the request.
    ClaimName {
        id: RequestId,
        name: StreamName,
        description: Box<Description>,
    },
    /// The client has torn down everything that it had set up.
    Leave,
    /// The client's connection is this tunnel's connection from server to client.
    OpenTunnel { cookie: String },
    /// The connection is this tunnel's connection from client to server.
    JoinTunnel { cookie: String, rest: Vec<u8> },
    /// Close the connection once everything is written.
    Close(Closed),
}
