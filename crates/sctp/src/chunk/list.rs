use std::marker::PhantomData;

use glassline_media::fields::{u16_at, u32_at};

use crate::packet::builder::Body;
use crate::sequence::Tsn;

/// Iterator over a list of fixed-size items, read in place in the packet.
///
/// Items come in the order of the wire. They are not checked and may repeat.
#[derive(Debug)]
pub struct List<'a, T> {
    bytes: &'a [u8],
    entries: PhantomData<T>,
}

impl<'a, T: ListItem> List<'a, T> {
    /// A list without items.
    pub const EMPTY: Self = Self {
        bytes: &[],
        entries: PhantomData,
    };

    /// Returns the whole items in `bytes`; a shorter rest is ignored.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let len = bytes.len() / T::BYTES * T::BYTES;
        Self {
            bytes: &bytes[..len],
            entries: PhantomData,
        }
    }

    /// Returns the number of items that are left.
    pub fn len(&self) -> usize {
        self.bytes.len() / T::BYTES
    }

    /// Whether no item is left.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Copies the items into a chunk.
    pub(super) fn write(&self, body: &mut Body<'_>) {
        body.put(self.bytes);
    }
}

impl<T: ListItem> Iterator for List<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let (entry, rest) = self.bytes.split_at_checked(T::BYTES)?;
        self.bytes = rest;
        Some(T::read(entry))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

impl<T: ListItem> ExactSizeIterator for List<'_, T> {}

// Not derived, because a derive would require the trait of `T`, too.
impl<T> Clone for List<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for List<'_, T> {}

impl<T> PartialEq for List<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<T> Eq for List<'_, T> {}

/// A fixed-size item of a [`List`].
pub trait ListItem: Sized {
    /// Size of an item on the wire, in bytes.
    const BYTES: usize;
    /// Reads an item from exactly [`BYTES`](Self::BYTES) bytes.
    fn read(bytes: &[u8]) -> Self;
}

impl ListItem for Tsn {
    const BYTES: usize = 4;

    fn read(bytes: &[u8]) -> Self {
        Self(u32_at(bytes, 0))
    }
}

impl ListItem for u16 {
    const BYTES: usize = 2;

    fn read(bytes: &[u8]) -> Self {
        u16_at(bytes, 0)
    }
}
