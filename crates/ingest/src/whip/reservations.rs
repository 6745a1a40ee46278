//! Who publishes a stream by WHIP, from the answer to the offer on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use glassline_hub::StreamName;
use glassline_latency::CaptureLog;
use glassline_runtime::SessionId;
use parking_lot::Mutex;

use super::layer_orders::{LayerOrders, LayerOrdersListener};
use crate::publishing::NameClaim;

/// Silence after which a publisher makes way for another one with the right to publish: an encoder
/// that was killed comes back sooner than its former session times out.
const SILENCE: Duration = Duration::from_secs(2);

/// The names that WHIP sessions publish or are about to publish. The hub knows a publisher only
/// from its first keyframe on.
#[derive(Debug)]
pub struct Reservations {
    epoch: Instant,
    holders: Mutex<HashMap<StreamName, Holder>>,
}

/// The session that reserves a name.
#[derive(Clone, Debug)]
struct Holder {
    session: SessionId,
    /// When the session was heard last, in ms after the epoch.
    heard: Arc<AtomicU64>,
    captures: Arc<CaptureLog>,
    orders: Arc<LayerOrders>,
}

/// The reservation of one session to publish a stream, given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    reservations: Arc<Reservations>,
    name: StreamName,
    session: SessionId,
    heard: Arc<AtomicU64>,
    captures: Arc<CaptureLog>,
    orders: Arc<LayerOrders>,
    /// The right to the name among several servers; `None` on a server alone.
    claim: Option<Box<dyn NameClaim>>,
}

/// The stream has another publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream has a publisher already")]
pub struct Taken;

impl Reservations {
    /// Creates an empty table; `now` is earlier than all later times.
    pub fn new(now: Instant) -> Self {
        Self {
            epoch: now,
            holders: Mutex::default(),
        }
    }

    /// Reserves the stream `name` for `session`. With `takes_over`, another session's reservation
    /// ends.
    ///
    /// # Errors
    /// Returns [`Taken`] if another session has the reservation and is not replaced.
    pub fn reserve(
        self: &Arc<Self>,
        name: StreamName,
        session: SessionId,
        takes_over: bool,
        now: Instant,
    ) -> Result<Reservation, Taken> {
        let mut holders = self.holders.lock();
        if holders.contains_key(&name) && !takes_over {
            return Err(Taken);
        }
        let heard = Arc::new(AtomicU64::new(self.ms(now)));
        let (captures, orders) = (Arc::default(), Arc::default());
        let holder = Holder {
            session: session.clone(),
            heard: Arc::clone(&heard),
            captures: Arc::clone(&captures),
            orders: Arc::clone(&orders),
        };
        holders.insert(name.clone(), holder);
        Ok(Reservation {
            reservations: Arc::clone(self),
            name,
            session,
            heard,
            captures,
            orders,
            claim: None,
        })
    }

    /// Returns the session that reserves the stream `name`, and whether it has been silent for so
    /// long that it makes way.
    pub fn holder(&self, name: &StreamName, now: Instant) -> Option<(SessionId, bool)> {
        let holder = self.holders.lock().get(name).cloned()?;
        let heard = Duration::from_millis(holder.heard.load(Ordering::Relaxed));
        let silent = Duration::from_millis(self.ms(now)).saturating_sub(heard);
        Some((holder.session, silent > SILENCE))
    }

    /// Returns the capture times of the stream `name`; `None` if no WHIP session publishes it.
    pub fn captures(&self, name: &StreamName) -> Option<Arc<CaptureLog>> {
        let holders = self.holders.lock();
        Some(Arc::clone(&holders.get(name)?.captures))
    }

    /// Listens to the orders which layers `session` should send; `None` if it does not publish the stream
    /// `name`, or enough others listen.
    pub fn listen(&self, name: &StreamName, session: &SessionId) -> Option<LayerOrdersListener> {
        let holders = self.holders.lock();
        let holder = holders.get(name).filter(|it| it.session == *session)?;
        holder.orders.listen()
    }

    /// Returns all sessions that publish or are about to, in no order.
    pub fn sessions(&self) -> Vec<SessionId> {
        let holders = self.holders.lock();
        let sessions = holders.values().map(|holder| holder.session.clone());
        sessions.collect()
    }

    fn ms(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.epoch);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

impl Reservation {
    /// Adds the right to the name among several servers.
    pub fn set_claim(&mut self, claim: Option<Box<dyn NameClaim>>) {
        self.claim = claim;
    }

    /// Returns whether the reservation has a right among several servers, by which the stream's
    /// present source makes way.
    pub(super) fn has_claim(&self) -> bool {
        self.claim.is_some()
    }

    /// Returns the name of the stream.
    pub const fn name(&self) -> &StreamName {
        &self.name
    }

    /// Returns whether no other session has taken the reservation over, here or at another server.
    pub fn is_current(&self) -> bool {
        if self.claim.as_ref().is_some_and(|claim| claim.is_lost()) {
            return false;
        }
        let holders = self.reservations.holders.lock();
        let holder = holders.get(&self.name);
        holder.is_some_and(|holder| holder.session == self.session)
    }

    /// Returns the log of capture times, which is shared with those who read it.
    pub(super) fn captures(&self) -> &Arc<CaptureLog> {
        &self.captures
    }

    /// Returns the orders to the publisher, which whoever carries them listens to.
    pub(super) fn orders(&self) -> &LayerOrders {
        &self.orders
    }

    /// Notes that the publisher was heard.
    pub fn heard(&self, now: Instant) {
        self.heard
            .store(self.reservations.ms(now), Ordering::Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut holders = self.reservations.holders.lock();
        let holder = holders.get(&self.name);
        if holder.is_some_and(|holder| holder.session == self.session) {
            holders.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_reservation_which_is_given_back_or_taken_over() {
        let start = Instant::now();
        let reservations = Arc::new(Reservations::new(start));
        let name = StreamName::parse("studio").expect("good");
        let reservation = |session: &str, takes_over| {
            reservations.reserve(name.clone(), SessionId::new(session), takes_over, start)
        };
        let holder = |after| reservations.holder(&name, start + Duration::from_secs(after));
        let first = reservation("first", false).expect("free");
        assert_eq!(reservations.sessions(), [SessionId::new("first")]);
        let captures = reservations.captures(&name).expect("reserved");
        assert!(Arc::ptr_eq(&captures, first.captures()));
        let listens = |session: &str| reservations.listen(&name, &SessionId::new(session));
        assert!(listens("second").is_none() && !first.orders().is_heard());
        let _listener = listens("first").expect("it publishes");
        assert!(first.orders().is_heard());
        assert_eq!(reservation("second", false).expect_err("taken"), Taken);
        assert_eq!(holder(1), Some((SessionId::new("first"), false)));
        assert_eq!(holder(3), Some((SessionId::new("first"), true)), "silent");
        first.heard(start + Duration::from_secs(2));
        assert_eq!(holder(3), Some((SessionId::new("first"), false)));
        let second = reservation("second", true).expect("by right");
        assert!(!first.is_current() && second.is_current());
        drop(first);
        assert_eq!(holder(1), Some((SessionId::new("second"), false)));
        drop(second);
        assert_eq!(holder(1), None);
        assert!(reservations.captures(&name).is_none() && reservations.sessions().is_empty());
    }
}
