//! Layers as streams of their own, for receivers that know one encoding of a track: `?layer=`.
//!
//! ```text
//! stream ─ layer that is named ─┐
//!        ─ base layer, while ───┼► Relay: one sequence of frames ─► a stream beside it ─► receivers
//!          the layer fails      │
//!        ─ audio ───────────────┘
//! ```
//!
//! Frames are not copied, and all receivers of a layer share one such stream, which lives while somebody
//! reads it. The hub does not list it.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use glassline_hub::{
    LayerWish, Limits, NoSuchLayer, Publisher, SourceNote, State, Stream, Subscription,
    TrackLayout, ViewerToken, Wake,
};
use glassline_media::{
    Codec, LayerAbsence, LayerIndex, MediaUnit, Track, TrackIndex, TrackLayer, VideoParameters,
};
use glassline_runtime::TaskWaker;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::on_demand::OnDemand;
use super::simulcast::{Ranking, Simulcast};

/// Time without receivers after which a layer's stream ends. The first one comes within milliseconds.
const IDLE: Duration = Duration::from_secs(10);

/// Places of the layer that is named and of the base layer among those that a relay follows.
const NAMED: usize = 0;
const BASE: usize = 1;

/// The streams of single layers, each made for its first receiver.
#[derive(Debug)]
pub struct LayerStreams {
    runtime: Handle,
    made: Mutex<Vec<Made>>,
}

/// A stream of one layer of another stream.
#[derive(Debug)]
struct Made {
    of: Weak<Stream>,
    layer: TrackLayer,
    layout: TrackLayout,
    stream: Weak<Stream>,
}

impl LayerStreams {
    /// Creates the table. Streams are served by tasks of `runtime`.
    pub fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            made: Mutex::default(),
        }
    }

    /// Returns the stream of the layer of `stream` that `wish` names: `stream` itself if that is its best
    /// encoding, or its only one. Its tracks are known at once.
    ///
    /// # Errors
    /// Returns [`NoSuchLayer`] if the stream has none that is meant.
    pub fn of(&self, stream: &Arc<Stream>, wish: &LayerWish) -> Result<Arc<Stream>, NoSuchLayer> {
        let (layer, layout) = (stream.named_layer(wish)?, stream.layout());
        if layer.layer == LayerIndex::BASE {
            return Ok(Arc::clone(stream));
        }
        let mut made = self.made.lock();
        made.retain(|it| it.stream.strong_count() > 0);
        let is_same = |it: &&Made| {
            std::ptr::eq(it.of.as_ptr(), Arc::as_ptr(stream))
                && (it.layer, it.layout) == (layer, layout)
        };
        let known = made.iter().find(is_same);
        if let Some(known) = known.and_then(|it| it.stream.upgrade()) {
            return Ok(known);
        }
        let Some(relay) = Relay::begin(stream, layer, Instant::now()) else {
            // The source has just ended.
            return Ok(Arc::clone(stream));
        };
        let of_layer = Arc::clone(relay.publisher.stream());
        made.push(Made {
            of: Arc::downgrade(stream),
            layer,
            layout,
            stream: Arc::downgrade(&of_layer),
        });
        drop(made);
        self.runtime.spawn(relay.run());
        Ok(of_layer)
    }
}

/// Publishes one layer as a stream.
struct Relay {
    of: Arc<Stream>,
    layer: TrackLayer,
    layout: TrackLayout,
    subscription: Subscription,
    woken: Arc<TaskWaker>,
    publisher: Publisher,
    frames: Simulcast,
    tracks: Arc<[Track]>,
    /// Whether the base layer is read, because the layer fails.
    falls_back: bool,
    /// Number of the next unit of the layer; those before were read from its ring.
    next: u64,
    /// Counts the receivers among the viewers of the stream.
    viewers: Vec<ViewerToken>,
}

impl Relay {
    /// Returns the relay of a layer of `of`; `None` if the stream has no such layer any more.
    fn begin(of: &Arc<Stream>, layer: TrackLayer, now: Instant) -> Option<Self> {
        let (layout, tracks) = (of.layout(), of.tracks());
        let described = describe(&tracks, layer)?;
        let stream = Stream::unlisted(of.name().clone(), Limits::default());
        let woken = Arc::new(TaskWaker::default());
        let wake = Arc::clone(&woken) as Arc<dyn Wake>;
        stream.watch(&wake);
        let mut subscription = of.subscribe(wake);
        subscription.read(&layers(&tracks, layer, false));
        let codec = described.first().map_or(Codec::H264, |it| it.codec);
        let note = of.source_note();
        let note = note.map_or_else(SourceNote::default, |it| (*it).clone());
        let publisher = stream.publish_as(note, described, now).ok()?;
        let mut relay = Self {
            of: Arc::clone(of),
            layer,
            layout,
            subscription,
            woken,
            publisher,
            frames: Simulcast::new(2, codec, Ranking::Order, now),
            tracks,
            falls_back: false,
            next: 0,
            viewers: Vec::new(),
        };
        for unit in of.since_keyframe(layer) {
            relay.take(&unit, now);
        }
        Some(relay)
    }

    /// Publishes until nobody reads the stream any more, or the layer cannot be had.
    async fn run(mut self) {
        let stream = Arc::clone(self.publisher.stream());
        let on_demand = OnDemand::new(&stream, Some(IDLE));
        let mut unread = std::pin::pin!(on_demand.unneeded());
        let woken = Arc::clone(&self.woken);
        let state = loop {
            tokio::select! {
                () = woken.woken() => if let Err(ended) = self.turn(Instant::now()) {
                    break ended;
                },
                () = &mut unread => break State::Idle,
            }
        };
        self.publisher.finish(state);
    }

    /// Publishes what has come. Returns the state of a stream that has ended.
    fn turn(&mut self, now: Instant) -> Result<(), State> {
        let ended = |detail: &str| State::Ended {
            detail: detail.to_owned(),
        };
        let mut units = Vec::new();
        self.subscription.poll(&mut units);
        if self.of.is_deleted() || self.subscription.layout() != self.layout {
            return Err(ended("the stream has other tracks now"));
        }
        let tracks = self.of.tracks();
        if !Arc::ptr_eq(&tracks, &self.tracks) {
            self.tracks = tracks;
            self.follow().map_err(|detail| ended(&detail))?;
        }
        for unit in units {
            self.take(&unit, now);
        }
        if self.publisher.keyframe_wanted() {
            self.of.request_keyframe_of(self.layer);
        }
        let viewers = self.publisher.stream().viewers();
        self.viewers.truncate(viewers);
        while self.viewers.len() < viewers {
            self.viewers.push(self.of.add_viewer());
        }
        Ok(())
    }

    /// Looks whether the layer comes. Returns why the stream ends.
    fn follow(&mut self) -> Result<(), String> {
        let Some(video) = self.tracks.get(self.layer.track.get()) else {
            return Err("the stream has other tracks now".to_owned());
        };
        let place = usize::from(self.layer.layer.0).saturating_sub(1);
        let described = video.layers.get(place);
        let failure = described.and_then(|it| match &it.absence {
            Some(LayerAbsence::Failed(why)) => Some((it, why)),
            _ => None,
        });
        if let Some((layer, why)) = failure
            && layer.other_codec.is_some()
        {
            return Err(format!("the layer {} does not come: {why}", layer.rid));
        }
        if failure.is_some() != self.falls_back {
            self.falls_back = failure.is_some();
            let read = layers(&self.tracks, self.layer, self.falls_back);
            self.subscription.read(&read);
            if self.falls_back {
                self.frames.end(NAMED);
                self.of.request_keyframe();
            }
        }
        Ok(())
    }

    /// Publishes a unit, if it is one of the present frames.
    fn take(&mut self, unit: &MediaUnit, now: Instant) {
        if unit.track != self.layer.track {
            self.push(unit.clone(), now);
            return;
        }
        let place = match unit.layer == self.layer.layer {
            true if unit.index < self.next => return,
            true => {
                self.next = unit.index + 1;
                NAMED
            }
            false => BASE,
        };
        self.frames.admits(place, unit, now);
        let published = self.frames.base(place, unit);
        self.frames.choose(now);
        if let Some(unit) = published {
            self.push(unit, now);
        }
    }

    fn push(&mut self, mut unit: MediaUnit, now: Instant) {
        unit.layer = LayerIndex::BASE;
        // Nobody can take the stream over, and its tracks stay.
        let _ = self.publisher.push(unit, now);
    }
}

/// Returns the tracks of the stream of a layer.
fn describe(tracks: &[Track], layer: TrackLayer) -> Option<Vec<Track>> {
    let video = tracks.get(layer.track.get())?;
    let place = usize::from(layer.layer.0).checked_sub(1)?;
    let encoding = video.layers.get(place)?;
    let (width, height) = encoding.size.unwrap_or_default();
    let of_layer = match &encoding.other_codec {
        Some(other) => (**other).clone(),
        // The parameter sets of the track may be those of another layer.
        None => Track {
            video: VideoParameters {
                width: width.into(),
                height: height.into(),
                reordered: video.video.reordered && !encoding.is_made_here,
                ..VideoParameters::default()
            },
            format_parameters: String::new(),
            ..video.clone().with_layers(Vec::new())
        },
    };
    let mut all = tracks.to_vec();
    all[layer.track.get()] = of_layer;
    Some(all)
}

/// Returns the layers that are read: the named one, and perhaps the base layer, and all other tracks.
fn layers(tracks: &[Track], layer: TrackLayer, falls_back: bool) -> Vec<TrackLayer> {
    let bases = TrackIndex::first(tracks.len()).map(TrackLayer::from);
    let others = bases.filter(|it| it.track != layer.track || falls_back);
    std::iter::once(layer).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use glassline_hub::StreamName;
    use glassline_media::{Layer, MediaTime, Stamps, UnitBuilder};

    use super::*;

    struct NoWake;

    impl Wake for NoWake {
        fn wake(&self) {}
    }

    const SUB: TrackLayer = TrackLayer {
        track: TrackIndex(0),
        layer: LayerIndex(2),
    };

    /// A stream with a main and a small layer, and audio.
    struct Camera {
        start: Instant,
        stream: Arc<Stream>,
        publisher: Publisher,
        tracks: Vec<Track>,
    }

    impl Camera {
        fn new() -> Self {
            let (start, name) = (Instant::now(), StreamName::parse("cam").expect("a name"));
            let stream = Stream::unlisted(name, Limits::default());
            let layer = |rid: &str, size| Layer {
                rid: rid.to_owned(),
                size: Some(size),
                ..Layer::default()
            };
            let layers = vec![layer("main", (64, 64)), layer("sub", (32, 32))];
            let video = Track::new(Codec::Vp8).with_layers(layers);
            let tracks = vec![video, Track::audio(Codec::Opus, 2)];
            let publisher = stream.publish(tracks.clone(), start).expect("free");
            Self {
                start,
                stream,
                publisher,
                tracks,
            }
        }

        fn push(&mut self, track: usize, layer: u8, ms: u64, keyframe: bool) {
            let mut builder = UnitBuilder::default();
            builder.push(&[0x10, 0, 0, layer]);
            let (time, now) = (ms.cast_signed() * 1_000_000, self.at(ms));
            let time = MediaTime::from_nanos(time);
            let unit = builder.build(TrackIndex(track), time, keyframe, Stamps::arrived(now));
            let mut unit = unit.expect("a packet");
            unit.layer = LayerIndex(layer);
            self.publisher.push(unit, now).expect("announced");
        }

        fn at(&self, ms: u64) -> Instant {
            self.start + Duration::from_millis(ms)
        }

        fn set_absence(&mut self, absence: Option<LayerAbsence>) {
            self.tracks[0].layers[1].absence = absence;
            self.publisher
                .describe(&self.tracks)
                .expect("the same tracks");
        }
    }

    /// Returns the track of each unit, and for video the layer that it came from.
    fn read(reader: &mut Subscription) -> Vec<(usize, u8)> {
        let mut units = Vec::new();
        reader.poll(&mut units);
        let of = |it: &Arc<MediaUnit>| (it.track.get(), it.payload(0).expect("a packet")[3]);
        units.iter().map(of).collect()
    }

    #[test]
    fn a_layer_is_a_stream_with_audio_that_begins_at_its_keyframe() {
        let mut camera = Camera::new();
        camera.push(0, 2, 0, true);
        camera.push(0, 2, 40, false);
        let mut relay = Relay::begin(&camera.stream, SUB, camera.at(50)).expect("a layer");
        let stream = Arc::clone(relay.publisher.stream());
        let video = &stream.tracks()[0];
        assert_eq!((video.video.width, video.layers.len()), (32, 0));
        assert_eq!(stream.since_keyframe(TrackIndex(0)).len(), 2);
        let mut reader = stream.subscribe(Arc::new(NoWake));
        camera.push(0, 1, 80, true);
        camera.push(0, 0, 80, true);
        camera.push(0, 2, 80, false);
        camera.push(1, 0, 80, true);
        relay.turn(camera.at(80)).expect("it goes on");
        assert_eq!(read(&mut reader), [(0, 2), (1, 0)]);
        stream.request_keyframe();
        relay.turn(camera.at(90)).expect("it goes on");
        let wanted = camera.publisher.wanted_keyframes();
        assert!(wanted.has(SUB.layer) && !wanted.has(LayerIndex::BASE));
        let viewer = stream.add_viewer();
        relay.turn(camera.at(100)).expect("it goes on");
        assert_eq!(camera.stream.viewers(), 1);
        drop(viewer);
        relay.turn(camera.at(100)).expect("it goes on");
        assert_eq!(camera.stream.viewers(), 0);
    }

    #[test]
    fn a_layer_that_fails_is_replaced_by_the_base_layer_until_it_comes_back() {
        let mut camera = Camera::new();
        camera.push(0, 2, 0, true);
        let mut relay = Relay::begin(&camera.stream, SUB, camera.at(10)).expect("a layer");
        let mut reader = relay.publisher.stream().subscribe(Arc::new(NoWake));
        assert!(!camera.stream.layers_read(SUB.track).has(LayerIndex::BASE));
        camera.set_absence(Some(LayerAbsence::Failed("no answer".to_owned())));
        relay.turn(camera.at(20)).expect("it goes on");
        assert!(camera.stream.layers_read(SUB.track).has(LayerIndex::BASE));
        for ms in (600..900).step_by(40) {
            camera.push(0, 0, ms, ms == 840);
            relay.turn(camera.at(ms)).expect("it goes on");
        }
        assert_eq!(read(&mut reader), [(0, 0), (0, 0)], "from its keyframe on");
        camera.set_absence(None);
        camera.push(0, 2, 920, true);
        camera.push(0, 0, 920, false);
        relay.turn(camera.at(920)).expect("it goes on");
        assert_eq!(read(&mut reader), [(0, 2)], "it is back");
        camera.tracks[0].layers[1].other_codec = Some(Box::new(Track::new(Codec::H264)));
        camera.set_absence(Some(LayerAbsence::Failed("no answer".to_owned())));
        let ended = relay
            .turn(camera.at(960))
            .expect_err("nothing stands for it");
        assert_eq!(
            ended.detail(),
            Some("the layer sub does not come: no answer")
        );
    }

    #[tokio::test]
    async fn receivers_of_one_layer_share_a_stream_and_the_best_one_is_the_stream_itself() {
        let camera = Camera::new();
        let streams = LayerStreams::new(Handle::current());
        let of = |wish: &str| streams.of(&camera.stream, &wish.parse().expect("a layer"));
        let low = of("low").expect("there");
        assert!(Arc::ptr_eq(&low, &of("sub").expect("there")));
        assert!(!Arc::ptr_eq(&low, &of("main").expect("there")));
        assert!(Arc::ptr_eq(&camera.stream, &of("high").expect("there")));
        assert!(of("sub3").is_err());
    }
}
