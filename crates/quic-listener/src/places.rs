//! The places of QUIC sessions and of handshakes under way.
//!
//! ```text
//! admit ─► Handshake ─ establish ─► ConnectionPermit of a session
//!             └ evicted by a later one while all places are taken
//! ```
//!
//! A handshake gives its place back when it is dropped, wherever it stands.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glassline_runtime::{
    Arrival, ConnectionLimit, ConnectionPermit, ConnectionRefusal, Newcomers, SourcePrefix,
};
use tokio::sync::Notify;

/// Most handshakes with one address under way before further ones must prove the address.
const UNPROVEN_MAX: usize = 8;

/// The number for all addresses, which may all be forged. A handshake takes some 120 kB.
const ALL_UNPROVEN_MAX: usize = 64;

/// The places of one listener.
#[derive(Debug)]
pub(super) struct Places {
    limit: ConnectionLimit,
    handshakes: Mutex<Newcomers<Newcomer>>,
}

/// A handshake, as far as later ones have to know it.
#[derive(Debug)]
struct Newcomer {
    /// Held for its drop, which frees the place.
    permit: ConnectionPermit,
    evicted: Arc<Notify>,
}

/// A handshake that has a place.
#[derive(Debug)]
pub(super) struct Handshake {
    places: Arc<Places>,
    arrival: Arrival,
    evicted: Arc<Notify>,
}

impl Places {
    /// Replaces the numbers of sessions, for those that come from now on; others go on.
    pub(super) fn set(&self, max: usize, max_per_address: usize) {
        self.limit.set(max, max_per_address);
    }

    /// Creates places for `max` sessions, of which `max_per_source` may have the same source prefix.
    pub(super) fn new(max: usize, max_per_source: usize) -> Self {
        Self {
            limit: ConnectionLimit::new(max, max_per_source),
            handshakes: Mutex::default(),
        }
    }

    /// Returns a place for a handshake with `peer`. If the limit is reached, the oldest handshake
    /// makes room: of the same source prefix if the limit of the source is reached, of any if that of
    /// the server is. `None` if only sessions have places.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Handshake> {
        let source = SourcePrefix::from(peer);
        let permit = match self.limit.admit(peer) {
            Ok(permit) => permit,
            Err(refusal) => {
                let of = matches!(refusal, ConnectionRefusal::Source { .. }).then_some(source);
                let Newcomer { permit, evicted } = self.handshakes().take_oldest(of)?;
                evicted.notify_one();
                drop(permit);
                self.limit.admit(peer).ok()?
            }
        };
        let evicted = Arc::new(Notify::new());
        let newcomer = Newcomer {
            permit,
            evicted: Arc::clone(&evicted),
        };
        let arrival = self.handshakes().add(source, newcomer);
        Some(Handshake {
            places: Arc::clone(self),
            arrival,
            evicted,
        })
    }

    /// Returns whether a client must prove its address before it gets a place, because many
    /// handshakes are under way, with that address or with all. Source addresses can be forged, and
    /// forged ones must not evict the handshakes of the address's owner.
    pub(super) fn must_prove(&self, peer: IpAddr) -> bool {
        let source = SourcePrefix::from(peer);
        let handshakes = self.handshakes();
        handshakes.count() >= ALL_UNPROVEN_MAX || handshakes.has_many(source, UNPROVEN_MAX)
    }

    fn handshakes(&self) -> MutexGuard<'_, Newcomers<Newcomer>> {
        self.handshakes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handshake {
    /// Waits until the handshake has lost its place to a later one.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Makes the place that of a session, which nobody takes away. `None` if the handshake has lost
    /// its place.
    pub(super) fn establish(self) -> Option<ConnectionPermit> {
        let newcomer = self.places.handshakes().remove(self.arrival);
        newcomer.map(|newcomer| newcomer.permit)
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.places.handshakes().remove(self.arrival);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    fn is_evicted(handshake: &Handshake) -> bool {
        use futures_util::FutureExt as _;
        handshake.evicted().now_or_never().is_some()
    }

    #[test]
    fn a_source_at_its_limit_evicts_its_own_oldest_handshake() {
        let places = Arc::new(Places::new(4, 2));
        let other = places.admit(address(1)).expect("free");
        let first = places.admit(address(2)).expect("free");
        let second = places.admit(address(2)).expect("free");
        let third = places.admit(address(2)).expect("the first makes room");
        assert!(is_evicted(&first) && !is_evicted(&second) && !is_evicted(&other));
        assert!(first.establish().is_none(), "it came too late");
        let _sessions = [second, third].map(|it| it.establish().expect("it has a place"));
        assert!(
            places.admit(address(2)).is_none(),
            "sessions are not evicted"
        );
        assert!(!is_evicted(&other));
    }

    #[test]
    fn an_address_with_many_handshakes_must_be_proven() {
        let places = Arc::new(Places::new(100, 100));
        let mut handshakes = Vec::new();
        while !places.must_prove(address(1)) {
            handshakes.push(places.admit(address(1)).expect("free"));
        }
        assert_eq!(handshakes.len(), UNPROVEN_MAX);
        assert!(!places.must_prove(address(2)));
        drop(handshakes.pop());
        assert!(!places.must_prove(address(1)));
    }

    #[test]
    fn with_many_handshakes_every_address_must_be_proven() {
        let places = Arc::new(Places::new(1000, 1000));
        let admit = |number: usize| places.admit(address((number / 4) as u8)).expect("free");
        let mut handshakes: Vec<_> = (0..ALL_UNPROVEN_MAX - 1).map(admit).collect();
        assert!(!places.must_prove(address(200)));
        handshakes.push(admit(ALL_UNPROVEN_MAX));
        assert!(places.must_prove(address(200)));
        let session = handshakes.pop().map(Handshake::establish);
        assert!(session.is_some(), "sessions are not counted");
        assert!(!places.must_prove(address(200)));
    }

    #[test]
    fn at_the_limit_of_the_server_the_oldest_of_all_makes_room() {
        let places = Arc::new(Places::new(2, 2));
        let oldest = places.admit(address(1)).expect("free");
        let _session = places.admit(address(1)).expect("free").establish();
        let _newest = places.admit(address(2)).expect("the oldest makes room");
        assert!(is_evicted(&oldest));
    }

    #[test]
    fn a_handshake_that_is_dropped_frees_its_place() {
        let places = Arc::new(Places::new(1, 1));
        for _ in 0..3 {
            let handshake = places.admit(address(1)).expect("free");
            drop(handshake);
        }
        let session = places.admit(address(1)).expect("free").establish();
        assert!(places.admit(address(1)).is_none());
        drop(session);
        assert!(places.admit(address(1)).is_some());
    }
}
