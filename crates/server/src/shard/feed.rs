//! One stream on one shard: read once, for all of its viewers here.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use glassline_hub::{Stream, Subscription, Wake};
use glassline_media::{Burst, Stage, StageTable};

use super::slots::Key;

/// Span of the stage tables.
pub(crate) const STAGE_WINDOW: Duration = Duration::from_secs(10);

/// A stream's subscription, its viewers on this shard and their accounts.
#[derive(Debug)]
pub(crate) struct Feed {
    subscription: Subscription,
    pub(crate) viewers: Vec<Key>,
    /// Read by HTTP while the shard runs; locked briefly by both.
    pub(crate) stages: Arc<Mutex<StageTable>>,
}

/// The shard's bell as one feed rings it. A stream forgets whom nobody holds any
/// more, and the bell itself is held as long as the shard runs.
struct Alarm(Arc<dyn Wake>);

impl Wake for Alarm {
    fn wake(&self) {
        self.0.wake();
    }
}

impl Feed {
    pub(crate) fn new(
        stream: &Arc<Stream>,
        wake: Arc<dyn Wake>,
        stages: Arc<Mutex<StageTable>>,
    ) -> Self {
        Self {
            subscription: stream.subscribe(Arc::new(Alarm(wake))),
            viewers: Vec::new(),
            stages,
        }
    }

    pub(crate) fn stream(&self) -> &Arc<Stream> {
        self.subscription.stream()
    }

    /// Appends what was published since the last call to `out` and accounts
    /// for the hub stage, once per burst.
    pub(crate) fn read(&mut self, out: &mut Vec<Arc<Burst>>, now: Instant) {
        self.subscription.poll(out);
        if out.is_empty() {
            return;
        }
        let accounted = self.subscription.stream().accounted_track();
        let mut stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        for burst in out.iter().filter(|burst| burst.track == accounted) {
            let delay = now.saturating_duration_since(burst.stamps.published);
            stages.record(Stage::Hub, delay, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use glassline_hub::{Hub, StreamName};
    use glassline_media::{BurstBuilder, Codec, MediaTime, Stamps, Track};

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn feeds_that_came_and_went_leave_nothing_with_the_stream() {
        let name = StreamName::parse("cam").expect("a good name");
        let stream = Hub::default().create(name).expect("room");
        let now = Instant::now();
        let tracks = vec![Track::audio(Codec::Opus, 2)];
        let mut publisher = stream.publish(tracks, now).expect("free");
        let bell = Arc::new(Bell::default());
        let feed = || {
            let stages = Arc::new(Mutex::new(StageTable::new(STAGE_WINDOW)));
            Feed::new(&stream, Arc::clone(&bell) as _, stages)
        };
        for _ in 0..1000 {
            drop(feed());
        }
        let _feed = feed();
        let mut builder = BurstBuilder::default();
        builder.push(b"sound");
        let burst = builder.build(0, MediaTime::ZERO, true, Stamps::arrived(now));
        let burst = burst.expect("has a packet");
        publisher.push(burst, now).expect("track 0");
        assert_eq!(bell.0.load(Ordering::Relaxed), 1, "one feed, one ring");
    }
}
