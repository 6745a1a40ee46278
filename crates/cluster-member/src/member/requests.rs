//! Requests about a session that came to another server than the one that has the session.
//!
//! ```text
//! Member::open_request ─ a stream of QUIC ─► Member::answer_requests ─► what answers requests there
//! ```
//!
//! A balancer leads each request to any server. The name of a session begins with the name of its
//! server, so every server can hand the request on. This file knows nothing of what a stream carries.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use glassline_cluster::NodeId;
use glassline_quic::moq::{NodeAddress, RequestStream, RequestStreams};
use glassline_runtime::{FairPlace, FairPlaces, SourcePrefix};
use tokio::task::JoinSet;

use super::{Member, moment, record};

/// Most requests of clients that are handed on at the same time, and most of each other server that are
/// answered. Participants of rooms wait for changes in one request each.
const AT_ONCE: usize = 512;

/// Most requests of one address that are handed on at the same time, and most of this server's own.
/// Whoever knows the name of a server can have requests handed on, and sends a body slowly.
const AT_ONCE_OF_ONE: usize = AT_ONCE / 4;

/// An address that sends requests; `None` is this server itself.
pub type Asker = Option<SourcePrefix>;

/// Answers the request that a stream carries, at the address of this server that it came to.
type Answering = dyn Fn(RequestStream, Option<SocketAddr>) -> Pin<Box<dyn Future<Output = ()> + Send>>
    + Send
    + Sync;

/// Requests that are handed on to other servers, and those of other servers.
#[derive(derive_more::Debug)]
#[debug("HandedOn {{ .. }}")]
pub(super) struct HandedOn {
    answering: OnceLock<Box<Answering>>,
    places: FairPlaces<Asker>,
}

/// A stream to the server that has a session, for one request, and a place among those that are handed
/// on.
#[derive(Debug)]
pub struct OpenedRequest {
    /// The stream of QUIC that carries request and answer.
    pub stream: RequestStream,
    /// The place among the requests that are under way at a time.
    pub place: RequestPlace,
}

/// A place among the requests that are handed on.
#[derive(Debug)]
pub struct RequestPlace(FairPlace<Asker>);

impl RequestPlace {
    /// Returns the result of `work`.
    ///
    /// # Errors
    /// Returns [`NotHandedOn::Busy`] as soon as another address needs the place.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> Result<T, NotHandedOn> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.0.displaced() => Err(NotHandedOn::Busy),
        }
    }
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
    #[error(
        "{AT_ONCE} requests are being handed on to other servers already, or {AT_ONCE_OF_ONE} of this address"
    )]
    Busy,
    /// The server does not answer, for the reason that is given.
    #[error("{0}")]
    Unreachable(String),
}

impl Default for HandedOn {
    fn default() -> Self {
        Self {
            answering: OnceLock::new(),
            places: FairPlaces::new(AT_ONCE, AT_ONCE_OF_ONE),
        }
    }
}

impl HandedOn {
    fn place(&self, asker: Asker) -> Result<RequestPlace, NotHandedOn> {
        let place = self.places.admit(&asker);
        place.map(RequestPlace).ok_or(NotHandedOn::Busy)
    }
}

impl Member {
    /// Sets what answers the requests of other servers.
    pub fn answer_with(&self, answering: Box<Answering>) {
        // A server starts once.
        let _ = self.handed_on.answering.set(answering);
    }

    /// Opens a stream for one request of `asker` to the server called `node`, over the session of pulls.
    ///
    /// # Errors
    /// Returns [`NotHandedOn`] if there is no way to that server, or no place.
    pub async fn open_request(
        &self,
        node: &str,
        asker: Asker,
    ) -> Result<OpenedRequest, NotHandedOn> {
        let address = self.quic_of(node)?;
        let place = self.handed_on.place(asker)?;
        // Whoever waits for a session, or for a stream of it, gives way as well.
        let stream = place.during(self.pulls.request_stream(&address)).await?;
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
        let core = self.core.lock();
        let mut peers = core.node.peers();
        peers.any(|peer| peer.is_dead && peer.node.as_str() == node)
    }

    /// Returns whether the server called `node` is late with its signs of life. A server that lives
    /// answers at once all the same.
    pub fn is_overdue(&self, node: &str) -> bool {
        NodeId::new(node).is_ok_and(|node| self.core.lock().node.is_overdue(moment(), &node))
    }

    fn quic_of(&self, node: &str) -> Result<NodeAddress, NotHandedOn> {
        if self.is_lost(node) {
            return Err(NotHandedOn::Lost);
        }
        let core = self.core.lock();
        let mut nodes = core.node.known_nodes();
        let found = nodes.find(|(name, _)| name.as_str() == node);
        let (_, found) = found.ok_or(NotHandedOn::Unknown)?;
        record::address(found).ok_or(NotHandedOn::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::net::Ipv4Addr;

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn an_address_whose_requests_last_leaves_places_to_others() {
        let handed_on = HandedOn::default();
        let asker = |last| Some(SourcePrefix::V4(Ipv4Addr::new(192, 0, 2, last)));
        let mut held = Vec::new();
        // Of each of four addresses as many as it may have, which are all.
        for last in 0..4 {
            while let Ok(place) = handed_on.place(asker(last)) {
                let mut waiting = Box::pin(async move { place.during(pending::<()>()).await });
                assert!((&mut waiting).now_or_never().is_none());
                held.push(waiting);
            }
        }
        assert_eq!(held.len(), AT_ONCE);
        let newcomer = handed_on.place(asker(9)).expect("an address with fewer");
        assert!(newcomer.during(ready(())).await.is_ok());
        let displaced = held.remove(0).now_or_never();
        assert!(matches!(displaced, Some(Err(NotHandedOn::Busy))));
        assert!(handed_on.place(None).is_ok(), "this server asks, too");
    }
}
