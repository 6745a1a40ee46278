//! The rate at which each source prefix may do something.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::{SourcePrefix, TokenBucket, shrink};

/// Most source prefixes with a token bucket of their own.
const SOURCES_MAX: usize = 4096;

/// Shortest time between two searches for buckets that are full again.
const PURGE: Duration = Duration::from_secs(1);

/// A token bucket for each source prefix that was active recently.
///
/// Memory is bounded: at most 4,096 prefixes have a bucket of their own. Beyond that number all new
/// prefixes share one bucket, until others have been idle for long enough to be forgotten.
#[derive(Debug)]
pub struct SourceRates {
    /// The bucket of a new prefix.
    full: TokenBucket,
    buckets: HashMap<SourcePrefix, TokenBucket>,
    /// The bucket of all prefixes that have none of their own.
    shared: TokenBucket,
    purged: Option<Instant>,
}

impl SourceRates {
    /// Allows each prefix `per_s` events a second, and `at_once` of them in a burst.
    pub fn new(per_s: f64, at_once: f64) -> Self {
        let full = TokenBucket::new(per_s, at_once);
        Self {
            full,
            buckets: HashMap::new(),
            shared: full,
            purged: None,
        }
    }

    /// Takes one token of the prefix of `peer`. Returns false if none is left.
    pub fn take(&mut self, peer: IpAddr, now: Instant) -> bool {
        let source = SourcePrefix::from(peer);
        if let Some(bucket) = self.buckets.get_mut(&source) {
            return bucket.take(now);
        }
        if self.buckets.len() >= SOURCES_MAX {
            self.purge(now);
        }
        if self.buckets.len() >= SOURCES_MAX {
            return self.shared.take(now);
        }
        self.buckets.entry(source).or_insert(self.full).take(now)
    }

    /// Forgets the buckets that are full: a new one would be the same.
    fn purge(&mut self, now: Instant) {
        let is_due = |at: Instant| now.saturating_duration_since(at) >= PURGE;
        if self.purged.is_none_or(is_due) {
            self.purged = Some(now);
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
            shrink(&mut self.buckets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn host(number: u32) -> IpAddr {
        Ipv4Addr::from(0x0a00_0000 + number).into()
    }

    #[test]
    fn a_source_that_is_too_fast_leaves_others_alone() {
        let start = Instant::now();
        let mut rates = SourceRates::new(10.0, 5.0);
        let taken = (0..20).filter(|_| rates.take(host(1), start)).count();
        assert_eq!(taken, 5, "the burst");
        assert!(rates.take(host(2), start), "another source");
        let later = start + Duration::from_millis(250);
        let taken = (0..20).filter(|_| rates.take(host(1), later)).count();
        assert_eq!(taken, 2, "10 a second");
    }

    #[test]
    fn more_sources_than_there_is_room_for_share_one_bucket() {
        let start = Instant::now();
        let mut rates = SourceRates::new(1.0, 2.0);
        let sources = u32::try_from(SOURCES_MAX).expect("small");
        assert!((0..sources).all(|number| rates.take(host(number), start)));
        let beyond = (sources..sources + 100).filter(|number| rates.take(host(*number), start));
        assert_eq!(beyond.count(), 2);
        assert_eq!(rates.buckets.len(), SOURCES_MAX);
        // After a second every bucket is full again, and makes room.
        let later = start + Duration::from_secs(2);
        assert!(rates.take(host(sources), later));
        assert_eq!(rates.buckets.len(), 1);
    }
}
