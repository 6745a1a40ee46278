//! Whether anybody needs a stream, for sources that come on demand.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Stream;
use crate::wake::Wake;

/// Counts as one who needs a stream until it is dropped: a receiver, or a request that is about to
/// become one. Every [`Subscription`](crate::Subscription) holds one.
#[derive(derive_more::Debug)]
#[debug("Demand({:?})", self.0.name())]
pub struct Demand(Arc<Stream>);

impl Stream {
    /// Returns a demand for the stream. The first one wakes the stream's watchers.
    pub fn demand(self: &Arc<Self>) -> Demand {
        if self.demands.fetch_add(1, Ordering::AcqRel) == 0 {
            self.source_watchers.wake();
        }
        Demand(Arc::clone(self))
    }

    /// Returns whether anybody needs the stream now.
    pub fn is_demanded(&self) -> bool {
        self.demands.load(Ordering::Acquire) > 0
    }

    /// Wakes `watcher` for as long as the caller holds it: whenever somebody begins to need the
    /// stream, nobody needs it any more, a source or a stand-in begins or ends, or a source that is
    /// away tells its state; and when a keyframe is requested for the first time since the source was
    /// told.
    ///
    /// The watcher must neither block nor call the stream.
    pub fn watch(&self, watcher: &Arc<dyn Wake>) {
        self.source_watchers.add(watcher);
    }
}

impl Demand {
    /// Returns the stream that is needed.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.0
    }
}

impl Drop for Demand {
    fn drop(&mut self) {
        if self.0.demands.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.source_watchers.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::{Limits, StreamName};

    #[derive(Default)]
    struct WakeCount(AtomicUsize);

    impl Wake for WakeCount {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_watcher_is_woken_by_the_first_who_needs_a_stream_and_after_the_last() {
        let name = StreamName::parse("cam").expect("good");
        let stream = Stream::unlisted(name, Limits::default());
        let count = Arc::new(WakeCount::default());
        let watcher: Arc<dyn Wake> = count.clone();
        stream.watch(&watcher);
        let woken = || count.0.swap(0, Ordering::Relaxed);
        assert!(!stream.is_demanded());
        let asks = stream.demand();
        assert_eq!((woken(), stream.is_demanded()), (1, true));
        let reads = stream.subscribe(Arc::new(WakeCount::default()));
        assert!(Arc::ptr_eq(asks.stream(), reads.stream()));
        drop(asks);
        assert_eq!((woken(), stream.is_demanded()), (0, true), "one is left");
        drop(reads);
        assert_eq!((woken(), stream.is_demanded()), (1, false));
    }
}
