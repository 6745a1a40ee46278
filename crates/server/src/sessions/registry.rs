//! All sessions, found by identifier and by ICE user name fragment.
//!
//! A peer is made out of an offer and waits here until its first valid STUN request arrives at a
//! shard, which then adopts it. From then on the registry knows only the index of that shard.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use glassline_hub::StreamName;

use super::admission::{Bounds, Full, HalfOpen, Permit};
use super::peer::Peer;
use super::record::{IceGeneration, SessionLocation, SessionRecord};
use crate::runtime::SessionId;

/// Most ICE user name fragments that lead to one session: the latest, and the one before it, whose
/// checks may still be on their way.
const UFRAGS_MAX: usize = 2;

/// The registry of all sessions of the server.
#[derive(Debug)]
pub struct Registry {
    bounds: Bounds,
    half_open: HalfOpen,
    index: Mutex<Index>,
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
            bounds,
            half_open: HalfOpen::default(),
            index: Mutex::default(),
        }
    }

    /// Admits one more half-open session of `address`. The permit is held until the handshake is
    /// done or has failed.
    ///
    /// # Errors
    /// Returns [`Full`] with the limit that was reached.
    pub fn admit(&self, address: IpAddr) -> Result<Permit, Full> {
        if self.lock().by_id.len() >= self.bounds.viewers {
            return Err(Full::Viewers {
                limit: self.bounds.viewers,
            });
        }
        self.half_open.admit(address, &self.bounds)
    }

    /// Stores `peer` until a shard adopts it, and returns its record.
    pub fn insert(&self, peer: Box<Peer>, ice: IceGeneration, now: Instant) -> Arc<SessionRecord> {
        let ufrag: Box<str> = ice.ours.as_str().into();
        let record = Arc::new(SessionRecord::new(peer, ice, now));
        let mut index = self.lock();
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
        let mut index = self.lock();
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
        self.lock().by_ufrag.get(ufrag).cloned()
    }

    /// Returns the session with the identifier `id`.
    pub fn by_id(&self, id: &SessionId) -> Option<Arc<SessionRecord>> {
        let index = self.lock();
        let indexed = index.by_id.get(id)?;
        Some(Arc::clone(&indexed.record))
    }

    /// Removes the session with the identifier `id` and returns its record.
    pub fn remove(&self, id: &SessionId) -> Option<Arc<SessionRecord>> {
        let mut index = self.lock();
        let Indexed { record, ufrags } = index.by_id.remove(id)?;
        for ufrag in ufrags {
            index.by_ufrag.remove(&ufrag);
        }
        Some(record)
    }

    /// Removes the sessions that got no datagram within the handshake time. Returns their number.
    pub fn sweep(&self, now: Instant) -> usize {
        let late: Vec<Arc<SessionRecord>> = {
            let index = self.lock();
            let records = index.by_id.values().map(|indexed| &indexed.record);
            let late = records.filter(|record| record.age(now) > self.bounds.handshake);
            late.cloned().collect()
        };
        let mut swept = 0;
        for record in &late {
            let mut state = record.state();
            // Most sessions belong to a shard already.
            if !matches!(state.location, SessionLocation::Waiting(_)) {
                continue;
            }
            let peer = std::mem::replace(&mut state.location, SessionLocation::Gone);
            drop(state);
            self.remove(&record.id);
            drop(peer);
            swept += 1;
        }
        swept
    }

    /// Removes the sessions whose peers shard `index` owned and has dropped. Returns the stream and
    /// the identifier of each.
    pub(super) fn take_of_shard(&self, index: usize) -> Vec<(StreamName, SessionId)> {
        let records: Vec<Arc<SessionRecord>> = {
            let index = self.lock();
            let records = index.by_id.values().map(|indexed| &indexed.record);
            records.cloned().collect()
        };
        let mut taken = Vec::new();
        for record in records {
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
        let sessions = self.lock().by_id.len();
        (sessions, self.half_open.count())
    }

    fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn registry() -> Registry {
        Registry::new(Bounds {
            viewers: 10,
            half_open: 3,
            half_open_per_address: 2,
            handshake: Duration::from_secs(10),
        })
    }

    #[test]
    fn half_open_sessions_are_capped_per_address_and_in_total() {
        let registry = registry();
        let (a, b) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let first = registry.admit(a).expect("one");
        let _second = registry.admit(a).expect("two");
        assert_eq!(
            registry.admit(a).expect_err("three"),
            Full::Address {
                address: a,
                limit: 2
            }
        );
        let _third = registry.admit(b).expect("another address");
        assert_eq!(
            registry.admit(b).expect_err("total"),
            Full::HalfOpen { limit: 3 }
        );
        drop(first);
        assert!(registry.admit(a).is_ok(), "a place is free again");
        assert_eq!(
            registry.counts(),
            (0, 2),
            "the last permit was dropped at once"
        );
    }
}
