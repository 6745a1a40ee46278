//! What a session is granted by the rights of its client.

use std::net::SocketAddr;

use glassline_access::auth::{self, Readable, Requester};
use glassline_quic::moq::{Grant, Origin, SessionRequest};
use tokio::sync::watch;

use super::SessionContext;
use super::access::{Rights, RightsRequest, Scope};

/// Returns the part of a client's request that rights depend on.
pub(super) fn rights_request<'a>(
    request: &'a SessionRequest,
    context: &SessionContext,
) -> RightsRequest<'a> {
    let peer = request.peer().ip();
    // A client with a loopback address has reached one, even if the server listens on all.
    let local = match peer.to_canonical().is_loopback() {
        true => SocketAddr::new(peer, context.local.port()),
        false => context.local,
    };
    RightsRequest {
        by: Requester::direct(peer, auth::Listener::Quic),
        local,
        page: request.page(),
        path: request.path(),
        query: request.query(),
        role: request.role(),
    }
}

/// Returns the access that `rights` give, and what tells that the origin to read is replaced.
pub(super) fn grant(
    rights: &Rights,
    context: &SessionContext,
) -> (Grant, Option<watch::Receiver<Origin>>) {
    let (read, only) = match &rights.read {
        None => (None, None),
        Some(Readable::All) => (Some(&context.all), None),
        Some(Readable::AllButRooms) => (Some(&context.without_rooms), None),
        Some(Readable::OfUser(name)) => (Some(&context.all), Some(context.users.readable(name))),
    };
    let (read, replaced) = read.map(|collection| collection.origin()).unzip();
    let grant = Grant {
        publish: rights.publish != Scope::None,
        read,
        only,
        node: None,
    };
    (grant, replaced)
}
