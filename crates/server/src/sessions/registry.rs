//! Who is being served, and how many may knock at once.
//!
//! A viewer is made by HTTP and waits here until its first valid STUN request
//! lands on a shard, which then adopts it. Afterwards the registry only knows
//! which shard that is.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use glassline_hub::StreamName;

use super::Peer;
use crate::runtime::SessionId;

/// How many viewers there may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Viewers altogether.
    pub viewers: usize,
    /// Sessions whose handshake is not done, altogether.
    pub half_open: usize,
    /// Sessions whose handshake is not done, of one address.
    pub half_open_per_address: usize,
    /// How long a handshake may take.
    pub handshake: Duration,
}

/// Every session of the server.
#[derive(Debug)]
pub struct Registry {
    bounds: Bounds,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    by_id: HashMap<SessionId, Arc<Entry>>,
    by_ufrag: HashMap<Box<str>, Arc<Entry>>,
    half_open: usize,
    half_open_by_address: HashMap<IpAddr, usize>,
}

/// What the registry knows of one session.
#[derive(Debug)]
pub struct Entry {
    /// Its name in URLs.
    pub id: SessionId,
    /// What it watches.
    pub stream: StreamName,
    created: Instant,
    home: Mutex<Home>,
    ice: Mutex<IceTag>,
    /// ICE user name fragments that lead here: the first, and one more after a restart.
    ufrags: Mutex<Vec<Box<str>>>,
}

/// Which ICE generation a session is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IceTag {
    /// The peer's user fragment; another one means an ICE restart.
    pub peer_ufrag: String,
    /// The entity tag that WHEP gives to this generation, quotes included.
    pub etag: String,
}

/// Where a session is.
#[derive(Debug)]
pub enum Home {
    /// Nobody came for it yet.
    Waiting(Box<Peer>),
    /// A shard owns it.
    Shard(usize),
    /// Closed.
    Gone,
}

impl Entry {
    /// Where the session is; hold the lock only briefly, and take no lock of the
    /// registry under it.
    ///
    /// Commands to the shard named here are sent under the lock, and so is the
    /// viewer itself when it moves: whoever comes later finds it before them in
    /// the inbox of its new shard.
    pub fn home(&self) -> MutexGuard<'_, Home> {
        self.home.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its ICE generation; hold the lock only briefly.
    pub fn ice(&self) -> MutexGuard<'_, IceTag> {
        self.ice.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// An empty registry.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            inner: Arc::default(),
        }
    }

    /// A place for one more half-open session of `address`, held until the
    /// handshake is done or failed.
    ///
    /// # Errors
    /// [`Full`] names the bound that was reached.
    pub fn admit(&self, address: IpAddr) -> Result<Permit, Full> {
        let mut inner = self.lock();
        if inner.by_id.len() >= self.bounds.viewers {
            return Err(Full::Viewers {
                limit: self.bounds.viewers,
            });
        }
        if inner.half_open >= self.bounds.half_open {
            return Err(Full::HalfOpen {
                limit: self.bounds.half_open,
            });
        }
        let of_address = inner.half_open_by_address.entry(address).or_insert(0);
        if *of_address >= self.bounds.half_open_per_address {
            return Err(Full::Address {
                address,
                limit: self.bounds.half_open_per_address,
            });
        }
        *of_address += 1;
        inner.half_open += 1;
        Ok(Permit {
            inner: Arc::clone(&self.inner),
            address,
        })
    }

    /// Keeps `viewer` until a shard adopts it.
    pub fn insert(&self, peer: Box<Peer>, ufrag: &str, ice: IceTag, now: Instant) -> Arc<Entry> {
        let entry = Arc::new(Entry {
            id: peer.id().clone(),
            stream: peer.stream().name().clone(),
            created: now,
            home: Mutex::new(Home::Waiting(peer)),
            ice: Mutex::new(ice),
            ufrags: Mutex::new(vec![ufrag.into()]),
        });
        let mut inner = self.lock();
        inner.by_ufrag.insert(ufrag.into(), Arc::clone(&entry));
        inner.by_id.insert(entry.id.clone(), Arc::clone(&entry));
        entry
    }

    /// Lets STUN requests for `ufrag` lead to `entry` too, after an ICE restart.
    /// Only the two latest fragments of a session count, and none of one that
    /// has ended meanwhile.
    pub fn add_ufrag(&self, entry: &Arc<Entry>, ufrag: &str) {
        let mut inner = self.lock();
        if !inner.by_id.contains_key(&entry.id) {
            return;
        }
        let mut ufrags = entry.ufrags.lock().unwrap_or_else(PoisonError::into_inner);
        if ufrags.len() > 1 {
            let oldest = ufrags.remove(0);
            inner.by_ufrag.remove(&oldest);
        }
        ufrags.push(ufrag.into());
        inner.by_ufrag.insert(ufrag.into(), Arc::clone(entry));
    }

    /// The session that a STUN request for our fragment `ufrag` is for. Does
    /// not allocate: anyone may send such a request.
    pub fn by_ufrag(&self, ufrag: &str) -> Option<Arc<Entry>> {
        self.lock().by_ufrag.get(ufrag).cloned()
    }

    /// The session called `id`.
    pub fn by_id(&self, id: &SessionId) -> Option<Arc<Entry>> {
        self.lock().by_id.get(id).cloned()
    }

    /// Forgets the session called `id` and returns what it was.
    pub fn remove(&self, id: &SessionId) -> Option<Arc<Entry>> {
        let mut inner = self.lock();
        let entry = inner.by_id.remove(id)?;
        for ufrag in entry
            .ufrags
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            inner.by_ufrag.remove(ufrag);
        }
        Some(entry)
    }

    /// Forgets sessions for which nobody came within the handshake time; how many.
    pub fn sweep(&self, now: Instant) -> usize {
        let late: Vec<SessionId> = {
            let inner = self.lock();
            let waits = |entry: &Entry| matches!(*entry.home(), Home::Waiting(_));
            inner
                .by_id
                .values()
                .filter(|entry| {
                    now.saturating_duration_since(entry.created) > self.bounds.handshake
                })
                .filter(|entry| waits(entry))
                .map(|entry| entry.id.clone())
                .collect()
        };
        let mut swept = 0;
        for id in &late {
            let Some(entry) = self.by_id(id) else {
                continue;
            };
            let mut home = entry.home();
            // A shard may have adopted it meanwhile.
            if matches!(*home, Home::Waiting(_)) {
                let peer = std::mem::replace(&mut *home, Home::Gone);
                drop(home);
                self.remove(id);
                // Its permit locks the registry, so it goes last.
                drop(peer);
                swept += 1;
            }
        }
        swept
    }

    /// Sessions and, of these, half-open ones.
    pub fn counts(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.by_id.len(), inner.half_open)
    }

    /// Every session's name.
    pub fn ids(&self) -> Vec<SessionId> {
        self.lock().by_id.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One half-open session's place; dropping it frees the place.
#[derive(Debug)]
pub struct Permit {
    inner: Arc<Mutex<Inner>>,
    address: IpAddr,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.half_open -= 1;
        if let Some(count) = inner.half_open_by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                inner.half_open_by_address.remove(&self.address);
            }
        }
    }
}

/// No place for one more viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Full {
    /// As many viewers as configured.
    #[error("{limit} viewers are served already; raise `limits.viewers` to allow more")]
    Viewers {
        /// The bound.
        limit: usize,
    },
    /// As many handshakes at once as configured.
    #[error("{limit} handshakes are under way already; raise `limits.half_open` to allow more")]
    HalfOpen {
        /// The bound.
        limit: usize,
    },
    /// As many handshakes at once from one address as configured.
    #[error(
        "{address} has {limit} handshakes under way already; raise `limits.half_open_per_address` to allow more"
    )]
    Address {
        /// Who asked.
        address: IpAddr,
        /// The bound.
        limit: usize,
    },
}

#[cfg(test)]
mod tests {
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
