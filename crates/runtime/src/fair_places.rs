//! Places of which each holder has a share.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::shrink;

/// A bounded number of places, of which each holder has a share. When all are taken, the oldest place
/// of the holder with the most makes room, so that whoever takes many takes them from itself.
#[derive(Debug)]
pub struct FairPlaces<K>(Arc<Mutex<Taken<K>>>);

#[derive(Debug)]
struct Taken<K> {
    max: usize,
    share: usize,
    /// Number of the next place. Places are numbered in the order in which they are taken.
    next: u64,
    total: usize,
    by_holder: HashMap<K, BTreeMap<u64, Arc<Notify>>>,
}

/// A place, given back when dropped.
#[derive(Debug)]
pub struct FairPlace<K: Clone + Eq + Hash> {
    taken: Arc<Mutex<Taken<K>>>,
    holder: K,
    number: u64,
    displaced: Arc<Notify>,
}

impl<K> Clone for FairPlaces<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Clone + Eq + Hash> FairPlaces<K> {
    /// Creates `max` places, of which one holder may have `share`; at least one each.
    pub fn new(max: usize, share: usize) -> Self {
        Self(Arc::new(Mutex::new(Taken {
            max: max.max(1),
            share: share.max(1),
            next: 0,
            total: 0,
            by_holder: HashMap::new(),
        })))
    }

    /// Replaces the numbers for places that are taken from now on.
    pub fn set(&self, max: usize, share: usize) {
        let mut taken = self.0.lock();
        taken.max = max.max(1);
        taken.share = share.max(1);
    }

    /// Takes a place for `holder`. Returns `None` if its share is used up, or if all places are taken
    /// and no holder has more than this one would have.
    pub fn admit(&self, holder: &K) -> Option<FairPlace<K>> {
        let mut taken = self.0.lock();
        let own = taken.count(holder);
        if own >= taken.share {
            return None;
        }
        if taken.total >= taken.max {
            let fullest = taken.fullest()?;
            if taken.count(&fullest) <= own + 1 {
                return None;
            }
            taken.displace_oldest(&fullest);
        }
        Some(taken.take(&self.0, holder))
    }

    /// Takes a place for `holder`, whose oldest makes room if its share is used up.
    pub fn admit_newest(&self, holder: &K) -> FairPlace<K> {
        let mut taken = self.0.lock();
        if taken.count(holder) >= taken.share {
            taken.displace_oldest(holder);
        }
        while taken.total >= taken.max
            && let Some(fullest) = taken.fullest()
        {
            taken.displace_oldest(&fullest);
        }
        taken.take(&self.0, holder)
    }
}

impl<K: Clone + Eq + Hash> Taken<K> {
    fn count(&self, holder: &K) -> usize {
        self.by_holder.get(holder).map_or(0, BTreeMap::len)
    }

    /// Returns the holder with the most places; of several, the one with the oldest place.
    fn fullest(&self) -> Option<K> {
        let age = |places: &BTreeMap<u64, _>| u64::MAX - places.keys().next().unwrap_or(&u64::MAX);
        let fullest = self
            .by_holder
            .iter()
            .max_by_key(|(_, places)| (places.len(), age(places)));
        fullest.map(|(holder, _)| holder.clone())
    }

    fn displace_oldest(&mut self, holder: &K) {
        let Some(places) = self.by_holder.get(holder) else {
            return;
        };
        if let Some(oldest) = places.keys().next().copied()
            && let Some(displaced) = self.remove(holder, oldest)
        {
            displaced.notify_one();
        }
    }

    fn take(&mut self, shared: &Arc<Mutex<Self>>, holder: &K) -> FairPlace<K> {
        let number = self.next;
        self.next += 1;
        self.total += 1;
        let displaced = Arc::<Notify>::default();
        let places = self.by_holder.entry(holder.clone()).or_default();
        places.insert(number, Arc::clone(&displaced));
        FairPlace {
            taken: Arc::clone(shared),
            holder: holder.clone(),
            number,
            displaced,
        }
    }

    /// Removes a place; `None` if it was displaced before.
    fn remove(&mut self, holder: &K, number: u64) -> Option<Arc<Notify>> {
        let places = self.by_holder.get_mut(holder)?;
        let removed = places.remove(&number)?;
        self.total -= 1;
        if places.is_empty() {
            self.by_holder.remove(holder);
            shrink(&mut self.by_holder);
        }
        Some(removed)
    }
}

impl<K: Clone + Eq + Hash> FairPlace<K> {
    /// Waits until another one needs the place. Whoever has it must stop then.
    pub async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl<K: Clone + Eq + Hash> Drop for FairPlace<K> {
    fn drop(&mut self) {
        self.taken.lock().remove(&self.holder, self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn is_displaced(place: &FairPlace<&str>) -> bool {
        place.displaced().now_or_never().is_some()
    }

    #[test]
    fn a_holder_that_has_its_share_is_refused_and_others_are_not() {
        let places = FairPlaces::new(4, 2);
        let mut held = [(); 2].map(|()| places.admit(&"many"));
        assert!(held.iter().all(Option::is_some));
        assert!(places.admit(&"many").is_none());
        assert!(places.admit(&"few").is_some());
        held[0] = None;
        assert!(places.admit(&"many").is_some(), "one was given back");
        drop(held);
        assert!(places.0.lock().by_holder.is_empty(), "nothing is left");
        assert_eq!(places.0.lock().total, 0);
    }

    #[test]
    fn the_oldest_place_of_the_fullest_holder_makes_room() {
        let places = FairPlaces::new(4, 3);
        let many = [(); 3].map(|()| places.admit(&"many").expect("a share"));
        let few = places.admit(&"few").expect("the last");
        let other = places.admit(&"other").expect("one makes room");
        assert_eq!(
            many.each_ref().map(is_displaced),
            [true, false, false],
            "the oldest of those with most"
        );
        // Two, one and one: nobody has more than a second place would make.
        assert!(places.admit(&"other").is_none());
        let last = places.admit(&"last").expect("two and none become one each");
        assert!(is_displaced(&many[1]) && !is_displaced(&many[2]));
        assert!(places.admit(&"fifth").is_none(), "all have one");
        assert!(![&few, &other, &last].into_iter().any(is_displaced));
    }

    #[test]
    fn whoever_may_not_be_refused_takes_the_place_of_its_own_oldest() {
        let places = FairPlaces::new(3, 2);
        let own = [(); 2].map(|()| places.admit_newest(&"many"));
        let few = places.admit_newest(&"few");
        let third = places.admit_newest(&"many");
        assert_eq!(own.each_ref().map(is_displaced), [true, false]);
        let other = places.admit_newest(&"other");
        assert!(is_displaced(&own[1]), "the fullest makes room");
        assert!(![&few, &third, &other].into_iter().any(is_displaced));
        // All have one: the oldest goes.
        let last = places.admit_newest(&"last");
        assert!(is_displaced(&few) && !is_displaced(&last));
        assert_eq!(places.0.lock().total, 3);
    }
}
