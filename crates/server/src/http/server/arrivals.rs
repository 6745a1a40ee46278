//! What waits for its turn, by the network that it comes from.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};

use glassline_runtime::{SourcePrefix, shrink};

/// Entries that wait in a queue for each source. Sources take turns, so that whoever has many entries
/// waits for itself. The owner bounds the number of entries.
#[derive(Debug)]
pub(super) struct Arrivals<T> {
    by_source: HashMap<SourcePrefix, VecDeque<T>>,
    /// The sources of `by_source`, each once.
    turns: VecDeque<SourcePrefix>,
}

impl<T> Default for Arrivals<T> {
    fn default() -> Self {
        Self {
            by_source: HashMap::new(),
            turns: VecDeque::new(),
        }
    }
}

impl<T> Arrivals<T> {
    /// Adds an entry behind those of its source.
    pub(super) fn add(&mut self, source: SourcePrefix, arrival: T) {
        match self.by_source.entry(source) {
            Entry::Occupied(waiting) => waiting.into_mut().push_back(arrival),
            Entry::Vacant(none) => {
                none.insert(VecDeque::from([arrival]));
                self.turns.push_back(source);
            }
        }
    }

    /// Removes the oldest entries of `source` that `is_over`.
    pub(super) fn forget(&mut self, source: SourcePrefix, is_over: impl Fn(&T) -> bool) {
        let waiting = self.by_source.get_mut(&source);
        if let Some(waiting) = waiting {
            while waiting.front().is_some_and(&is_over) {
                waiting.pop_front();
            }
        }
    }

    /// Removes the oldest entry of the source whose turn it is.
    pub(super) fn next(&mut self) -> Option<T> {
        loop {
            let source = self.turns.pop_front()?;
            if let Some(next) = self.by_source.get_mut(&source)?.pop_front() {
                self.turns.push_back(source);
                return Some(next);
            }
            self.by_source.remove(&source);
            shrink(&mut self.by_source);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    #[test]
    fn a_source_with_many_entries_waits_for_itself_only() {
        let source = |last: u8| SourcePrefix::from(IpAddr::from(Ipv4Addr::new(192, 0, 2, last)));
        let mut arrivals = Arrivals::default();
        for entry in 0..1_000 {
            arrivals.add(source(1), entry);
        }
        assert_eq!(arrivals.next(), Some(0));
        arrivals.add(source(2), 5_000);
        arrivals.add(source(2), 5_001);
        let order: Vec<_> = std::iter::from_fn(|| arrivals.next()).take(6).collect();
        assert_eq!(order, [1, 5_000, 2, 5_001, 3, 4]);
        arrivals.forget(source(1), |entry| *entry < 900);
        assert_eq!(arrivals.next(), Some(900));
        while arrivals.next().is_some() {}
        assert!(arrivals.is_empty() && arrivals.by_source.is_empty());
    }
}
