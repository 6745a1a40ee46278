//! Requests about a session that came to another server than the one that has the session.
//!
//! ```text
//! Member::open_request ─ a stream of QUIC ─► Member::answer_requests ─► what answers requests there
//! ```
//!
//! A balancer leads each request to any server. The name of a session begins with the name of its
//! server, so every server can hand the request on. This file knows nothing of what a stream carries.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use glassline_cluster::NodeId;
use glassline_quic::moq::{NodeAddress, RequestStream, RequestStreams};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;

use super::{Member, moment, record};

/// Most requests of clients that are handed on at the same time, and most of each other server that are
/// answered. Participants of rooms wait for changes in one request each.
const AT_ONCE: usize = 512;

/// Answers the request that a stream carries, at the address of this server that it came to.
type Answering = dyn Fn(RequestStream, Option<SocketAddr>) -> Pin<Box<dyn Future<Output = ()> + Send>>
    + Send
    + Sync;

/// Requests that are handed on to other servers, and those of other servers.
pub(super) struct HandedOn {
    answering: OnceLock<Box<Answering>>,
    places: Semaphore,
}

/// A stream to the server that has a session, for one request, and a place among those that are handed
/// on.
#[derive(Debug)]
pub struct OpenedRequest<'a> {
    /// The stream of QUIC that carries request and answer.
    pub stream: RequestStream,
    /// The place among the requests that are under way at a time.
    pub place: SemaphorePermit<'a>,
}

/// The reason why a request does not come to the server that has its session.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotHandedOn {
    /// No server has the name that the request is for.
    #[error("no server of this cluster has that name")]
    Unknown,
    /// The server that the request is for is silent.
    #[error("the server is lost")]
    Lost,
    /// Too many requests are on their way to other servers.
    #[error("{AT_ONCE} requests are being handed on to other servers already")]
    Busy,
    /// The server does not answer, for the reason that is given.
    #[error("{0}")]
    Unreachable(String),
}

impl Default for HandedOn {
    fn default() -> Self {
        Self {
            answering: OnceLock::new(),
            places: Semaphore::new(AT_ONCE),
        }
    }
}

impl fmt::Debug for HandedOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandedOn").finish_non_exhaustive()
    }
}

impl Member {
    /// Sets what answers the requests of other servers.
    pub fn answer_with(&self, answering: Box<Answering>) {
        // A server starts once.
        let _ = self.handed_on.answering.set(answering);
    }

    /// Opens a stream for one request to the server called `node`, over the session of pulls.
    ///
    /// # Errors
    /// Returns [`NotHandedOn`] if there is no way to that server.
    pub async fn open_request(&self, node: &str) -> Result<OpenedRequest<'_>, NotHandedOn> {
        let address = self.quic_of(node)?;
        let place = self.handed_on.places.try_acquire();
        let place = place.map_err(|_| NotHandedOn::Busy)?;
        let stream = self.pulls.request_stream(&address).await;
        let stream = stream.map_err(NotHandedOn::Unreachable)?;
        Ok(OpenedRequest { stream, place })
    }

    /// Answers the requests of another server until its session is over. `local` is the address of this
    /// server that the session has.
    pub async fn answer_requests(
        self: Arc<Self>,
        mut streams: RequestStreams,
        local: Option<SocketAddr>,
    ) {
        // All ends with this set.
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                stream = streams.next() => {
                    let Some(stream) = stream else { return };
                    // A stream that is dropped here ends for the other server, too.
                    if running.len() < AT_ONCE
                        && let Some(answering) = self.handed_on.answering.get()
                    {
                        running.spawn(answering(stream, local));
                    }
                }
                Some(_) = running.join_next() => {}
            }
        }
    }

    /// Returns whether the server called `node` has sent no sign of life for too long.
    pub(super) fn is_lost(&self, node: &str) -> bool {
        let core = self.lock();
        let mut peers = core.node.peers();
        peers.any(|peer| peer.is_dead && peer.node.as_str() == node)
    }

    /// Returns whether the server called `node` is late with its signs of life. A server that lives
    /// answers at once all the same.
    pub fn is_overdue(&self, node: &str) -> bool {
        NodeId::new(node).is_ok_and(|node| self.lock().node.is_overdue(moment(), &node))
    }

    fn quic_of(&self, node: &str) -> Result<NodeAddress, NotHandedOn> {
        if self.is_lost(node) {
            return Err(NotHandedOn::Lost);
        }
        let core = self.lock();
        let mut nodes = core.node.known_nodes();
        let found = nodes.find(|(name, _)| name.as_str() == node);
        let (_, found) = found.ok_or(NotHandedOn::Unknown)?;
        record::address(found).ok_or(NotHandedOn::Unknown)
    }
}
