//! Connections that have shown no right to anything yet, in the order in which they came.
//!
//! When all connections are in use, the oldest newcomer makes room for the next one: a flood of
//! connections closes its own connections, and clients that have shown a right keep theirs.

use std::collections::{BTreeMap, BTreeSet};

use super::SourcePrefix;

/// Place of a connection in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival(u64);

/// The newcomers, by arrival and by source prefix. The connections or their keys are of type `T`.
#[derive(Debug)]
pub struct Newcomers<T> {
    next: u64,
    by_arrival: BTreeMap<Arrival, (SourcePrefix, T)>,
    by_source: BTreeSet<(SourcePrefix, Arrival)>,
}

impl<T> Default for Newcomers<T> {
    fn default() -> Self {
        Self {
            next: 0,
            by_arrival: BTreeMap::new(),
            by_source: BTreeSet::new(),
        }
    }
}

impl<T> Newcomers<T> {
    /// Adds a connection that was just accepted.
    pub fn add(&mut self, source: SourcePrefix, connection: T) -> Arrival {
        let arrival = Arrival(self.next);
        self.next += 1;
        self.by_arrival.insert(arrival, (source, connection));
        self.by_source.insert((source, arrival));
        arrival
    }

    /// Removes and returns a connection, because it ended or its client has shown a right. `None` if
    /// it is no newcomer any more.
    pub fn remove(&mut self, arrival: Arrival) -> Option<T> {
        let (source, connection) = self.by_arrival.remove(&arrival)?;
        self.by_source.remove(&(source, arrival));
        Some(connection)
    }

    /// Returns how many newcomers there are.
    pub fn count(&self) -> usize {
        self.by_arrival.len()
    }

    /// Returns whether there are at least `count` newcomers of `source`.
    pub fn has_many(&self, source: SourcePrefix, count: usize) -> bool {
        let of_source = self.by_source.range((source, Arrival(0))..);
        let of_source = of_source.take_while(|(of, _)| *of == source);
        of_source.take(count).count() == count
    }

    /// Removes and returns the oldest newcomer, of `source` if that is given.
    pub fn take_oldest(&mut self, source: Option<SourcePrefix>) -> Option<T> {
        let arrival = match source {
            None => *self.by_arrival.first_key_value()?.0,
            Some(source) => {
                let first = (source, Arrival(0));
                let (of, arrival) = self.by_source.range(first..).next()?;
                (*of == source).then_some(*arrival)?
            }
        };
        self.remove(arrival)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    #[test]
    fn the_oldest_of_all_and_of_each_source_is_found() {
        let source = |last| SourcePrefix::from(IpAddr::from(Ipv4Addr::new(192, 0, 2, last)));
        let mut newcomers = Newcomers::default();
        let mut arrivals = Vec::new();
        for (last, name) in [(2, "a"), (1, "b"), (2, "c"), (1, "d"), (2, "e")] {
            arrivals.push(newcomers.add(source(last), name));
        }
        assert_eq!(newcomers.take_oldest(Some(source(3))), None);
        assert_eq!(newcomers.take_oldest(Some(source(1))), Some("b"));
        assert_eq!(newcomers.take_oldest(None), Some("a"));
        assert_eq!(newcomers.remove(arrivals[2]), Some("c"));
        assert_eq!(newcomers.remove(arrivals[2]), None);
        assert_eq!(newcomers.take_oldest(Some(source(1))), Some("d"));
        assert_eq!(
            newcomers.take_oldest(Some(source(1))),
            None,
            "the rest is of another source"
        );
        assert_eq!(newcomers.take_oldest(None), Some("e"));
        assert_eq!(newcomers.take_oldest(None), None);
        assert!(newcomers.by_source.is_empty());
    }
}
