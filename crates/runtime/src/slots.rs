//! A table whose keys stay safe to use after the value that they name is removed.

/// The key of one value in [`Slots`]. A later value in the same slot has another generation, so an
/// old key never finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// Returns the key as one 64-bit number.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// Returns the key that [`Self::to_bits`] made `bits` of.
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            index: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }
}

/// Slots for which a table keeps room in any case.
const KEPT: usize = 64;

/// A table with stable keys. The slots of removed values are used again, and given back when the
/// table has become eight times too large.
#[derive(Debug)]
pub struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    /// Generation of the slots that are added: later than that of any slot that was given back.
    generation: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            generation: 0,
        }
    }
}

impl<T> Slots<T> {
    /// Inserts `value` and returns its key.
    pub fn insert(&mut self, value: T) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: self.generation,
                value: None,
            });
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 viewers on a shard")
        });
        let slot = &mut self.slots[index as usize];
        slot.value = Some(value);
        Key {
            index,
            generation: slot.generation,
        }
    }

    /// Returns the value of `key` for changes, or `None` if it was removed.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        (slot.generation == key.generation)
            .then_some(slot.value.as_mut())
            .flatten()
    }

    /// Returns the value of `key`, or `None` if it was removed.
    pub fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.index as usize)?;
        (slot.generation == key.generation)
            .then_some(slot.value.as_ref())
            .flatten()
    }

    /// Removes the value of `key` and returns it, or `None` if it was removed before.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index);
        if self.slots.len() > 8 * (self.slots.len() - self.free.len() + KEPT) {
            self.shrink();
        }
        Some(value)
    }

    /// Gives back the unused slots behind the last value, if they are half of all.
    fn shrink(&mut self) {
        let used = self.slots.iter().rposition(|slot| slot.value.is_some());
        let used = used.map_or(0, |last| last + 1).max(KEPT);
        if used > self.slots.len() / 2 {
            return;
        }
        let given_back = self.slots.drain(used..).map(|slot| slot.generation);
        let latest = given_back.max().unwrap_or(0);
        self.generation = self.generation.max(latest).wrapping_add(1);
        self.free.retain(|index| (*index as usize) < used);
        self.slots.shrink_to_fit();
        self.free.shrink_to_fit();
    }

    /// Iterates over all values with their keys.
    pub fn entries(&self) -> impl Iterator<Item = (Key, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| {
            let key = Key {
                index: u32::try_from(index).ok()?,
                generation: slot.generation,
            };
            Some((key, slot.value.as_ref()?))
        })
    }

    /// Iterates over all values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.value.as_ref())
    }

    /// Returns the keys of all values.
    pub fn keys(&self) -> Vec<Key> {
        self.entries().map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_names_nobody() {
        let mut slots = Slots::default();
        let first = slots.insert("first");
        assert_eq!(slots.remove(first), Some("first"));
        let second = slots.insert("second");
        assert_eq!(slots.get_mut(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.get_mut(second), Some(&mut "second"));
        assert_eq!(slots.keys(), vec![second]);
    }

    #[test]
    fn a_table_is_small_again_after_a_crowd_and_old_keys_name_nobody() {
        let mut slots = Slots::default();
        let stays = slots.insert(u32::MAX);
        let mut old = Vec::new();
        for crowd in 0..3 {
            let keys: Vec<Key> = (0..10_000).map(|it| slots.insert(it)).collect();
            assert!(
                keys.iter()
                    .zip(0..)
                    .all(|(key, it)| slots.get(*key) == Some(&it))
            );
            for key in &keys {
                assert!(slots.remove(*key).is_some());
            }
            old.extend(keys);
            assert!(slots.slots.capacity() <= 16 * KEPT, "crowd {crowd}");
            assert!(slots.free.capacity() <= 16 * KEPT, "crowd {crowd}");
        }
        let _others: Vec<Key> = (0..10_000).map(|it| slots.insert(it)).collect();
        assert!(old.iter().all(|key| slots.get(*key).is_none()));
        assert_eq!(slots.get(stays), Some(&u32::MAX));
    }
}
