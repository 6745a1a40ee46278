use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::wake::Wake;

/// The watchers of a hub: each is woken when a stream appears, begins, ends or is removed.
///
/// The hub and all its streams share one list.
#[derive(Clone, Default)]
pub(crate) struct Watchers(Arc<Mutex<Vec<Weak<dyn Wake>>>>);

impl Watchers {
    /// Wakes `watcher` at each change from now on, for as long as the caller holds it.
    pub(crate) fn add(&self, watcher: &Arc<dyn Wake>) {
        let mut watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|it| it.strong_count() > 0);
        watchers.push(Arc::downgrade(watcher));
    }

    /// Wakes every watcher of the hub.
    pub(crate) fn wake(&self) {
        let watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for watcher in watchers.iter().filter_map(Weak::upgrade) {
            watcher.wake();
        }
    }
}

impl fmt::Debug for Watchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchers").finish_non_exhaustive()
    }
}
