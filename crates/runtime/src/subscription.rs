//! The subscription of a polling thread to one stream: the stream is read once for all receivers of
//! the thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Stream, Subscription, TrackLayout, Wake};
use glassline_media::{Kind, MediaTime, MediaUnit, Stage, StageTable, Track, TrackLayer};
use parking_lot::Mutex;

use super::slots::Key;

/// Longest interval between two video frames that is expected to repeat; audio does not wait for a
/// frame that comes later than this.
const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// Longest time that audio is held back for a video frame unless [`StreamSubscription::hold_audio`]
/// says otherwise, so that both leave in one system call. The shard's timers have a resolution of 1
/// ms, so the real wait is at most 5 ms.
const RIDE_WAIT_MAX: Duration = Duration::from_millis(4);

/// Lateness of a video frame against its expected time at which audio still waits for it.
const FRAME_LATE_MAX: Duration = Duration::from_millis(1);

/// A stream's subscription on one polling thread, with the receivers it is read for.
#[derive(Debug)]
pub struct StreamSubscription {
    subscription: Subscription,
    /// Receivers of the thread for which the stream is read.
    pub viewers: Vec<Key>,
    /// Histograms of stage delays on this thread. HTTP reads them while the thread writes; both
    /// hold the lock briefly.
    pub stages: Arc<Mutex<StageTable>>,
    /// Layers that were named to be read; none for the base layer of every track.
    layers: Vec<TrackLayer>,
    /// Number of the stream's preference of layers at the last read.
    preference: u64,
    /// Whether the preference changed since [`Self::take_preference`] was called last.
    is_preference_new: bool,
    /// When layers that nobody gets any more are looked for; `None` while no viewer moves.
    pub trim_at: Option<Instant>,
    frames: Frames,
    /// Longest time that audio is held back for a video frame.
    ride_wait_max: Duration,
    /// The stream's tracks at the last read.
    tracks: Arc<[Track]>,
    /// Layout of the units of the last read.
    layout: TrackLayout,
    /// Whether the stream's tracks changed since [`Self::take_changed`] was called last.
    is_changed: bool,
    /// Audio that is held back for the video frame that is due.
    held: Vec<Arc<MediaUnit>>,
    /// Time at which the held audio must be released; `None` while nothing is held.
    held_until: Option<Instant>,
    /// Buffer of [`Self::read`]. It is empty between calls and kept for its capacity.
    arrived: Vec<Arc<MediaUnit>>,
}

/// Time after which the frames of another layer have the rhythm, if more than one is read.
const RHYTHM_ENDS: Duration = Duration::from_secs(1);

/// The rhythm of the stream's video frames: when the last one came and when the next one is
/// expected.
#[derive(Clone, Copy, Debug, Default)]
struct Frames {
    last: Option<(MediaTime, Instant)>,
    next: Option<Instant>,
    /// Layer whose frames these are.
    layer: Option<TrackLayer>,
}

impl Frames {
    fn note(&mut self, unit: &MediaUnit) {
        let (time, at) = (unit.time, unit.stamps.published);
        if self.layer != Some(unit.track_layer()) {
            // Frames of several layers come together. One layer has the rhythm while it goes on.
            let goes_on = |(_, before)| at.saturating_duration_since(before) < RHYTHM_ENDS;
            if self.last.is_some_and(goes_on) {
                return;
            }
            *self = Self {
                layer: Some(unit.track_layer()),
                ..Self::default()
            };
        }
        if let Some((before, _)) = self.last.filter(|(before, _)| *before != time) {
            let interval = u64::try_from(time.nanos() - before.nanos()).unwrap_or(0);
            self.next = Some(at + Duration::from_nanos(interval).min(INTERVAL_MAX));
        }
        self.last = Some((time, at));
    }

    /// Returns the time until which audio that arrived at `now` should wait, or `None` if no video
    /// frame is due within the time `longest`.
    fn wait_for(&self, now: Instant, longest: Duration) -> Option<Instant> {
        let next = self.next?;
        let soon = next <= now + longest && now < next + FRAME_LATE_MAX;
        soon.then(|| (next + FRAME_LATE_MAX).min(now + longest))
    }
}

/// The thread's waker as one subscription holds it. A stream forgets a subscriber when the last
/// handle on its waker is dropped. The thread holds its own waker while it runs, so each
/// subscription needs a separate handle.
struct ThreadWake(Arc<dyn Wake>);

impl Wake for ThreadWake {
    fn wake(&self) {
        self.0.wake();
    }
}

impl StreamSubscription {
    /// Subscribes a thread, which `wake` wakes, to `stream`; delays go into `stages`.
    pub fn new(stream: &Arc<Stream>, wake: Arc<dyn Wake>, stages: Arc<Mutex<StageTable>>) -> Self {
        let subscription = stream.subscribe(Arc::new(ThreadWake(wake)));
        let stream_preference = subscription.preference();
        Self {
            layout: subscription.layout(),
            subscription,
            viewers: Vec::new(),
            stages,
            layers: Vec::new(),
            preference: stream_preference,
            is_preference_new: false,
            trim_at: None,
            frames: Frames::default(),
            ride_wait_max: RIDE_WAIT_MAX,
            tracks: stream.tracks(),
            is_changed: false,
            held: Vec::new(),
            held_until: None,
            arrived: Vec::new(),
        }
    }

    /// Returns the stream that is read.
    pub fn stream(&self) -> &Arc<Stream> {
        self.subscription.stream()
    }

    /// Holds audio back for a video frame for this long at most, beside the resolution of the
    /// thread's timers, instead of 4 ms.
    pub fn hold_audio(&mut self, longest: Duration) {
        self.ride_wait_max = longest;
    }

    /// Reads these layers, too. As long as none were named, the base layer of every track is read.
    pub fn add(&mut self, layers: impl IntoIterator<Item = TrackLayer>) {
        let before = self.layers.len();
        for layer in layers {
            if !self.layers.contains(&layer) {
                self.layers.push(layer);
            }
        }
        if self.layers.len() > before {
            self.subscription.read(&self.layers);
        }
    }

    /// Reads these layers and no others, if that is another set.
    pub fn read_only(&mut self, layers: Vec<TrackLayer>) {
        let is_read = |layer: &TrackLayer| self.layers.contains(layer);
        if layers.len() != self.layers.len() || !layers.iter().all(is_read) {
            self.layers = layers;
            self.subscription.read(&self.layers);
        }
    }

    /// Returns whether several layers of a track are read.
    pub fn reads_several(&self) -> bool {
        let mut layers = self.layers.iter().enumerate();
        layers.any(|(place, one)| self.layers[..place].iter().any(|it| it.track == one.track))
    }

    /// Returns whether the stream's preference of layers changed since the last call.
    pub fn take_preference(&mut self) -> bool {
        std::mem::take(&mut self.is_preference_new)
    }

    /// Returns the stream's tracks if they changed since the last call.
    pub fn take_changed(&mut self) -> Option<Arc<[Track]>> {
        let changed = std::mem::take(&mut self.is_changed);
        changed.then(|| Arc::clone(&self.tracks))
    }

    /// Returns the track layout of the units that were read last. Receivers of another layout must
    /// not be offered these units.
    pub fn layout(&self) -> TrackLayout {
        self.layout
    }

    /// Returns the time at which held audio must be released even if no video frame came.
    pub fn deadline(&self) -> Option<Instant> {
        self.held_until
    }

    /// Lets another receiver be the first from now on, so that it is not always the same ones that wait
    /// for a large frame.
    ///
    /// The step is a little more than half of the receivers. Those whose previous frame came last, and
    /// who expect the large frame last, then come first.
    pub fn let_others_begin(&mut self) {
        let step = self.viewers.len() * 4 / 7;
        self.viewers.rotate_left(step);
    }

    /// Appends the units to send now to `out` and records the hub stage's delay, once a unit.
    ///
    /// A packet of audio that arrives just before a video frame is held back for that frame: sent
    /// alone, it costs a viewer more than four packets of the frame.
    pub fn read(&mut self, out: &mut Vec<Arc<MediaUnit>>, now: Instant) {
        self.subscription.poll(&mut self.arrived);
        if self.layout != self.subscription.layout() {
            self.begin_layout();
        }
        if self.preference != self.subscription.preference() {
            self.preference = self.subscription.preference();
            self.is_preference_new = true;
        }
        if self.arrived.is_empty() {
            if self.held_until.is_some_and(|until| until <= now) {
                self.release(out);
            }
            return;
        }
        let stream = Arc::clone(self.subscription.stream());
        let (tracks, accounted) = (stream.tracks(), stream.latency_track());
        if !Arc::ptr_eq(&tracks, &self.tracks) {
            self.tracks = tracks;
            self.is_changed = true;
        }
        let tracks = Arc::clone(&self.tracks);
        let is_audio = |unit: &MediaUnit| {
            tracks
                .get(unit.track.get())
                .is_some_and(|track| track.kind() == Kind::Audio)
        };
        let mut arrived = std::mem::take(&mut self.arrived);
        for unit in arrived.drain(..) {
            if unit.track == accounted {
                let delay = now.saturating_duration_since(unit.stamps.published);
                let mut stages = self.stages.lock();
                stages.record(Stage::Hub, delay, now);
            }
            if is_audio(&unit) {
                if self.held_until.is_none() {
                    self.held_until = self.frames.wait_for(now, self.ride_wait_max);
                }
                self.held.push(unit);
            } else {
                self.frames.note(&unit);
                out.push(unit);
                self.release(out);
            }
        }
        self.arrived = arrived;
        if self.held_until.is_none_or(|until| until <= now) {
            self.release(out);
        }
    }

    /// Forgets everything of the layout before. Called once for each new layout, with or without
    /// units.
    fn begin_layout(&mut self) {
        self.layout = self.subscription.layout();
        self.held.clear();
        self.held_until = None;
        self.frames = Frames::default();
        self.tracks = self.subscription.stream().tracks();
        self.is_changed = true;
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

    use glassline_hub::{Hub, Publisher, StreamName};
    use glassline_media::{
        Codec, Layer, LayerIndex, Stamps, TrackIndex, UnitBuilder, VideoParameters,
    };

    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl Wake for WakeCounter {
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
        let mut subscription =
            StreamSubscription::new(&stream, Arc::new(WakeCounter::default()), stages);
        let mut publish = |track: usize, at: u64| {
            let mut builder = UnitBuilder::default();
            builder.push(b"media");
            let time = MediaTime::from_nanos(i64::try_from(at).expect("small") * 1_000_000);
            let unit = builder.build(TrackIndex(track), time, true, Stamps::arrived(ms(at)));
            publisher
                .push(unit.expect("a packet"), ms(at))
                .expect("a track");
        };
        let read = |subscription: &mut StreamSubscription, at: u64| {
            let mut out = Vec::new();
            subscription.read(&mut out, ms(at));
            out.iter().map(|unit| unit.track.get()).collect::<Vec<_>>()
        };
        for frame in 0..3 {
            publish(0, frame * 40);
            assert_eq!(read(&mut subscription, frame * 40), [0]);
        }
        // The next frame is due at 120.
        publish(1, 100);
        assert_eq!(read(&mut subscription, 100), [1], "too early to wait");
        publish(1, 117);
        assert_eq!(read(&mut subscription, 117), [0; 0]);
        assert_eq!(subscription.deadline(), Some(ms(121)));
        publish(0, 120);
        assert_eq!(
            read(&mut subscription, 120),
            [0, 1],
            "it rides behind the frame"
        );
        assert_eq!(subscription.deadline(), None);
        // If the expected frame does not come, audio waits 4 ms at most, and the order is kept.
        publish(1, 157);
        assert_eq!(read(&mut subscription, 157), [0; 0]);
        publish(1, 158);
        assert_eq!(read(&mut subscription, 158), [0; 0]);
        assert_eq!(read(&mut subscription, 160), [0; 0]);
        assert_eq!(read(&mut subscription, 161), [1, 1]);
        publish(1, 170);
        assert_eq!(
            read(&mut subscription, 170),
            [1],
            "the frame is overdue: no use to wait"
        );
    }

    #[test]
    fn a_new_layout_is_told_at_once_and_drops_held_audio() {
        let start = Instant::now();
        let ms = |ms: u64| start + Duration::from_millis(ms);
        let name = StreamName::parse("cam").expect("a good name");
        let stream = Hub::default().create(name).expect("room");
        let tracks = |codec| vec![Track::new(codec), Track::audio(Codec::Opus, 2)];
        let mut publisher = stream.publish(tracks(Codec::H264), start).expect("free");
        let stages = Arc::new(Mutex::new(StageTable::new(Duration::from_secs(10))));
        let mut subscription =
            StreamSubscription::new(&stream, Arc::new(WakeCounter::default()), stages);
        let unit = |track: usize, at: u64| {
            let mut builder = UnitBuilder::default();
            builder.push(b"media");
            let time = MediaTime::from_nanos(i64::try_from(at).expect("small") * 1_000_000);
            let unit = builder.build(TrackIndex(track), time, true, Stamps::arrived(ms(at)));
            unit.expect("a packet")
        };
        let mut out = Vec::new();
        for (track, at) in [(0, 0), (0, 40), (1, 77)] {
            let pushed = publisher.push(unit(track, at), ms(at));
            pushed.expect("a track");
            subscription.read(&mut out, ms(at));
        }
        assert_eq!(out.len(), 2);
        assert!(subscription.deadline().is_some(), "audio is held");
        assert!(subscription.take_changed().is_none());
        let before = subscription.layout();
        drop(publisher);
        let mut next = stream.publish(tracks(Codec::Vp8), ms(78)).expect("free");
        out.clear();
        subscription.read(&mut out, ms(78));
        assert!(out.is_empty() && subscription.deadline().is_none());
        assert!(subscription.layout() > before);
        let changed = subscription.take_changed().expect("other tracks");
        assert_eq!(changed[0].codec, Codec::Vp8);
        next.push(unit(0, 80), ms(80)).expect("a track");
        subscription.read(&mut out, ms(80));
        assert_eq!(out.len(), 1);
        assert!(subscription.take_changed().is_none(), "told once");
    }

    #[test]
    fn viewers_of_different_layers_of_a_track_are_read_for_together() {
        let now = Instant::now();
        let name = StreamName::parse("cam").expect("a good name");
        let stream = Hub::default().create(name).expect("room");
        let video = Track::new(Codec::Vp8).with_layers(vec![Layer::default(); 2]);
        let tracks = vec![video, Track::audio(Codec::Opus, 2)];
        let mut publisher = stream.publish(tracks, now).expect("free");
        let stages = Arc::new(Mutex::new(StageTable::new(Duration::from_secs(10))));
        let wakes = Arc::new(WakeCounter::default());
        let mut subscription = StreamSubscription::new(&stream, Arc::clone(&wakes) as _, stages);
        let of = |track, layer| TrackLayer {
            track: TrackIndex(track),
            layer: LayerIndex(layer),
        };
        let read = |publisher: &mut Publisher, subscription: &mut StreamSubscription| {
            for layer in [of(0, 0), of(0, 1), of(0, 2), of(1, 0)] {
                let mut builder = UnitBuilder::default();
                builder.push(b"media");
                let stamps = Stamps::arrived(now);
                let unit = builder.build(layer.track, MediaTime::ZERO, true, stamps);
                let mut unit = unit.expect("a packet");
                unit.layer = layer.layer;
                publisher.push(unit, now).expect("a track");
            }
            let mut out = Vec::new();
            subscription.read(&mut out, now);
            let mut layers: Vec<_> = out.iter().map(|unit| unit.track_layer()).collect();
            layers.sort();
            (layers, wakes.0.swap(0, Ordering::Relaxed))
        };
        assert_eq!(
            read(&mut publisher, &mut subscription),
            (vec![of(0, 0), of(1, 0)], 2)
        );
        subscription.add([of(0, 2), of(1, 0)]);
        assert_eq!(
            read(&mut publisher, &mut subscription),
            (vec![of(0, 2), of(1, 0)], 2)
        );
        assert!(!subscription.reads_several());
        subscription.add([of(0, 1), of(1, 0)]);
        let all = vec![of(0, 1), of(0, 2), of(1, 0)];
        assert_eq!(read(&mut publisher, &mut subscription), (all, 3));
        assert!(subscription.reads_several());
        subscription.read_only(vec![of(0, 1)]);
        assert_eq!(read(&mut publisher, &mut subscription), (vec![of(0, 1)], 1));
        assert!(!subscription.take_preference());
        publisher.prefer(of(0, 2));
        assert_eq!(
            read(&mut publisher, &mut subscription).1,
            2,
            "everybody is woken"
        );
        assert!(subscription.take_preference() && !subscription.take_preference());
    }

    #[test]
    fn subscriptions_that_came_and_went_leave_nothing_with_the_stream() {
        let name = StreamName::parse("cam").expect("a good name");
        let stream = Hub::default().create(name).expect("room");
        let now = Instant::now();
        let tracks = vec![Track::audio(Codec::Opus, 2)];
        let mut publisher = stream.publish(tracks, now).expect("free");
        let wakes = Arc::new(WakeCounter::default());
        let subscription = || {
            let stages = Arc::new(Mutex::new(StageTable::new(Duration::from_secs(10))));
            StreamSubscription::new(&stream, Arc::clone(&wakes) as _, stages)
        };
        for _ in 0..1000 {
            drop(subscription());
        }
        let _kept = subscription();
        let mut builder = UnitBuilder::default();
        builder.push(b"sound");
        let unit = builder.build(TrackIndex(0), MediaTime::ZERO, true, Stamps::arrived(now));
        let unit = unit.expect("has a packet");
        publisher.push(unit, now).expect("track 0");
        assert_eq!(
            wakes.0.load(Ordering::Relaxed),
            1,
            "one subscription, one wake-up"
        );
    }
}
