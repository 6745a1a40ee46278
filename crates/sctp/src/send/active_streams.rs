//! The streams that have something to send, by virtual time.

use std::collections::VecDeque;

/// Virtual time and number of each stream that has something to send, in ascending order.
///
/// A queue and no tree: the stream that sends is the first one, and moves behind most others
/// with every message. With many streams of different priorities a move shifts some entries,
/// which costs less than the nodes of a tree.
#[derive(Debug, Default)]
pub(super) struct ActiveStreams {
    entries: VecDeque<(u64, u16)>,
}

impl ActiveStreams {
    /// Adds a stream, which must not be there yet.
    pub(super) fn insert(&mut self, virtual_time: u64, stream: u16) {
        let entry = (virtual_time, stream);
        let place = if self.entries.back().is_none_or(|last| *last < entry) {
            self.entries.len()
        } else {
            self.entries.partition_point(|it| *it < entry)
        };
        self.entries.insert(place, entry);
    }

    /// Removes a stream that was added with this virtual time.
    pub(super) fn remove(&mut self, virtual_time: u64, stream: u16) {
        let entry = (virtual_time, stream);
        if self.entries.front() == Some(&entry) {
            self.entries.pop_front();
        } else if let Ok(place) = self.entries.binary_search(&entry) {
            self.entries.remove(place);
        }
    }

    /// Returns the stream with the smallest virtual time.
    pub(super) fn first(&self) -> Option<u16> {
        self.entries.front().map(|entry| entry.1)
    }

    /// Returns the streams, the one with the smallest virtual time first.
    pub(super) fn iter(&self) -> impl Iterator<Item = u16> {
        self.entries.iter().map(|entry| entry.1)
    }

    /// Whether no stream has anything to send.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether more than one stream has something to send.
    pub(super) fn are_several(&self) -> bool {
        self.entries.len() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_order_is_that_of_an_ordered_set(
            changes in prop::collection::vec((0u64..20, 0u16..20, any::<bool>()), 0..60)
        ) {
            let (mut streams, mut set) = (ActiveStreams::default(), BTreeSet::new());
            for (time, stream, adds) in changes {
                if adds && set.insert((time, stream)) {
                    streams.insert(time, stream);
                } else if !adds {
                    set.remove(&(time, stream));
                    streams.remove(time, stream);
                }
                let expected: Vec<u16> = set.iter().map(|it| it.1).collect();
                prop_assert_eq!(streams.iter().collect::<Vec<_>>(), expected);
                prop_assert_eq!(streams.first(), streams.iter().next());
                prop_assert_eq!(streams.is_empty(), set.is_empty());
                prop_assert_eq!(streams.are_several(), set.len() > 1);
            }
        }
    }
}
