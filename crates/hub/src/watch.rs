use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::wake::Wake;

/// The watchers of a stream's demand and of its source.
#[derive(Default, derive_more::Debug)]
#[debug("Watchers {{ .. }}")]
pub(crate) struct Watchers(Mutex<Vec<Weak<dyn Wake>>>);

impl Watchers {
    /// Wakes `watcher` at each change from now on, for as long as the caller holds it.
    pub(crate) fn add(&self, watcher: &Arc<dyn Wake>) {
        let mut watchers = self.0.lock();
        watchers.retain(|it| it.strong_count() > 0);
        watchers.push(Arc::downgrade(watcher));
    }

    /// Wakes every watcher that still exists.
    pub(crate) fn wake(&self) {
        let watchers = self.0.lock();
        for watcher in watchers.iter().filter_map(Weak::upgrade) {
            watcher.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct NoWake;

    impl Wake for NoWake {
        fn wake(&self) {}
    }

    #[test]
    fn watchers_that_were_dropped_are_forgotten() {
        let watchers = Watchers::default();
        for _ in 0..3 {
            watchers.add(&(Arc::new(NoWake) as Arc<dyn Wake>));
        }
        let held: [Arc<dyn Wake>; 2] = std::array::from_fn(|_| Arc::new(NoWake) as _);
        held.iter().for_each(|it| watchers.add(it));
        let watchers = watchers.0.lock();
        assert_eq!(watchers.len(), 2, "those that are held stay");
    }
}
