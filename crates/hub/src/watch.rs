use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::wake::Wake;

/// Those who want to know when a stream of the hub appears, begins, ends or goes.
///
/// Shared by the hub and each of its streams.
#[derive(Clone, Default)]
pub(crate) struct Watchers(Arc<Mutex<Vec<Weak<dyn Wake>>>>);

impl Watchers {
    /// Wakes `watcher` at each change from now on, for as long as somebody holds it.
    pub(crate) fn add(&self, watcher: &Arc<dyn Wake>) {
        let mut watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|it| it.strong_count() > 0);
        watchers.push(Arc::downgrade(watcher));
    }

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
