//! Requests that wait for something else than their client.

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use futures_util::FutureExt as _;
use glassline_runtime::{FairPlaces, SourcePrefix};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::sessions::ConnectionAddresses;

/// Part of the connections whose requests may wait at the same time: one in this number, of all
/// connections and of those of one address.
const PART: usize = 4;

/// The requests of one listener that wait: for their turn, for a source, for a change. Each address has
/// a share of them, and when there are too many in all, the oldest of the address with the most gives
/// way. So the connections that remain can be closed in favor of others.
#[derive(Clone, Debug)]
pub(super) struct Waits(FairPlaces<SourcePrefix>);

/// The requests of one HTTP/2 connection that wait, three quarters of all that it may have at the same time:
/// what is answered at once has room beside them.
#[derive(Clone, Debug)]
pub(super) struct ConnectionWaits(Arc<Semaphore>);

/// A place among the requests of a connection that wait, given back when dropped. Connections of HTTP/1.1 have
/// one request, and need none.
#[derive(Debug)]
pub(crate) struct ConnectionPlace(
    #[expect(dead_code, reason = "held")] Option<OwnedSemaphorePermit>,
);

/// A client whose request may have to wait.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Absent where no listener of ours has the request, and for a request without routes.
    waits: Option<Waits>,
    connection: Option<ConnectionWaits>,
    source: SourcePrefix,
}

/// Too many requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WaitRefusal {
    /// The connection has its share of requests that wait.
    #[error(
        "as many requests of this connection as may wait do so already: ask again when one of them is answered, or open another connection"
    )]
    ConnectionCrowded,
    /// The address has its share of requests that wait, or all others have as many as it has.
    #[error(
        "as many requests of this address as may wait do so already: ask again when one of them is answered"
    )]
    Crowded,
    /// Another address needed the place.
    #[error(
        "the request waited, and made room for a request of another address, because this one has more of them"
    )]
    Displaced,
}

impl Waits {
    /// Creates the waits of a listener with `max` connections, of which one address may have
    /// `max_per_source`.
    pub(super) fn of(max: usize, max_per_source: usize) -> Self {
        Self(FairPlaces::new(max / PART, max_per_source / PART))
    }

    /// Replaces the numbers for requests that come from now on.
    pub(super) fn set(&self, max: usize, max_per_source: usize) {
        self.0.set(max / PART, max_per_source / PART);
    }
}

impl ConnectionWaits {
    /// Creates the waits of a connection that may have `requests_max` requests at the same time.
    pub(super) fn of(requests_max: u32) -> Self {
        Self(Arc::new(Semaphore::new(requests_max as usize / 4 * 3)))
    }
}

impl Waiter {
    /// Creates the waiter of a request without routes.
    pub(super) fn direct(client: ConnectionAddresses, connection: Option<ConnectionWaits>) -> Self {
        Self {
            waits: None,
            connection,
            source: SourcePrefix::from(client.peer.ip()),
        }
    }

    /// Returns the network that the client belongs to.
    pub(crate) const fn source(&self) -> SourcePrefix {
        self.source
    }

    /// Returns a place among the requests of the connection that wait.
    ///
    /// # Errors
    /// Returns [`WaitRefusal::ConnectionCrowded`] if there is none.
    pub(crate) fn connection_place(&self) -> Result<ConnectionPlace, WaitRefusal> {
        let Some(ConnectionWaits(places)) = &self.connection else {
            return Ok(ConnectionPlace(None));
        };
        let place = Arc::clone(places).try_acquire_owned();
        let place = place.map_err(|_| WaitRefusal::ConnectionCrowded)?;
        Ok(ConnectionPlace(Some(place)))
    }

    /// Returns the result of `work`, which takes a place among the requests that wait unless it is done
    /// at once.
    ///
    /// # Errors
    /// Returns [`WaitRefusal`] if there is no place, or as soon as another address needs it.
    pub(in crate::http) async fn during<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, WaitRefusal> {
        let mut work = pin!(work);
        if let Some(done) = work.as_mut().now_or_never() {
            return Ok(done);
        }
        let _connection_place = self.connection_place()?;
        let Some(waits) = &self.waits else {
            return Ok(work.await);
        };
        let place = waits.0.admit(&self.source);
        let place = place.ok_or(WaitRefusal::Crowded)?;
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = place.displaced() => Err(WaitRefusal::Displaced),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Waiter {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let extensions = &parts.extensions;
        let connection = extensions.get::<ConnectInfo<ConnectionAddresses>>();
        let unknown = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        let client = connection.map_or(unknown, |ConnectInfo(it)| it.peer.ip());
        Ok(Self {
            waits: extensions.get::<Waits>().cloned(),
            connection: extensions.get::<ConnectionWaits>().cloned(),
            source: SourcePrefix::from(client),
        })
    }
}

/// Returns the layer that tells handlers of the waits of their listener.
pub(super) const fn layer(waits: Waits) -> Extension<Waits> {
    Extension(waits)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    fn waiter(waits: &Waits, address: &str) -> Waiter {
        let address: IpAddr = address.parse().expect("an address");
        Waiter {
            waits: Some(waits.clone()),
            connection: None,
            source: SourcePrefix::from(address),
        }
    }

    #[tokio::test]
    async fn requests_that_wait_are_refused_beyond_the_share_of_their_address() {
        let waits = Waits::of(16, 8);
        let waiter = waiter(&waits, "192.0.2.1");
        let mut held = Vec::new();
        for _ in 0..2 {
            let mut waiting = Box::pin(waiter.during(pending::<()>()));
            assert_eq!((&mut waiting).now_or_never(), None);
            held.push(waiting);
        }
        assert_eq!(
            waiter.during(pending::<()>()).await,
            Err(WaitRefusal::Crowded)
        );
        assert_eq!(waiter.during(ready(7)).await, Ok(7), "it does not wait");
        held.pop();
        let mut third = Box::pin(waiter.during(pending::<()>()));
        assert_eq!((&mut third).now_or_never(), None, "one has hung up");
    }

    #[tokio::test]
    async fn requests_of_a_connection_that_wait_leave_room_for_others() {
        let waits = Waits::of(400, 400);
        let of_connection = Waiter {
            connection: Some(ConnectionWaits::of(8)),
            ..waiter(&waits, "192.0.2.1")
        };
        let mut held: Vec<_> = (0..6)
            .map(|_| Box::pin(of_connection.during(pending::<()>())))
            .collect();
        for waiting in &mut held {
            assert_eq!(waiting.now_or_never(), None);
        }
        assert_eq!(
            of_connection.during(pending::<()>()).await,
            Err(WaitRefusal::ConnectionCrowded)
        );
        assert_eq!(of_connection.during(ready(7)).await, Ok(7));
        let other = waiter(&waits, "192.0.2.1");
        let mut waiting = Box::pin(other.during(pending::<()>()));
        assert_eq!((&mut waiting).now_or_never(), None, "another connection");
        held.pop();
        let mut again = Box::pin(of_connection.during(pending::<()>()));
        assert_eq!((&mut again).now_or_never(), None, "one was given up");
    }

    #[tokio::test]
    async fn a_newcomer_takes_the_place_of_the_address_with_the_most() {
        let waits = Waits::of(16, 16);
        let many = waiter(&waits, "2001:db8::1");
        let mut held: Vec<_> = (0..4)
            .map(|_| Box::pin(many.during(pending::<()>())))
            .collect();
        for waiting in &mut held {
            assert_eq!(waiting.now_or_never(), None);
        }
        let other = waiter(&waits, "2001:db8:0:1::1");
        let mut waiting = Box::pin(other.during(pending::<()>()));
        assert_eq!((&mut waiting).now_or_never(), None);
        assert_eq!(held.remove(0).await, Err(WaitRefusal::Displaced));
        assert_eq!(
            many.during(pending::<()>()).await,
            Err(WaitRefusal::Crowded)
        );
    }
}
