use std::marker::PhantomData;

use glassline_media::fields::{u16_at, u32_at};

use crate::packet::builder::Body;
use crate::sequence::Tsn;

/// A list of fixed-size entries, read where it lies in the packet.
///
/// Yields entries in the order of the wire, unchecked and perhaps repeated.
#[derive(Debug)]
pub struct List<'a, T> {
    bytes: &'a [u8],
    entries: PhantomData<T>,
}

impl<'a, T: Entry> List<'a, T> {
    /// No entries.
    pub const EMPTY: Self = Self {
        bytes: &[],
        entries: PhantomData,
    };

    /// The whole entries in `bytes`; a rest that is shorter is left out.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let len = bytes.len() / T::BYTES * T::BYTES;
        Self {
            bytes: &bytes[..len],
            entries: PhantomData,
        }
    }

    /// Entries that are left.
    pub fn len(&self) -> usize {
        self.bytes.len() / T::BYTES
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn write(&self, body: &mut Body<'_>) {
        body.put(self.bytes);
    }
}

impl<T: Entry> Iterator for List<'_, T> {
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

impl<T: Entry> ExactSizeIterator for List<'_, T> {}

// Not derived, because that would ask the same of `T`.
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

/// What can stand in a [`List`].
pub trait Entry: Sized {
    /// Bytes on the wire.
    const BYTES: usize;
    /// Reads one from exactly that many bytes.
    fn read(bytes: &[u8]) -> Self;
}

impl Entry for Tsn {
    const BYTES: usize = 4;

    fn read(bytes: &[u8]) -> Self {
        Self(u32_at(bytes, 0))
    }
}

impl Entry for u16 {
    const BYTES: usize = 2;

    fn read(bytes: &[u8]) -> Self {
        u16_at(bytes, 0)
    }
}
