//! The open connections of one listener, their limits, and which of them makes room for a new one.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use glassline_runtime::{
    ConnectionLimit, ConnectionPermit, ConnectionRefusal, Current, Network, SourcePrefix,
};
use parking_lot::{Mutex, MutexGuard};

use super::activity::Activity;
use super::eviction_order::EvictionOrder;
use super::eviction_rank::ChangedRanks;
use super::waits::Waits;

/// The open connections of one listener, by source prefix.
///
/// A newcomer for whom there is no place takes that of a client that is only waited for: of the
/// newcomer's own prefix if that has all its places, else of the prefix with the most connections.
/// The oldest connection that has shown no right yet goes first, and then the oldest one between
/// two requests, and then the oldest whose requests have all taken long, such as a stream of events. A
/// connection whose request has just begun is never closed for another.
///
/// A part of the places stays with those that have shown no right yet: they need time to send a request,
/// also while clients with a right hold all other places and open more connections.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionTable(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: ConnectionLimit,
    /// Proxies, which are bounded by the total only.
    proxies: Current<[Network]>,
    open: Mutex<Open>,
    changed: Arc<ChangedRanks>,
    waits: Waits,
}

#[derive(Debug, Default)]
struct Open {
    /// Number of the next connection. Connections are numbered in the order of their arrival.
    next: u64,
    order: EvictionOrder<Entry>,
}

/// One open connection in the table, with its right to a place.
#[derive(Debug)]
struct Entry {
    source: SourcePrefix,
    activity: Arc<Activity>,
    /// Given back when the entry is dropped.
    _permit: ConnectionPermit,
}

/// A connection's place in the table, given back when dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    table: ConnectionTable,
    number: u64,
    /// Source of the connection that made room for this one.
    displaced: Option<SourcePrefix>,
}

impl ConnectionSlot {
    /// Returns the source of the connection that made room for this one.
    pub(super) const fn displaced(&self) -> Option<SourcePrefix> {
        self.displaced
    }
}

impl ConnectionTable {
    /// Creates a table for `max` connections, of which `max_per_source` may have the same
    /// [`SourcePrefix`].
    pub(crate) fn new(max: usize, max_per_source: usize) -> Self {
        Self::with_proxies(max, max_per_source, &[])
    }

    /// Returns a table of the same size, in which connections of `proxies` are bounded by the total
    /// only: they carry the requests of many clients.
    pub(crate) fn with_proxies(max: usize, max_per_source: usize, proxies: &[Network]) -> Self {
        Self(Arc::new(Shared {
            limit: ConnectionLimit::new(max, max_per_source),
            proxies: Current::new(proxies),
            open: Mutex::default(),
            changed: Arc::default(),
            waits: Waits::of(max, max_per_source),
        }))
    }

    /// Returns whether `peer` is a proxy that is bounded by the total only.
    pub(super) fn is_proxy(&self, peer: IpAddr) -> bool {
        self.0
            .proxies
            .get()
            .iter()
            .any(|network| network.contains(peer))
    }

    /// Replaces the numbers and the proxies for connections that come from now on; open ones stay.
    pub(crate) fn set(&self, max: usize, max_per_source: usize, proxies: &[Network]) {
        self.0.limit.set(max, max_per_source);
        self.0.waits.set(max, max_per_source);
        self.0.proxies.replace(proxies);
    }

    /// Returns the most connections at the same time.
    pub(crate) fn max(&self) -> usize {
        self.0.limit.max()
    }

    /// Returns the requests of these connections that wait.
    pub(super) fn waits(&self) -> &Waits {
        &self.0.waits
    }

    fn permit(&self, peer: IpAddr) -> Result<ConnectionPermit, ConnectionRefusal> {
        match self.is_proxy(peer) {
            true => self.0.limit.admit_proxy(peer),
            false => self.0.limit.admit(peer),
        }
    }

    /// Admits a connection from `peer`. Another connection may be closed for it.
    ///
    /// # Errors
    /// Returns the limit that is reached if no connection can be closed for this one.
    pub(super) fn admit(
        &self,
        peer: IpAddr,
        activity: &Arc<Activity>,
    ) -> Result<ConnectionSlot, ConnectionRefusal> {
        let source = SourcePrefix::from(peer);
        let mut open = self.up_to_date();
        let (permit, displaced) = match self.permit(peer) {
            Ok(permit) => (permit, None),
            Err(refusal) => {
                let now = Instant::now();
                let first = match refusal {
                    ConnectionRefusal::Source { .. } => open.order.first_of(source, now),
                    ConnectionRefusal::Total { .. } => open.order.first(now),
                };
                let displaced = open.evict(first.ok_or(refusal)?);
                (self.permit(peer)?, displaced)
            }
        };
        let number = open.next;
        open.next += 1;
        let entry = Entry {
            source,
            activity: Arc::clone(activity),
            _permit: permit,
        };
        open.order.insert(number, source, entry);
        drop(open);
        activity.list(number, &self.0.changed);
        Ok(ConnectionSlot {
            table: self.clone(),
            number,
            displaced,
        })
    }

    /// Closes the connection that would make room for a newcomer from anywhere. Returns its source;
    /// `None` if there is none.
    pub(super) fn evict_one(&self) -> Option<SourcePrefix> {
        let mut open = self.up_to_date();
        let first = open.order.first(Instant::now())?;
        open.evict(first)
    }

    /// Returns the connections after those whose rank has changed have been put where they belong.
    fn up_to_date(&self) -> MutexGuard<'_, Open> {
        let mut open = self.0.open.lock();
        for number in self.0.changed.take() {
            if let Some(entry) = open.order.get(number) {
                let rank = entry.activity.changed_rank();
                open.order.set_rank(number, rank);
            }
        }
        open
    }
}

impl Open {
    /// Removes a connection and asks its task to close it. Returns its source.
    fn evict(&mut self, number: u64) -> Option<SourcePrefix> {
        let evicted = self.order.remove(number)?;
        evicted.activity.evict();
        Some(evicted.source)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        // The connection may have been evicted before.
        drop(self.table.0.open.lock().order.remove(self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    struct Client {
        activity: Arc<Activity>,
        slot: Option<ConnectionSlot>,
    }

    impl Client {
        fn is_evicted(&self) -> bool {
            let polled =
                pin!(self.activity.evicted()).poll(&mut Context::from_waker(Waker::noop()));
            polled == Poll::Ready(())
        }
    }

    fn connect(table: &ConnectionTable, peer: &str) -> Client {
        let activity = Arc::new(Activity::new(Instant::now()));
        let peer = peer.parse().expect("an address");
        let slot = table.admit(peer, &activity).ok();
        Client { activity, slot }
    }

    #[test]
    fn the_oldest_half_open_connection_of_an_address_makes_room() {
        let table = ConnectionTable::new(10, 3);
        let clients = [(); 3].map(|()| connect(&table, "192.0.2.1"));
        clients[0].activity.begin_request(Instant::now());
        let other = connect(&table, "192.0.2.2");
        let fourth = connect(&table, "192.0.2.1");
        assert!(fourth.slot.is_some());
        let evicted = clients.each_ref().map(Client::is_evicted);
        assert_eq!(evicted, [false, true, false], "the first is being answered");
        assert!(!other.is_evicted(), "another address");
    }

    #[test]
    fn the_address_with_the_most_connections_makes_room_when_all_places_are_taken() {
        let table = ConnectionTable::new(4, 3);
        let quiet = connect(&table, "2001:db8:0:1::1");
        let flood = ["2001:db8::1", "2001:db8::2", "2001:db8::3"].map(|it| connect(&table, it));
        let newcomer = connect(&table, "2001:db8:0:2::1");
        assert!(newcomer.slot.is_some() && !quiet.is_evicted());
        assert_eq!(
            flood.each_ref().map(Client::is_evicted),
            [true, false, false]
        );
    }

    #[test]
    fn who_was_granted_something_goes_after_those_who_were_not() {
        let table = ConnectionTable::new(2, 2);
        let [first, second] = [(); 2].map(|()| connect(&table, "192.0.2.1"));
        let request = first.activity.begin_request(Instant::now());
        first.activity.note_granted();
        first.activity.end_request(request, Instant::now());
        let third = connect(&table, "192.0.2.1");
        assert!(second.is_evicted() && !first.is_evicted());
        third.activity.begin_request(Instant::now());
        let fourth = connect(&table, "192.0.2.1");
        assert!(first.is_evicted() && fourth.slot.is_some());
    }

    #[test]
    fn connections_whose_requests_take_long_make_room_when_nothing_else_does() {
        let table = ConnectionTable::new(2, 2);
        let [first, second] = [(); 2].map(|()| connect(&table, "192.0.2.1"));
        let long_ago = Instant::now().checked_sub(Duration::from_secs(60));
        let long_ago = long_ago.expect("the machine runs for a minute");
        for client in [&first, &second] {
            client.activity.begin_request(long_ago);
        }
        let third = connect(&table, "192.0.2.1");
        assert!(third.slot.is_some() && first.is_evicted() && !second.is_evicted());
        let fourth = connect(&table, "192.0.2.2");
        assert!(
            fourth.slot.is_some() && third.is_evicted(),
            "it shows no right"
        );
        assert!(!second.is_evicted());
    }

    /// Clients with a right that keep all places open, and open more.
    fn flood_with_rights(
        table: &ConnectionTable,
        sources: &[&str],
        connections: usize,
    ) -> Vec<Client> {
        let sources = sources.iter().cycle().take(connections);
        let connected = sources.map(|source| {
            let client = connect(table, source);
            let request = client.activity.begin_request(Instant::now());
            client.activity.note_granted();
            client.activity.end_request(request, Instant::now());
            client
        });
        connected.collect()
    }

    #[test]
    fn newcomers_have_time_for_a_request_while_others_with_a_right_open_connections() {
        for sources in [["192.0.2.1", "192.0.2.2", "192.0.2.3"], ["192.0.2.1"; 3]] {
            let table = ConnectionTable::new(64, 64);
            let before = flood_with_rights(&table, &sources, 64);
            let newcomers = ["192.0.2.7", "192.0.2.8"].map(|it| connect(&table, it));
            let flood = flood_with_rights(&table, &sources, 100);
            assert!(
                newcomers
                    .iter()
                    .all(|it| it.slot.is_some() && !it.is_evicted())
            );
            let held = before.iter().chain(&flood).filter(|it| !it.is_evicted());
            assert_eq!(held.count(), 62, "the flood displaces itself");
        }
    }

    #[test]
    fn newcomers_of_many_addresses_displace_each_other_from_the_oldest_on() {
        let table = ConnectionTable::new(64, 64);
        let page = flood_with_rights(&table, &["192.0.2.1"], 56);
        let clients: Vec<_> = (0..100_u8)
            .map(|last| connect(&table, &format!("198.51.100.{last}")))
            .collect();
        let evicted = clients.iter().map(Client::is_evicted).collect::<Vec<_>>();
        let (old, new) = evicted.split_at(clients.len() - 9);
        assert!(old.iter().all(|it| *it) && !new.contains(&true));
        let closed = page.iter().filter(|it| it.is_evicted());
        assert_eq!(closed.count(), 1, "the part of the newcomers is full");
    }

    #[test]
    fn a_newcomer_is_refused_while_every_connection_is_being_answered() {
        let table = ConnectionTable::new(2, 2);
        let mut clients = [(); 2].map(|()| connect(&table, "192.0.2.1"));
        for client in &clients {
            client.activity.begin_request(Instant::now());
        }
        assert!(connect(&table, "192.0.2.1").slot.is_none());
        assert!(connect(&table, "192.0.2.2").slot.is_none());
        clients[0].slot = None;
        assert!(connect(&table, "192.0.2.2").slot.is_some());
        assert!(!clients[1].is_evicted());
        drop(clients);
        assert!(table.0.open.lock().order.is_empty(), "nothing is left");
    }
}
