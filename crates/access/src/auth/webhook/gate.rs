//! Bounds on questions: how many at the same time, and how many of one address.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use glassline_runtime::{SourcePrefix, TokenBucket};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// Most questions that are sent at the same time, and of one address among them.
const SENT_MAX: usize = 32;
const SENT_MAX_OF_ADDRESS: usize = 8;

/// Most questions that wait or are sent, and of one address among them.
const PENDING_MAX: usize = 1024;
const PENDING_MAX_OF_ADDRESS: usize = 128;

/// Questions that an address may cause at once, and how many a second it gains. A building behind one
/// address that comes back after a power failure fits in; a program that makes up names does not.
const QUESTIONS_AT_ONCE: f64 = 256.0;
const QUESTIONS_PER_S: f64 = 10.0;

/// Most addresses in the table.
const ADDRESSES_MAX: usize = 16_384;

/// Lets questions pass to the webhook.
#[derive(Debug)]
pub(super) struct Gate {
    places: Arc<Semaphore>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    addresses: HashMap<SourcePrefix, Address>,
    pending: usize,
}

#[derive(Debug)]
struct Address {
    places: Arc<Semaphore>,
    pending: usize,
    bucket: TokenBucket,
}

impl Gate {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            places: Arc::new(Semaphore::new(SENT_MAX)),
            table: Mutex::default(),
        })
    }

    /// Lets a question of an address wait for a place; `None` if there are too many, or if the
    /// address has caused too many.
    pub(super) fn enter(self: &Arc<Self>, from: SourcePrefix, now: Instant) -> Option<Entry> {
        let mut table = self.table.lock();
        if table.pending >= PENDING_MAX {
            return None;
        }
        if table.addresses.len() >= ADDRESSES_MAX && !table.addresses.contains_key(&from) {
            let needed = |it: &Address| it.pending > 0 || !it.bucket.is_full(now);
            table.addresses.retain(|_, address| needed(address));
            if table.addresses.len() >= ADDRESSES_MAX {
                return None;
            }
        }
        let address = table.addresses.entry(from).or_insert_with(|| Address {
            places: Arc::new(Semaphore::new(SENT_MAX_OF_ADDRESS)),
            pending: 0,
            bucket: TokenBucket::new(QUESTIONS_PER_S, QUESTIONS_AT_ONCE),
        });
        if address.pending >= PENDING_MAX_OF_ADDRESS || !address.bucket.take(now) {
            return None;
        }
        address.pending += 1;
        let places = Arc::clone(&address.places);
        table.pending += 1;
        Some(Entry {
            gate: Arc::clone(self),
            from,
            places,
        })
    }
}

/// A question that waits, or is being sent.
#[derive(Debug)]
pub(super) struct Entry {
    gate: Arc<Gate>,
    from: SourcePrefix,
    places: Arc<Semaphore>,
}

impl Entry {
    /// Waits for a place among the questions of the address, and then among all. The place is held
    /// until what this returns is dropped.
    pub(super) async fn pass(&self) -> impl Sized + use<'_> {
        // Nobody closes these semaphores.
        let own = self.places.acquire().await;
        let of_all = self.gate.places.acquire().await;
        (own, of_all)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut table = self.gate.table.lock();
        table.pending -= 1;
        if let Some(address) = table.addresses.get_mut(&self.from) {
            address.pending -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    fn from(last: u8) -> SourcePrefix {
        SourcePrefix::from(std::net::IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn an_address_that_makes_up_questions_is_bounded_and_others_are_not() {
        let (gate, now) = (Gate::new(), Instant::now());
        let of = |last, now| {
            (0..2000)
                .filter(|_| gate.enter(from(last), now).is_some())
                .count()
        };
        assert_eq!(of(1, now), QUESTIONS_AT_ONCE as usize);
        assert_eq!(
            of(1, now + Duration::from_secs(2)),
            2 * QUESTIONS_PER_S as usize
        );
        assert_eq!(of(2, now), QUESTIONS_AT_ONCE as usize);
    }

    #[test]
    fn questions_that_wait_are_bounded_for_each_address_and_for_all() {
        let (gate, now) = (Gate::new(), Instant::now());
        let mut held = Vec::new();
        for last in 0..=20 {
            let of_one = std::iter::from_fn(|| gate.enter(from(last), now));
            let before = held.len();
            held.extend(of_one);
            let most = PENDING_MAX_OF_ADDRESS.min(PENDING_MAX - before);
            assert_eq!(held.len() - before, most);
        }
        assert_eq!(held.len(), PENDING_MAX);
        held.clear();
        assert!(gate.enter(from(1), now).is_some());
    }

    #[test]
    fn a_flood_of_addresses_is_bounded_and_quiet_ones_make_room() {
        let (gate, now) = (Gate::new(), Instant::now());
        let address = |number: usize| {
            let [.., a, b, c] = number.to_be_bytes();
            SourcePrefix::from(std::net::IpAddr::from([10, a, b, c]))
        };
        let entered = (0..ADDRESSES_MAX + 10).filter(|it| gate.enter(address(*it), now).is_some());
        assert_eq!(entered.count(), ADDRESSES_MAX);
        let later = now + Duration::from_secs(60);
        assert!(gate.enter(address(ADDRESSES_MAX), later).is_some());
        assert!(gate.table.lock().addresses.len() < 10);
    }

    #[tokio::test]
    async fn one_address_leaves_places_for_others() {
        let (gate, now) = (Gate::new(), Instant::now());
        let entries: Vec<_> = (0..40).filter_map(|_| gate.enter(from(1), now)).collect();
        let mut places = Vec::new();
        for entry in &entries {
            let short = Duration::from_millis(1);
            places.extend(tokio::time::timeout(short, entry.pass()).await.ok());
        }
        assert_eq!(places.len(), SENT_MAX_OF_ADDRESS);
        let other = gate.enter(from(2), now).expect("another address");
        let passed = tokio::time::timeout(Duration::from_secs(5), other.pass());
        assert!(passed.await.is_ok());
    }
}
