//! All sessions, found by identifier and by ICE user name fragment.
//!
//! A peer is made out of an offer and waits here until its first valid STUN request arrives at a
//! shard, which then adopts it. From then on the registry knows only the index of that shard.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use glassline_hub::StreamName;
use glassline_runtime::{Current, SessionId, shrink};
use parking_lot::Mutex;

use super::admission::{Admitted, Bounds, Full, HalfOpen};
use super::endings::{EndReason, Endings};
use super::peer::Peer;
use super::record::{IceGeneration, SessionLocation, SessionRecord};

/// Most ICE user name fragments that lead to one session: the latest, and the one before it, whose
/// checks may still be on their way.
const UFRAGS_MAX: usize = 2;

/// The registry of all sessions of the server.
#[derive(Debug)]
pub struct Registry {
    bounds: Current<Bounds>,
    half_open: HalfOpen,
    index: Mutex<Index>,
    endings: Mutex<Endings>,
}

#[derive(Debug, Default)]
struct Index {
    by_id: HashMap<SessionId, Indexed>,
    by_ufrag: HashMap<Box<str>, Arc<SessionRecord>>,
}

/// A session's record, and the user name fragments that lead to it.
#[derive(Debug)]
struct Indexed {
    record: Arc<SessionRecord>,
    /// The server's ICE user name fragments for the session, the latest last.
    ufrags: Vec<Box<str>>,
}

impl Registry {
    /// Creates an empty registry with these limits.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds: Current::new(bounds),
            half_open: HalfOpen::default(),
            index: Mutex::default(),
            endings: Mutex::default(),
        }
    }

    /// Admits one more half-open session of `address`. The permit is held until the handshake is
    /// done or has failed. The caller ends the session that is evicted, if there is one.
    ///
    /// # Errors
    /// Returns [`Full`] with the limit that was reached.
    pub fn admit(&self, address: IpAddr, now: Instant) -> Result<Admitted, Full> {
        let bounds = self.bounds.get();
        if self.index.lock().by_id.len() >= bounds.viewers {
            let limit = bounds.viewers;
            return Err(Full::Viewers { limit });
        }
        self.half_open.admit(address, &bounds, now)
    }

    /// Replaces the limits for sessions that come from now on; others go on.
    pub(crate) fn set_bounds(&self, bounds: Bounds) {
        self.bounds.replace(bounds);
    }

    /// Stores `peer` until a shard adopts it, and returns its record.
    pub fn insert(&self, peer: Box<Peer>, ice: IceGeneration, now: Instant) -> Arc<SessionRecord> {
        let ufrag: Box<str> = ice.ours.ufrag.as_str().into();
        let record = Arc::new(SessionRecord::new(peer, ice, now));
        let mut index = self.index.lock();
        index.by_ufrag.insert(ufrag.clone(), Arc::clone(&record));
        let indexed = Indexed {
            record: Arc::clone(&record),
            ufrags: vec![ufrag],
        };
        index.by_id.insert(record.id.clone(), indexed);
        record
    }

    /// Makes STUN requests for `ufrag` lead to session `id`, too, after an ICE restart. A session
    /// keeps its two latest fragments. Does nothing if the session has ended.
    pub fn add_ufrag(&self, id: &SessionId, ufrag: &str) {
        let mut index = self.index.lock();
        let Index { by_id, by_ufrag } = &mut *index;
        let Some(indexed) = by_id.get_mut(id) else {
            return;
        };
        if indexed.ufrags.len() >= UFRAGS_MAX {
            let oldest = indexed.ufrags.remove(0);
            by_ufrag.remove(&oldest);
        }
        indexed.ufrags.push(ufrag.into());
        by_ufrag.insert(ufrag.into(), Arc::clone(&indexed.record));
    }

    /// Returns the session that a STUN request for the server's fragment `ufrag` is for. Does not
    /// allocate, because anyone may send such a request.
    pub fn by_ufrag(&self, ufrag: &str) -> Option<Arc<SessionRecord>> {
        self.index.lock().by_ufrag.get(ufrag).cloned()
    }

    /// Returns the session with the identifier `id`.
    pub fn by_id(&self, id: &SessionId) -> Option<Arc<SessionRecord>> {
        let index = self.index.lock();
        let indexed = index.by_id.get(id)?;
        Some(Arc::clone(&indexed.record))
    }

    /// Returns all sessions, in no order.
    pub(super) fn all(&self) -> Vec<Arc<SessionRecord>> {
        let index = self.index.lock();
        let records = index.by_id.values().map(|indexed| &indexed.record);
        records.cloned().collect()
    }

    /// Removes the session with the identifier `id` and returns its record.
    pub fn remove(&self, id: &SessionId) -> Option<Arc<SessionRecord>> {
        let mut index = self.index.lock();
        let Indexed { record, ufrags } = index.by_id.remove(id)?;
        for ufrag in ufrags {
            index.by_ufrag.remove(&ufrag);
        }
        shrink(&mut index.by_id);
        shrink(&mut index.by_ufrag);
        Some(record)
    }

    /// Notes why the session `id`, which is removed next, has ended.
    pub(super) fn note_ending(&self, id: &SessionId, reason: EndReason, now: Instant) {
        if let Some(record) = self.by_id(id) {
            let name = record.resource_name();
            self.endings.lock().note(id, name, reason, now);
        }
    }

    /// Returns why the server ended the session `id`, of the stream or file `name` if one is given;
    /// `None` if the session exists, if its peer left, or if the end was too long ago.
    pub fn ending(&self, name: Option<&str>, id: &SessionId) -> Option<EndReason> {
        self.endings.lock().get(id, name)
    }

    /// Removes the sessions that got no datagram within the handshake time, and returns them with
    /// their peers.
    pub(super) fn sweep(&self, now: Instant) -> Vec<(Arc<SessionRecord>, Box<Peer>)> {
        self.endings.lock().forget_old(now);
        let (mut late, handshake) = (self.all(), self.bounds.get().handshake);
        late.retain(|record| record.age(now) > handshake);
        let mut swept = Vec::new();
        for record in late {
            let mut state = record.state();
            // Most sessions belong to a shard already.
            if !matches!(state.location, SessionLocation::Waiting(_)) {
                continue;
            }
            let location = std::mem::replace(&mut state.location, SessionLocation::Gone);
            drop(state);
            self.remove(&record.id);
            if let SessionLocation::Waiting(peer) = location {
                swept.push((record, peer));
            }
        }
        swept
    }

    /// Returns the sessions whose rights have ended.
    pub(super) fn lapsed(&self, now: Instant) -> Vec<Arc<SessionRecord>> {
        let index = self.index.lock();
        let records = index.by_id.values().map(|indexed| &indexed.record);
        let lapsed = records.filter(|record| record.has_lapsed(now));
        lapsed.cloned().collect()
    }

    /// Removes the sessions whose peers shard `index` owned and has dropped. Returns the stream and
    /// the identifier of each.
    pub(super) fn take_of_shard(&self, index: usize) -> Vec<(StreamName, SessionId)> {
        let mut taken = Vec::new();
        for record in self.all() {
            let mut state = record.state();
            if !matches!(state.location, SessionLocation::Shard(owner) if owner == index) {
                continue;
            }
            state.location = SessionLocation::Gone;
            drop(state);
            self.remove(&record.id);
            taken.push((record.stream.clone(), record.id.clone()));
        }
        taken
    }

    /// Returns the number of sessions, and how many of these are half-open.
    pub fn counts(&self) -> (usize, usize) {
        let sessions = self.index.lock().by_id.len();
        (sessions, self.half_open.count())
    }

    /// Returns the number of half-open sessions that were evicted in favor of others since the
    /// server started.
    pub fn evicted(&self) -> u64 {
        self.half_open.evicted()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sessions::admission::Permit;

    fn registry() -> Registry {
        Registry::new(Bounds {
            viewers: 10,
            half_open: 3,
            half_open_per_address: 2,
            handshake: Duration::from_secs(10),
        })
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Admits a session that is called `name`. Returns its permit and the name of the evicted one.
    fn join(
        registry: &Registry,
        from: &str,
        name: &str,
        now: Instant,
    ) -> Result<(Permit, Option<String>), Full> {
        let admitted = registry.admit(address(from), now)?;
        admitted.permit.assign(&SessionId::new(name));
        let evicted = admitted.evicted.map(|it| it.as_str().to_owned());
        Ok((admitted.permit, evicted))
    }

    #[test]
    fn half_open_sessions_are_counted_by_source() {
        let (registry, now) = (registry(), Instant::now());
        let first = join(&registry, "2001:db8::1", "first", now).expect("one");
        let _second = join(&registry, "2001:db8::2", "second", now).expect("two");
        let full = Full::Address {
            from: "2001:db8::/64".to_owned(),
            limit: 2,
        };
        let third = join(&registry, "2001:db8::3", "third", now);
        assert_eq!(third.expect_err("too many at once"), full);
        let _other = join(&registry, "192.0.2.1", "other", now).expect("another source");
        drop(first);
        assert!(join(&registry, "2001:db8::3", "third", now).is_ok());
        assert_eq!(
            registry.counts(),
            (0, 2),
            "the last permit was dropped at once"
        );
    }

    #[test]
    fn a_source_at_its_limit_evicts_its_oldest_silent_session() {
        let (registry, now) = (registry(), Instant::now());
        let heard = join(&registry, "192.0.2.1", "heard", now).expect("one");
        heard.0.heard();
        let silent = join(&registry, "192.0.2.1", "silent", now).expect("two");
        let soon = now + Duration::from_millis(900);
        assert!(join(&registry, "192.0.2.1", "refused", soon).is_err());
        let later = now + Duration::from_millis(1_100);
        let (third, evicted) = join(&registry, "192.0.2.1", "third", later).expect("three");
        assert_eq!(evicted.as_deref(), Some("silent"));
        // The evicted session's permit does nothing any more.
        silent.0.heard();
        drop(silent);
        assert_eq!(registry.counts().1, 2);
        let late = now + Duration::from_millis(3_100);
        third.heard();
        let (_fourth, evicted) = join(&registry, "192.0.2.1", "fourth", late).expect("four");
        assert_eq!(evicted.as_deref(), Some("heard"));
        assert_eq!(registry.evicted(), 2);
    }

    #[test]
    fn ten_addresses_do_not_keep_others_from_joining() {
        let registry = Registry::new(Bounds {
            viewers: 10_000,
            half_open: 1_000,
            half_open_per_address: 100,
            handshake: Duration::from_secs(10),
        });
        let now = Instant::now();
        let flood = (0..1_000).map(|index| {
            let from = format!("198.51.100.{}", index % 10);
            join(&registry, &from, &format!("flood {index}"), now).expect("below the limits")
        });
        let flood: Vec<_> = flood.collect();
        assert_eq!(registry.counts().1, 1_000);
        let mut innocent = Vec::new();
        for index in 0..200 {
            let from = format!("192.0.2.{index}");
            let (permit, evicted) = join(&registry, &from, "innocent", now).expect("has a place");
            let evicted = evicted.expect("somebody's place");
            assert!(evicted.starts_with("flood"), "{evicted}");
            permit.heard();
            innocent.push(permit);
        }
        assert_eq!(registry.counts().1, 1_000, "the limit holds");
        drop((flood, innocent));
        assert_eq!(registry.counts().1, 0);
    }

    #[test]
    fn equals_do_not_evict_each_other() {
        let (registry, now) = (registry(), Instant::now());
        let held = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
        let held = held.map(|from| join(&registry, from, from, now).expect("below the limits"));
        let full = Full::HalfOpen { limit: 3 };
        let other = join(&registry, "192.0.2.4", "other", now);
        assert_eq!(other.expect_err("one session each"), full);
        drop(held);
    }
}
