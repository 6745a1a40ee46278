//! The limit on open connections over all threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the open connections and limits them.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    open: Arc<AtomicUsize>,
    max: usize,
}

impl ConnectionLimit {
    /// Allows `max` connections at the same time.
    pub(super) fn new(max: usize) -> Self {
        Self {
            open: Arc::default(),
            max,
        }
    }

    /// Counts one more connection; `None` if the limit is reached.
    pub(super) fn admit(&self) -> Option<ConnectionPermit> {
        let permit = ConnectionPermit(Arc::clone(&self.open));
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        (before < self.max).then_some(permit)
    }
}

/// The right to one connection, given back when dropped. It stays with the connection when that
/// moves to another thread.
#[derive(Debug)]
pub(super) struct ConnectionPermit(Arc<AtomicUsize>);

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_closes_makes_room_for_another() {
        let limit = ConnectionLimit::new(1);
        let first = limit.admit();
        assert!(first.is_some());
        assert!(limit.admit().is_none());
        assert!(limit.admit().is_none(), "those refused are not counted");
        drop(first);
        assert!(limit.admit().is_some());
    }
}
