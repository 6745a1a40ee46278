//! The limit on open connections: over all listening threads, and for each source prefix.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{SourcePrefix, shrink};

/// Counts the open connections and limits them.
#[derive(Clone, Debug)]
pub struct ConnectionLimit(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    open: Mutex<Open>,
}

/// The open connections; a prefix without any has no entry, so memory is bounded by the limit.
#[derive(Debug, Default)]
struct Open {
    max: usize,
    max_per_source: usize,
    total: usize,
    by_source: HashMap<SourcePrefix, usize>,
}

/// The limit that a connection would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionRefusal {
    /// All connections that the limit allows are open.
    #[error("all {limit} connections are in use")]
    Total {
        /// Most connections at the same time.
        limit: usize,
    },
    /// All connections that the limit allows for one source prefix are open.
    #[error("all {limit} connections of this address are in use")]
    Source {
        /// Most connections of one source prefix at the same time.
        limit: usize,
    },
}

impl ConnectionLimit {
    /// Allows `max` connections at the same time, of which `max_per_source` may have the same
    /// [`SourcePrefix`].
    pub fn new(max: usize, max_per_source: usize) -> Self {
        let open = Open {
            max,
            max_per_source,
            ..Open::default()
        };
        Self(Arc::new(Shared {
            open: Mutex::new(open),
        }))
    }

    /// Replaces the numbers for connections that come from now on; open ones stay.
    pub fn set(&self, max: usize, max_per_source: usize) {
        let mut open = self.0.open.lock();
        open.max = max;
        open.max_per_source = max_per_source;
    }

    /// Returns the most connections at the same time.
    pub fn max(&self) -> usize {
        self.0.open.lock().max
    }

    /// Counts one more connection from `peer`.
    ///
    /// # Errors
    /// Returns [`ConnectionRefusal`] with the limit that is reached, that of the source first.
    pub fn admit(&self, peer: IpAddr) -> Result<ConnectionPermit, ConnectionRefusal> {
        self.admit_up_to(None, peer)
    }

    /// Counts one more connection from `peer`, which has the connections of many clients.
    ///
    /// # Errors
    /// Returns [`ConnectionRefusal::Total`] if all connections are open.
    pub fn admit_proxy(&self, peer: IpAddr) -> Result<ConnectionPermit, ConnectionRefusal> {
        self.admit_up_to(Some(usize::MAX), peer)
    }

    /// `max_per_source`: in place of the usual number.
    fn admit_up_to(
        &self,
        max_per_source: Option<usize>,
        peer: IpAddr,
    ) -> Result<ConnectionPermit, ConnectionRefusal> {
        let source = SourcePrefix::from(peer);
        let mut open = self.0.open.lock();
        let max_per_source = max_per_source.unwrap_or(open.max_per_source);
        let of_source = open.by_source.get(&source).copied().unwrap_or_default();
        if of_source >= max_per_source {
            return Err(ConnectionRefusal::Source {
                limit: max_per_source,
            });
        }
        if open.total >= open.max {
            return Err(ConnectionRefusal::Total { limit: open.max });
        }
        open.by_source.insert(source, of_source + 1);
        open.total += 1;
        drop(open);
        Ok(ConnectionPermit {
            source,
            shared: Arc::clone(&self.0),
        })
    }
}

/// The right to one connection, given back when dropped. It stays with the connection when that
/// moves to another thread.
#[derive(Debug)]
pub struct ConnectionPermit {
    source: SourcePrefix,
    shared: Arc<Shared>,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.shared.open.lock();
        open.total -= 1;
        if let Entry::Occupied(mut of_source) = open.by_source.entry(self.source) {
            *of_source.get_mut() -= 1;
            if *of_source.get() == 0 {
                of_source.remove();
                shrink(&mut open.by_source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_connection_that_closes_makes_room_for_another() {
        let limit = ConnectionLimit::new(1, 1);
        let first = limit.admit(peer("192.0.2.1"));
        assert!(first.is_ok());
        let full = ConnectionRefusal::Total { limit: 1 };
        assert_eq!(limit.admit(peer("192.0.2.2")).err(), Some(full));
        assert_eq!(limit.admit(peer("192.0.2.2")).err(), Some(full));
        drop(first);
        assert!(limit.admit(peer("192.0.2.2")).is_ok());
    }

    #[test]
    fn a_lower_limit_closes_nothing_and_admits_nobody_until_there_is_room() {
        let limit = ConnectionLimit::new(2, 2);
        let mut held = ["192.0.2.1", "192.0.2.2"].map(|it| limit.admit(peer(it)).ok());
        limit.set(1, 1);
        assert!(limit.admit(peer("192.0.2.3")).is_err());
        held[0] = None;
        assert!(limit.admit(peer("192.0.2.3")).is_err(), "one is open still");
        held[1] = None;
        assert!(limit.admit(peer("192.0.2.3")).is_ok());
    }

    #[test]
    fn one_source_leaves_connections_to_others() {
        let limit = ConnectionLimit::new(3, 2);
        let held = ["2001:db8::1", "2001:db8::2"].map(|it| limit.admit(peer(it)));
        assert!(held.iter().all(Result::is_ok));
        let full = ConnectionRefusal::Source { limit: 2 };
        assert_eq!(limit.admit(peer("2001:db8::3")).err(), Some(full));
        let other = limit.admit(peer("2001:db8:0:1::1"));
        assert!(other.is_ok(), "another network");
        drop(held);
        assert!(limit.admit(peer("2001:db8::3")).is_ok());
        drop(other);
        assert!(limit.0.open.lock().by_source.is_empty(), "nothing is left");
    }
}
