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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use glassline_media::{Codec, Track};

    use crate::{Hub, State, StreamName, Wake};

    #[derive(Default)]
    struct WakeCount(AtomicUsize);

    impl Wake for WakeCount {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_watcher_is_woken_at_each_change_while_it_is_held() {
        let (hub, now) = (Hub::default(), Instant::now());
        let count = super::Arc::new(WakeCount::default());
        let watcher: super::Arc<dyn Wake> = count.clone();
        hub.watch(&watcher);
        let woken = |what: &str, times: usize| {
            assert_eq!(count.0.swap(0, Ordering::Relaxed), times, "{what}");
        };
        let name = |text: &str| StreamName::parse(text).expect("a good name");

        let film = hub.unlisted(name("film"));
        woken("unlisted", 0);
        hub.list(&film).expect("the name is free");
        woken("listed", 1);
        hub.list(&film).expect("it is listed");
        woken("listed already", 0);

        let live = hub.admit(name("live")).expect("room");
        let tracks = vec![Track::audio(Codec::Opus, 2)];
        let publisher = live.publish(tracks, now).expect("free");
        woken("begins", 1);
        publisher.finish(State::Connecting);
        woken("ends", 1);

        assert!(hub.sweep(now).is_empty());
        woken("nothing swept", 0);
        drop(live);
        hub.sweep(now);
        assert_eq!(hub.sweep(now + Duration::from_secs(60)), [name("live")]);
        woken("swept", 1);
        assert!(hub.remove("live").is_none());
        woken("nothing removed", 0);
        assert!(hub.remove("film").is_some());
        woken("removed", 1);
    }

    #[test]
    fn watchers_that_were_dropped_are_forgotten() {
        let hub = Hub::default();
        for _ in 0..3 {
            let watcher: super::Arc<dyn Wake> = super::Arc::new(WakeCount::default());
            hub.watch(&watcher);
        }
        let held: [super::Arc<dyn Wake>; 2] =
            std::array::from_fn(|_| super::Arc::new(WakeCount::default()) as _);
        held.iter().for_each(|it| hub.watch(it));
        let watchers = hub.watchers.0.lock().expect("no panic");
        assert_eq!(watchers.len(), 2, "those that are held stay");
    }
}
