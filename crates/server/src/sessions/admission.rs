//! Limits on the number of sessions and of handshakes under way.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_runtime::{SessionId, SourcePrefix, shrink};
use parking_lot::Mutex;

/// Limits on sessions, from the configuration's `limits` section.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most sessions in the whole server.
    pub viewers: usize,
    /// Most sessions in the whole server whose handshake is not done.
    pub half_open: usize,
    /// Most sessions from one IPv4 address or IPv6 network of 64 bits whose handshake is not done.
    pub half_open_per_address: usize,
    /// Time that a handshake may take, from the offer on.
    pub handshake: Duration,
}

/// Age from which a half-open session may be evicted for another one of its source: the first for
/// a session that sent no connectivity check yet, the second for one whose handshake is under way.
/// Viewers behind one address that join at the same time are then refused, as long as it takes,
/// instead of ending each other's handshakes.
const UNHEARD_AGE: Duration = Duration::from_secs(1);
const HEARD_AGE: Duration = Duration::from_secs(3);

/// The sessions whose handshake is not done, by source.
#[derive(Debug, Default)]
pub(super) struct HalfOpen {
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    /// Number of the next entry: entries are numbered in the order of their begin.
    next: u64,
    by_source: HashMap<SourcePrefix, BTreeMap<u64, Entry>>,
    total: usize,
    evicted: u64,
}

/// One session whose handshake is not done.
#[derive(Debug)]
struct Entry {
    since: Instant,
    /// `None` until the offer is answered.
    session: Option<SessionId>,
    /// Whether an authentic connectivity check arrived.
    is_heard: bool,
}

/// A permit for one more half-open session.
#[derive(Debug)]
pub struct Admitted {
    /// The right to the session.
    pub permit: Permit,
    /// The half-open session that has to end in favor of the new one.
    pub evicted: Option<SessionId>,
}

impl HalfOpen {
    /// Admits one more half-open session of `address`. If a limit is reached, an older half-open
    /// session has to end: one of the same source that shows little sign of life, or one of the
    /// source that has most of them.
    ///
    /// # Errors
    /// Returns the limit of handshakes that was reached, if no session may be evicted.
    pub(super) fn admit(
        &self,
        address: IpAddr,
        bounds: &Bounds,
        now: Instant,
    ) -> Result<Admitted, Full> {
        let source = SourcePrefix::from(address);
        let mut table = self.table.lock();
        let of_source = table.by_source.get(&source).map_or(0, BTreeMap::len);
        let place = if of_source >= bounds.half_open_per_address {
            let full = Full::Address {
                from: source.to_string(),
                limit: bounds.half_open_per_address,
            };
            Some(table.stale(source, now).ok_or(full)?)
        } else if table.total >= bounds.half_open {
            let full = Full::HalfOpen {
                limit: bounds.half_open,
            };
            let place = table.of_fullest(of_source + 1);
            Some(place.or_else(|| table.stale(source, now)).ok_or(full)?)
        } else {
            None
        };
        let evicted = place.and_then(|(source, ticket)| {
            table.evicted += 1;
            table.remove(source, ticket)?.session
        });
        let permit = Permit {
            table: Arc::clone(&self.table),
            source,
            ticket: table.insert(source, now),
        };
        Ok(Admitted { permit, evicted })
    }

    /// Returns the number of half-open sessions.
    pub(super) fn count(&self) -> usize {
        self.table.lock().total
    }

    /// Returns the number of half-open sessions that were evicted since the server started.
    pub(super) fn evicted(&self) -> u64 {
        self.table.lock().evicted
    }
}

impl Table {
    fn insert(&mut self, source: SourcePrefix, now: Instant) -> u64 {
        let ticket = self.next;
        self.next += 1;
        self.total += 1;
        let entry = Entry {
            since: now,
            session: None,
            is_heard: false,
        };
        self.by_source
            .entry(source)
            .or_default()
            .insert(ticket, entry);
        ticket
    }

    fn remove(&mut self, source: SourcePrefix, ticket: u64) -> Option<Entry> {
        let of_source = self.by_source.get_mut(&source)?;
        let removed = of_source.remove(&ticket)?;
        if of_source.is_empty() {
            self.by_source.remove(&source);
        }
        self.total -= 1;
        shrink(&mut self.by_source);
        Some(removed)
    }

    /// Returns the oldest session of `source` that may end for another one of the same source.
    fn stale(&self, source: SourcePrefix, now: Instant) -> Option<(SourcePrefix, u64)> {
        let entries = self.by_source.get(&source)?;
        let ticket = oldest(entries, |entry| {
            let age = now.saturating_duration_since(entry.since);
            age >= if entry.is_heard {
                HEARD_AGE
            } else {
                UNHEARD_AGE
            }
        });
        Some((source, ticket?))
    }

    /// Returns the oldest session of the source that has most, if these are more than `more`.
    fn of_fullest(&self, more: usize) -> Option<(SourcePrefix, u64)> {
        let fullest = self.by_source.iter().max_by_key(|(_, it)| it.len());
        let (source, entries) = fullest.filter(|(_, entries)| entries.len() > more)?;
        Some((*source, oldest(entries, |_| true)?))
    }
}

/// Returns the oldest entry that `may_end`, preferably one that was not heard from.
fn oldest(entries: &BTreeMap<u64, Entry>, may_end: impl Fn(&Entry) -> bool) -> Option<u64> {
    let of = |is_heard: bool| {
        let mut entries = entries.iter();
        let found = entries.find(|(_, entry)| {
            entry.session.is_some() && entry.is_heard == is_heard && may_end(entry)
        });
        found.map(|(ticket, _)| *ticket)
    };
    of(false).or_else(|| of(true))
}

/// The right to one half-open session, given back when dropped.
#[derive(Debug)]
pub struct Permit {
    table: Arc<Mutex<Table>>,
    source: SourcePrefix,
    ticket: u64,
}

impl Permit {
    /// Names the session that the permit is for, so that the session can be evicted.
    pub(super) fn assign(&self, session: &SessionId) {
        self.change(|entry| entry.session = Some(session.clone()));
    }

    /// Notes that an authentic connectivity check of the peer arrived.
    pub(super) fn heard(&self) {
        self.change(|entry| entry.is_heard = true);
    }

    fn change(&self, change: impl FnOnce(&mut Entry)) {
        let mut table = self.table.lock();
        let of_source = table.by_source.get_mut(&self.source);
        // An evicted session has no entry any more.
        if let Some(entry) = of_source.and_then(|entries| entries.get_mut(&self.ticket)) {
            change(entry);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.table.lock().remove(self.source, self.ticket);
    }
}

/// The limit that an additional session would exceed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Full {
    /// The server has as many sessions as configured.
    #[error("{limit} viewers are served already; raise `limits.viewers` to allow more")]
    Viewers {
        /// Configured number of sessions, `limits.viewers`.
        limit: usize,
    },
    /// As many handshakes at once as configured.
    #[error("{limit} handshakes are under way already; raise `limits.half_open` to allow more")]
    HalfOpen {
        /// Configured number of handshakes under way, `limits.half_open`.
        limit: usize,
    },
    /// One IPv4 address or IPv6 network has as many handshakes under way as configured.
    #[error(
        "{from} has {limit} handshakes under way already; raise `limits.half_open_per_address` to allow more"
    )]
    Address {
        /// Source that the request came from: an IPv4 address or a /64 network of IPv6.
        from: String,
        /// Configured number of handshakes of one source, `limits.half_open_per_address`.
        limit: usize,
    },
}
