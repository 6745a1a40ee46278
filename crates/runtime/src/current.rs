//! A value that many threads read, and that a reload replaces as a whole.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

/// The value in force. A reader gets all of one value or all of the next one, never parts of both.
///
/// The lock is held for the copy or the exchange of a pointer only, so no reader waits for a disk or
/// a network.
pub struct Current<T: ?Sized>(RwLock<Arc<T>>);

impl<T: ?Sized> Current<T> {
    /// Creates a place whose first value is `value`.
    pub fn new(value: impl Into<Arc<T>>) -> Self {
        Self(RwLock::new(value.into()))
    }

    /// Returns the value in force, which stays as it is for whoever holds it.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read())
    }

    /// Puts `value` in force. The one before is dropped outside of the lock.
    pub fn replace(&self, value: impl Into<Arc<T>>) {
        let value = value.into();
        let mut current = self.0.write();
        let before = std::mem::replace(&mut *current, value);
        drop(current);
        drop(before);
    }
}

impl<T: Default> Default for Current<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Current<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_holds_a_value_keeps_it_whole() {
        let current = Current::new((1, 1));
        let held = current.get();
        current.replace((2, 2));
        assert_eq!((*held, *current.get()), ((1, 1), (2, 2)));
    }
}
