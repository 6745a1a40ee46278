//! The RTP timestamps of frames that are kept.

use std::collections::VecDeque;

/// A set of timestamps, in the order of their numbers. Those of a viewer come and go nearly in that order, so
/// that both ends are changed, and hardly anything is moved.
#[derive(Clone, Debug, Default)]
pub(super) struct Timestamps(VecDeque<u32>);

impl Timestamps {
    /// Adds a timestamp. Returns false if it is there already.
    pub(super) fn insert(&mut self, timestamp: u32) -> bool {
        if self.0.back().is_none_or(|last| *last < timestamp) {
            self.0.push_back(timestamp);
            return true;
        }
        let place = self.0.binary_search(&timestamp).err();
        if let Some(place) = place {
            self.0.insert(place, timestamp);
        }
        place.is_some()
    }

    /// Removes a timestamp, if it is there.
    pub(super) fn remove(&mut self, timestamp: u32) {
        if self.0.front() == Some(&timestamp) {
            self.0.pop_front();
        } else if let Ok(place) = self.0.binary_search(&timestamp) {
            self.0.remove(place);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_has_what_was_added_and_not_removed(
            steps in prop::collection::vec((any::<bool>(), 0..40_u32), 0..200),
        ) {
            let (mut timestamps, mut expected) = (Timestamps::default(), BTreeSet::new());
            for (adds, number) in steps {
                // They wrap in between.
                let timestamp = number.wrapping_sub(20).wrapping_mul(1500);
                if adds {
                    prop_assert_eq!(timestamps.insert(timestamp), expected.insert(timestamp));
                } else {
                    timestamps.remove(timestamp);
                    expected.remove(&timestamp);
                }
                prop_assert!(timestamps.0.iter().eq(&expected));
            }
        }
    }
}
