//! The places of QUIC sessions and of handshakes under way.
//!
//! ```text
//! admit ─► Handshake ─ establish ─► SessionPlace ◄─► idle
//!             └ evicted by a later one while all places are taken ┘
//! ```
//!
//! A handshake or session gives its place back when it is dropped, wherever it stands.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use glassline_runtime::{
    Arrival, ConnectionLimit, ConnectionPermit, ConnectionRefusal, Newcomers, SourcePrefix,
};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

/// Most handshakes with one address under way before further ones must prove the address.
const UNPROVEN_MAX: usize = 8;

/// The number for all addresses, which may all be forged. A handshake takes some 120 kB.
const ALL_UNPROVEN_MAX: usize = 64;

/// Part of all places that handshakes may take from idle sessions: one in this number. Beyond it they
/// take those of each other, and below it a handshake has time to get done during a flood of others.
const HANDSHAKES_PART: usize = 8;

/// Interval at which a session is looked at for whether it is idle. A session that has just been granted
/// has this time to ask for something.
const IDLE_CHECK: Duration = Duration::from_secs(1);

/// The places of one listener.
#[derive(Debug)]
pub(super) struct Places {
    limit: ConnectionLimit,
    evictable: Mutex<Evictable>,
}

/// The places that later handshakes may take.
#[derive(Debug, Default)]
struct Evictable {
    handshakes: Newcomers<Newcomer>,
    idle: Newcomers<Newcomer>,
}

/// A handshake or an idle session, as far as later ones have to know it.
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
    source: SourcePrefix,
    arrival: Arrival,
    evicted: Arc<Notify>,
}

/// The place of a session.
#[derive(Debug)]
pub(super) struct SessionPlace {
    places: Arc<Places>,
    source: SourcePrefix,
    /// Permit of a session that is not idle.
    permit: Option<ConnectionPermit>,
    /// Place of an idle session among the others.
    idle: Option<Arrival>,
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
            evictable: Mutex::default(),
        }
    }

    /// Returns a place for a handshake with `peer`. If the limit is reached, the oldest handshake or the
    /// session that has been idle longest makes room: of the same source prefix if the limit of the
    /// source is reached, of any if that of the server is. `None` if all places are those of sessions
    /// that publish or read.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Handshake> {
        let source = SourcePrefix::from(peer);
        let permit = match self.limit.admit(peer) {
            Ok(permit) => permit,
            Err(refusal) => {
                let first = match refusal {
                    ConnectionRefusal::Source { .. } => self.evictable.lock().take_first_of(source),
                    ConnectionRefusal::Total { limit } => self.evictable.lock().take_first(limit),
                };
                let Newcomer { permit, evicted } = first?;
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
        let arrival = self.evictable.lock().handshakes.add(source, newcomer);
        Some(Handshake {
            places: Arc::clone(self),
            source,
            arrival,
            evicted,
        })
    }

    /// Returns whether a client must prove its address before it gets a place, because many
    /// handshakes are under way, with that address or with all. Source addresses can be forged, and
    /// forged ones must not evict the handshakes of the address's owner.
    pub(super) fn must_prove(&self, peer: IpAddr) -> bool {
        let source = SourcePrefix::from(peer);
        let handshakes = &self.evictable.lock().handshakes;
        handshakes.count() >= ALL_UNPROVEN_MAX || handshakes.has_many(source, UNPROVEN_MAX)
    }
}

impl Evictable {
    fn take_first_of(&mut self, source: SourcePrefix) -> Option<Newcomer> {
        let handshake = self.handshakes.take_oldest(Some(source));
        handshake.or_else(|| self.idle.take_oldest(Some(source)))
    }

    /// `max`: the number of all places.
    fn take_first(&mut self, max: usize) -> Option<Newcomer> {
        let Self { handshakes, idle } = self;
        match handshakes.count() > max / HANDSHAKES_PART {
            true => handshakes.take_oldest(None),
            false => idle
                .take_oldest(None)
                .or_else(|| handshakes.take_oldest(None)),
        }
    }
}

impl Handshake {
    /// Waits until the handshake has lost its place to a later one.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Makes the place that of a session. `None` if the handshake has lost its place.
    pub(super) fn establish(self) -> Option<SessionPlace> {
        let newcomer = self
            .places
            .evictable
            .lock()
            .handshakes
            .remove(self.arrival)?;
        Some(SessionPlace {
            places: Arc::clone(&self.places),
            source: self.source,
            permit: Some(newcomer.permit),
            idle: None,
            evicted: newcomer.evicted,
        })
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.places.evictable.lock().handshakes.remove(self.arrival);
    }
}

impl SessionPlace {
    /// Waits until the session has lost its place to a handshake, which can happen after `is_idle` was
    /// true when it was last asked, once a second.
    pub(super) async fn evicted(&mut self, is_idle: impl Fn() -> bool) {
        let first = tokio::time::Instant::now() + IDLE_CHECK;
        let mut ticks = tokio::time::interval_at(first, IDLE_CHECK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.evicted.notified() => return,
                _ = ticks.tick() => self.set_idle(is_idle()),
            }
        }
    }

    fn set_idle(&mut self, is_idle: bool) {
        let mut evictable = self.places.evictable.lock();
        if is_idle {
            let Some(permit) = self.permit.take() else {
                return;
            };
            let newcomer = Newcomer {
                permit,
                evicted: Arc::clone(&self.evicted),
            };
            self.idle = Some(evictable.idle.add(self.source, newcomer));
        } else if let Some(arrival) = self.idle.take() {
            // A session that has lost its place gets none again.
            let newcomer = evictable.idle.remove(arrival);
            self.permit = newcomer.map(|it| it.permit);
        }
    }
}

impl Drop for SessionPlace {
    fn drop(&mut self) {
        if let Some(arrival) = self.idle {
            self.places.evictable.lock().idle.remove(arrival);
        }
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
            "sessions that are not idle are not evicted"
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

    fn session(places: &Arc<Places>, last: u8) -> SessionPlace {
        let handshake = places.admit(address(last)).expect("there is room");
        handshake.establish().expect("it has a place")
    }

    fn is_lost(session: &SessionPlace) -> bool {
        use futures_util::FutureExt as _;
        session.evicted.notified().now_or_never().is_some()
    }

    #[test]
    fn the_session_that_is_idle_longest_makes_room_and_one_that_reads_again_does_not() {
        let places = Arc::new(Places::new(3, 3));
        let mut sessions = [1, 1, 2].map(|last| session(&places, last));
        assert!(places.admit(address(3)).is_none(), "all do something");
        for index in [2, 0, 1] {
            sessions[index].set_idle(true);
        }
        sessions[2].set_idle(false);
        let newcomer = session(&places, 3);
        assert_eq!(sessions.each_ref().map(is_lost), [true, false, false]);
        sessions[0].set_idle(false);
        assert!(sessions[0].permit.is_none(), "its place is gone");
        drop(sessions);
        assert_eq!(places.evictable.lock().idle.count(), 0);
        drop(newcomer);
        let all = [4, 5, 6].map(|last| places.admit(address(last)));
        assert!(all.iter().all(Option::is_some), "every place is free");
    }

    #[test]
    fn a_source_at_its_limit_evicts_its_own_idle_session() {
        let places = Arc::new(Places::new(4, 2));
        let mut sessions = [1, 2, 2].map(|last| session(&places, last));
        for session in &mut sessions {
            session.set_idle(true);
        }
        let newcomer = places.admit(address(2));
        assert!(newcomer.is_some());
        assert_eq!(sessions.each_ref().map(is_lost), [false, true, false]);
    }

    #[test]
    fn a_handshake_has_time_while_a_flood_takes_the_places_of_idle_sessions() {
        let places = Arc::new(Places::new(16, 16));
        let mut sessions: Vec<_> = (0..16).map(|_| session(&places, 1)).collect();
        for session in &mut sessions {
            session.set_idle(true);
        }
        let honest = places.admit(address(2)).expect("an idle one makes room");
        let flood = places.admit(address(3)).expect("another one");
        assert!(!is_evicted(&honest) && !is_evicted(&flood));
        let third = places.admit(address(3)).expect("a third one");
        assert_eq!(sessions.iter().filter(|it| is_lost(it)).count(), 3);
        let fourth = places.admit(address(3)).expect("the oldest makes room");
        assert!(is_evicted(&honest), "its part is full");
        assert!(![&flood, &third, &fourth].into_iter().any(is_evicted));
        assert_eq!(sessions.iter().filter(|it| is_lost(it)).count(), 0);
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
