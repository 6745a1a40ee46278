//! One stream on one polling thread: read once, for all of its receivers there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use glassline_hub::{Stream, Subscription, Wake};
use glassline_media::{Kind, MediaTime, MediaUnit, Stage, StageTable, Track};

use super::slots::Key;

/// A frame that comes later than this after the one before it is not waited for.
const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// Audio waits no longer than this for a frame to ride with. The shard's timers
/// are a millisecond coarse: five at most.
const RIDE_WAIT_MAX: Duration = Duration::from_millis(4);

/// A frame is this late at times, and then is still worth waiting for.
const FRAME_LATE_MAX: Duration = Duration::from_millis(1);

/// A stream's subscription on one polling thread, with the receivers it is read for.
#[derive(Debug)]
pub(crate) struct StreamSubscription {
    subscription: Subscription,
    pub(crate) viewers: Vec<Key>,
    /// Read by HTTP while the shard runs; locked briefly by both.
    pub(crate) stages: Arc<Mutex<StageTable>>,
    frames: Frames,
    /// As the stream said at the last reading.
    tracks: Arc<[Track]>,
    /// It says something else since then.
    is_changed: bool,
    /// Audio that waits for the frame that is due, and how long.
    held: Vec<Arc<MediaUnit>>,
    held_until: Option<Instant>,
    /// Empty between calls, kept for its room.
    arrived: Vec<Arc<MediaUnit>>,
}

/// When frames come.
#[derive(Clone, Copy, Debug, Default)]
struct Frames {
    last: Option<(MediaTime, Instant)>,
    next: Option<Instant>,
}

impl Frames {
    fn note(&mut self, burst: &MediaUnit) {
        let (time, at) = (burst.time, burst.stamps.published);
        if let Some((before, _)) = self.last.filter(|(before, _)| *before != time) {
            let interval = u64::try_from(time.nanos() - before.nanos()).unwrap_or(0);
            self.next = Some(at + Duration::from_nanos(interval).min(INTERVAL_MAX));
        }
        self.last = Some((time, at));
    }

    /// Until when audio that came at `now` should wait, if a frame is due soon.
    fn wait_for(&self, now: Instant) -> Option<Instant> {
        let next = self.next?;
        let soon = next <= now + RIDE_WAIT_MAX && now < next + FRAME_LATE_MAX;
        soon.then(|| (next + FRAME_LATE_MAX).min(now + RIDE_WAIT_MAX))
    }
}

/// The thread's waker as one subscription holds it. A stream forgets a subscriber whose
/// waker nobody holds any more, and the thread's own waker is held while the thread runs.
struct ThreadWake(Arc<dyn Wake>);

impl Wake for ThreadWake {
    fn wake(&self) {
        self.0.wake();
    }
}

impl StreamSubscription {
    pub(crate) fn new(
        stream: &Arc<Stream>,
        wake: Arc<dyn Wake>,
        stages: Arc<Mutex<StageTable>>,
    ) -> Self {
        Self {
            subscription: stream.subscribe(Arc::new(ThreadWake(wake))),
            viewers: Vec::new(),
            stages,
            frames: Frames::default(),
            tracks: stream.tracks(),
            is_changed: false,
            held: Vec::new(),
            held_until: None,
            arrived: Vec::new(),
        }
    }

    pub(crate) fn stream(&self) -> &Arc<Stream> {
        self.subscription.stream()
    }

    /// The tracks, if the stream said something new of them.
    pub(crate) fn take_changed(&mut self) -> Option<Arc<[Track]>> {
        let changed = std::mem::take(&mut self.is_changed);
        changed.then(|| Arc::clone(&self.tracks))
    }

    /// When held audio must go, frame or not.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.held_until
    }

    /// Appends to `out` what is to be sent of what was published since the last
    /// call, and accounts for the hub stage, once per burst.
    ///
    /// A packet of audio that comes just before a frame is held back for it:
    /// sent by itself it costs a viewer more than four packets of the frame.
    pub(crate) fn read(&mut self, out: &mut Vec<Arc<MediaUnit>>, now: Instant) {
        self.subscription.poll(&mut self.arrived);
        if self.arrived.is_empty() {
            if self.held_until.is_some_and(|until| until <= now) {
                self.release(out);
            }
            return;
        }
        let stream = Arc::clone(self.subscription.stream());
        let (tracks, accounted) = (stream.tracks(), stream.accounted_track());
        if !Arc::ptr_eq(&tracks, &self.tracks) {
            self.tracks = tracks;
            self.is_changed = true;
        }
        let tracks = Arc::clone(&self.tracks);
        let is_audio = |burst: &MediaUnit| {
            tracks
                .get(burst.track)
                .is_some_and(|track| track.kind() == Kind::Audio)
        };
        let mut arrived = std::mem::take(&mut self.arrived);
        for burst in arrived.drain(..) {
            if burst.track == accounted {
                let delay = now.saturating_duration_since(burst.stamps.published);
                let mut stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
                stages.record(Stage::Hub, delay, now);
            }
            if is_audio(&burst) {
                if self.held_until.is_none() {
                    self.held_until = self.frames.wait_for(now);
                }
                self.held.push(burst);
            } else {
                self.frames.note(&burst);
                out.push(burst);
                self.release(out);
            }
        }
        self.arrived = arrived;
        if self.held_until.is_none_or(|until| until <= now) {
            self.release(out);
        }
    }

    fn release(&mut self, out: &mut Vec<Arc<MediaUnit>>) {
        out.append(&mut self.held);
        self.held_until = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use glassline_hub::{Hub, StreamName};
    use glassline_media::{Codec, Stamps, UnitBuilder, VideoParameters};

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn audio_waits_for_a_frame_that_is_due_and_for_no_other() {
        let start = Instant::now();
        let ms = |ms: u64| start + Duration::from_millis(ms);
        let name = StreamName::parse("cam").expect("a good name");
        let stream = Hub::default().create(name).expect("room");
        let tracks = vec![
            Track::h264(VideoParameters::default()),
            Track::audio(Codec::Opus, 2),
        ];
        let mut publisher = stream.publish(tracks, start).expect("free");
        let stages = Arc::new(Mutex::new(StageTable::new(Duration::from_secs(10))));
        let mut feed = StreamSubscription::new(&stream, Arc::new(Bell::default()), stages);
        let mut publish = |track: usize, at: u64| {
            let mut builder = UnitBuilder::default();
            builder.push(b"media");
            let time = MediaTime::from_nanos(i64::try_from(at).expect("small") * 1_000_000);
            let burst = builder.build(track, time, true, Stamps::arrived(ms(at)));
            publisher
                .push(burst.expect("a packet"), ms(at))
                .expect("a track");
        };
        let read = |feed: &mut StreamSubscription, at: u64| {
            let mut out = Vec::new();
            feed.read(&mut out, ms(at));
            out.iter().map(|burst| burst.track).collect::<Vec<_>>()
        };
        for frame in 0..3 {
            publish(0, frame * 40);
            assert_eq!(read(&mut feed, frame * 40), [0]);
        }
        // The next frame is due at 120.
        publish(1, 100);
        assert_eq!(read(&mut feed, 100), [1], "too early to wait");
        publish(1, 117);
        assert_eq!(read(&mut feed, 117), [0; 0]);
        assert_eq!(feed.deadline(), Some(ms(121)));
        publish(0, 120);
        assert_eq!(read(&mut feed, 120), [0, 1], "it rides behind the frame");
        assert_eq!(feed.deadline(), None);
        // A frame that does not come costs four milliseconds, and keeps the order.
        publish(1, 157);
        assert_eq!(read(&mut feed, 157), [0; 0]);
        publish(1, 158);
        assert_eq!(read(&mut feed, 158), [0; 0]);
        assert_eq!(read(&mut feed, 160), [0; 0]);
        assert_eq!(read(&mut feed, 161), [1, 1]);
        publish(1, 170);
        assert_eq!(
            read(&mut feed, 170),
            [1],
            "the frame is overdue: no use to wait"
        );
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
            let stages = Arc::new(Mutex::new(StageTable::new(Duration::from_secs(10))));
            StreamSubscription::new(&stream, Arc::clone(&bell) as _, stages)
        };
        for _ in 0..1000 {
            drop(feed());
        }
        let _feed = feed();
        let mut builder = UnitBuilder::default();
        builder.push(b"sound");
        let burst = builder.build(0, MediaTime::ZERO, true, Stamps::arrived(now));
        let burst = burst.expect("has a packet");
        publisher.push(burst, now).expect("track 0");
        assert_eq!(bell.0.load(Ordering::Relaxed), 1, "one feed, one ring");
    }
}
