//! How many connections there may be at once, over all threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the connections that are open, and bounds them.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    open: Arc<AtomicUsize>,
    max: usize,
}

impl ConnectionLimit {
    /// At most `max` connections at once.
    pub(super) fn new(max: usize) -> Self {
        Self {
            open: Arc::default(),
            max,
        }
    }

    /// Counts one more connection; `None` if there are as many as there may be.
    pub(super) fn admit(&self) -> Option<ConnectionPermit> {
        let permit = ConnectionPermit(Arc::clone(&self.open));
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        (before < self.max).then_some(permit)
    }
}

/// The right to one connection, given back when dropped. It stays with the connection,
/// whichever thread has that.
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
