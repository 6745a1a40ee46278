use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use glassline_media::{Codec, Track, TrackLayer};

use super::*;

const VIDEO: TrackIndex = TrackIndex(0);
const AUDIO: TrackIndex = TrackIndex(1);

/// A publisher of a broadcast, whose frames have times in ms since the start.
struct Scene {
    hub: Arc<Hub>,
    name: StreamName,
    received_bytes: Counter,
    requests: AtomicU64,
    start: Instant,
}

impl Scene {
    fn new() -> Self {
        Self {
            hub: Arc::default(),
            name: StreamName::parse("cam").expect("a good name"),
            received_bytes: Counter::default(),
            requests: AtomicU64::new(0),
            start: Instant::now(),
        }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    /// Lets `test` receive tracks of these codecs.
    fn receive<R>(&self, codecs: &[Codec], test: impl FnOnce(BroadcastReceiver<'_>) -> R) -> R {
        let request_keyframe = || {
            self.requests.fetch_add(1, Ordering::Relaxed);
        };
        test(self.receiver(codecs, &request_keyframe))
    }

    fn receiver<'a>(
        &'a self,
        codecs: &[Codec],
        request_keyframe: &'a (dyn Fn() + Sync),
    ) -> BroadcastReceiver<'a> {
        let destination = Destination::Name {
            hub: Arc::clone(&self.hub),
            name: self.name.clone(),
            claim: None,
        };
        let note = SourceNote {
            protocol: "moq",
            left_out: Vec::new(),
        };
        let tracks = codecs.iter().map(|it| Track::new(*it)).collect();
        BroadcastReceiver {
            received_bytes: &self.received_bytes,
            request_keyframe,
            live: LivePublisher::new(destination, note, tracks),
            wanted: Vec::new(),
            clock: None,
            began: self.start,
            last_received: self.start,
            open: codecs.len(),
        }
    }

    fn frame(&self, ms: u64, keyframe: bool) -> ReceivedFrame {
        let data: &[u8] = if keyframe {
            &[0x10, 0, 0, 0x9d, 1, 0x2a, 64, 0, 64, 0, 7]
        } else {
            &[0x11, 1, 1]
        };
        ReceivedFrame {
            time: MediaTime::from_ticks(i64::try_from(ms).expect("soon"), 1_000),
            keyframe,
            after_loss: false,
            data: Bytes::from_static(data),
            arrived: self.at(ms),
        }
    }

    /// Returns the number of keyframes that were requested since the last call.
    fn requested(&self) -> u64 {
        self.requests.swap(0, Ordering::Relaxed)
    }
}

#[test]
fn a_broadcast_is_live_from_its_first_keyframe_on_and_viewers_get_more_of_them() {
    let scene = Scene::new();
    scene.receive(&[Codec::Vp8, Codec::Opus], |mut receiver| {
        let publish = |receiver: &mut BroadcastReceiver<'_>, track, ms, keyframe| {
            let frame = scene.frame(ms, keyframe);
            receiver.publish(track, frame, scene.at(ms)).expect("free");
        };
        let tick = |receiver: &mut BroadcastReceiver<'_>, ms| {
            receiver.tick(scene.at(ms)).expect("it is heard");
            scene.requested()
        };
        assert_eq!(tick(&mut receiver, 1_000), 1);
        publish(&mut receiver, VIDEO, 1_010, false);
        publish(&mut receiver, AUDIO, 1_020, true);
        assert!(scene.hub.stream("cam").is_none());
        publish(&mut receiver, VIDEO, 1_030, true);
        let stream = scene.hub.stream("cam").expect("live");
        assert_eq!(stream.totals().units, 1);
        assert_eq!(stream.source_note().expect("told").protocol, "moq");
        assert_eq!(scene.received_bytes.get(), 3 + 2 * 11);
        assert_eq!(tick(&mut receiver, 2_000), 0);
        stream.request_keyframe();
        assert_eq!(tick(&mut receiver, 3_000), 1);
        assert_eq!(tick(&mut receiver, 4_000), 0);
        stream.request_keyframe();
        publish(&mut receiver, VIDEO, 4_010, false);
        publish(&mut receiver, AUDIO, 4_020, true);
        assert_eq!(tick(&mut receiver, 5_000), 1, "not answered");
        stream.request_keyframe();
        publish(&mut receiver, VIDEO, 5_010, true);
        assert_eq!(tick(&mut receiver, 6_000), 0, "answered");
        assert_eq!(stream.totals().units, 4);
        assert_eq!(tick(&mut receiver, 45_010), 0);
        let silent = receiver.tick(scene.at(45_011));
        assert!(matches!(silent, Err(BroadcastError::Silent)));
    });
}

#[test]
fn a_broadcast_without_a_keyframe_ends_and_audio_needs_none() {
    let scene = Scene::new();
    scene.receive(&[Codec::Vp8], |mut receiver| {
        assert!(receiver.tick(scene.at(20_000)).is_ok());
        let ended = receiver.tick(scene.at(20_001));
        assert!(matches!(ended, Err(BroadcastError::NoKeyframe)));
    });
    scene.requested();
    scene.receive(&[Codec::Opus], |mut receiver| {
        let published = receiver.publish(VIDEO, scene.frame(0, true), scene.start);
        published.expect("free");
        let stream = scene.hub.stream("cam").expect("live at once");
        stream.request_keyframe();
        assert!(receiver.tick(scene.at(1_000)).is_ok());
        assert_eq!(scene.requested(), 0);
    });
}

#[tokio::test]
async fn a_broadcast_ends_with_its_last_track_or_its_catalog_or_a_fault() {
    let ended = async |events: Vec<ReaderEvent>| {
        let scene = Scene::new();
        let (out, mut events_in) = mpsc::channel(reading::WAITING);
        let frame = ReaderEvent::Frame(VIDEO, scene.frame(0, true));
        for event in std::iter::once(frame).chain(events) {
            assert!(out.send(event).await.is_ok());
        }
        let request_keyframe = || {};
        let receiver = scene.receiver(&[Codec::Vp8, Codec::Opus], &request_keyframe);
        let end = receiver.take(&mut events_in).await;
        let stream = scene.hub.stream("cam").expect("it was live");
        let detail = stream.state().detail().map(str::to_owned);
        (
            end.is_ok(),
            detail.unwrap_or_default(),
            stream.totals().units,
        )
    };
    let scene = Scene::new();
    let next = || ReaderEvent::Frame(VIDEO, scene.frame(40, false));
    let over = || ReaderEvent::TrackOver(AUDIO);
    let told = "the publisher stopped".to_owned();
    let end = ended(vec![over(), next(), over(), next()]).await;
    assert_eq!(end, (true, told.clone(), 2));
    let end = ended(vec![ReaderEvent::CatalogOver, next()]).await;
    assert_eq!(end, (true, told, 1));
    let (is_good, detail, _) = ended(vec![ReaderEvent::Panicked]).await;
    assert!(
        !is_good && detail.starts_with("reading the broadcast"),
        "{detail}"
    );
}

#[test]
fn the_delay_of_the_uplink_is_told_where_the_clocks_agree() {
    let scene = Scene::new();
    scene.receive(&[Codec::Vp8], |mut receiver| {
        let uplink = |receiver: &BroadcastReceiver<'_>, ms, ago_s| {
            let time = MediaTime::from_ticks(ms, 1_000);
            let uplink = receiver.uplink(time, Duration::from_secs(ago_s));
            uplink.map(|it| it.as_secs())
        };
        assert_eq!(uplink(&receiver, 0, 0), None, "no clock");
        let now = calendar::now().duration_since(UNIX_EPOCH);
        receiver.clock = now.ok().map(|now| now - Duration::from_secs(1_000));
        // The test itself takes some of the time.
        let is_near = |found: Option<u64>, expected| {
            found.is_some_and(|it| (expected..expected + 30).contains(&it))
        };
        assert!(is_near(uplink(&receiver, 980_000, 10), 10));
        assert!(is_near(uplink(&receiver, 970_000, 25), 5));
        assert_eq!(uplink(&receiver, 900_000, 10), None, "90 s");
        assert_eq!(uplink(&receiver, 2_000_000, 0), None, "the future");
        assert_eq!(uplink(&receiver, -1, 0), None);
    });
}

/// A publisher of a broadcast with a large and a small rendition of its video, and audio.
struct Renditions<'a> {
    scene: &'a Scene,
    receiver: BroadcastReceiver<'a>,
    fetched: Vec<watch::Receiver<bool>>,
}

impl<'a> Renditions<'a> {
    fn new(scene: &'a Scene, request_keyframe: &'a (dyn Fn() + Sync), small: Codec) -> Self {
        let mut receiver = scene.receiver(&[Codec::Vp8, small, Codec::Opus], request_keyframe);
        let layer = |rid: &str, codec| DescribedLayer {
            rid: rid.to_owned(),
            codec,
            bitrate: None,
        };
        let layers = vec![layer("large", Codec::Vp8), layer("small", small)];
        let layers = SourceLayers::new(layers, scene.start);
        receiver.live = receiver.live.with_layers(layers);
        let (wanted, fetched) = (0..3).map(|_| watch::channel(true)).unzip();
        receiver.wanted = wanted;
        Self {
            scene,
            receiver,
            fetched,
        }
    }

    /// Sends a frame of each track that is fetched each 40 ms, with a keyframe each second.
    fn run(&mut self, from: u64, to: u64) {
        for ms in (from..to).step_by(40) {
            for (track, fetched) in self.fetched.iter().enumerate() {
                if *fetched.borrow() {
                    let keyframe = track == 2 || ms % 1_000 == 0;
                    let mut frame = self.scene.frame(ms, keyframe);
                    if track == 0 {
                        frame.data = [&frame.data[..], &[0; 900]].concat().into();
                    }
                    let at = self.scene.at(ms);
                    self.receiver
                        .publish(TrackIndex(track), frame, at)
                        .expect("free");
                }
            }
            let looked = self.receiver.look_at_layers(self.scene.at(ms));
            looked.expect("the same tracks");
        }
    }

    fn fetched(&self) -> [bool; 3] {
        [0, 1, 2].map(|track| *self.fetched[track].borrow())
    }
}

struct NoWake;

impl glassline_hub::Wake for NoWake {
    fn wake(&self) {}
}

const fn of_layer(layer: u8) -> TrackLayer {
    TrackLayer {
        track: VIDEO,
        layer: LayerIndex(layer),
    }
}

#[test]
fn renditions_are_layers_and_those_that_nobody_needs_are_not_fetched() {
    let scene = Scene::new();
    let request_keyframe = || {};
    let mut publisher = Renditions::new(&scene, &request_keyframe, Codec::Vp8);
    publisher.run(0, 1_000);
    let stream = scene.hub.stream("cam").expect("live");
    let tracks = stream.tracks();
    let rids: Vec<_> = tracks[0].layers.iter().map(|it| &it.rid[..]).collect();
    assert_eq!((tracks.len(), &rids[..]), (2, &["large", "small"][..]));
    assert_eq!(stream.preferred(VIDEO), of_layer(1));
    let mut viewer = stream.subscribe(Arc::new(NoWake));
    let mut read = |layers: &[TrackLayer]| viewer.read(layers);
    read(&[of_layer(2)]);
    publisher.run(1_000, 7_000);
    assert_eq!(publisher.fetched(), [false, true, true]);
    let large = &stream.tracks()[0].layers[0];
    assert!(large.is_paused() && large.bitrate.expect("measured").bps() > 100_000);
    assert_eq!(stream.preferred(VIDEO), of_layer(1), "it would come");
    assert!(stream.since_keyframe(of_layer(1)).is_empty());
    read(&[of_layer(1)]);
    publisher.run(7_000, 9_000);
    assert_eq!(publisher.fetched(), [true; 3], "the lowest is never left");
    assert!(!stream.tracks()[0].layers[0].is_paused());
    assert_eq!(stream.since_keyframe(of_layer(1)).len(), 25);
    // Whoever reads the stream as a whole needs its best layer.
    read(&[VIDEO.into()]);
    publisher.run(9_000, 20_000);
    assert_eq!(publisher.fetched(), [true; 3]);
    read(&[AUDIO.into()]);
    publisher.run(20_000, 26_000);
    assert_eq!(publisher.fetched(), [false, true, true]);
}

#[test]
fn the_base_layer_goes_on_with_the_next_rendition_when_the_best_ends() {
    let scene = Scene::new();
    let request_keyframe = || {};
    let mut publisher = Renditions::new(&scene, &request_keyframe, Codec::Vp8);
    publisher.run(0, 1_000);
    let stream = scene.hub.stream("cam").expect("live");
    let mut viewer = stream.subscribe(Arc::new(NoWake));
    publisher.fetched[0] = watch::channel(false).1;
    let ended = publisher.receiver.live.end_layer(0);
    assert!(ended.expect("the same tracks"), "a layer");
    publisher.run(1_000, 2_000);
    let mut units = Vec::new();
    viewer.poll(&mut units);
    let frames = units.iter().filter(|it| it.track == VIDEO).count();
    assert_eq!(frames, 25, "the small ones");
    let large = &stream.tracks()[0].layers[0];
    assert!(!large.is_available() && stream.preferred(VIDEO) == of_layer(2));
    assert!(!publisher.receiver.live.end_layer(2).expect("audio"));
}

#[test]
fn a_rendition_in_another_codec_is_a_layer_for_those_that_negotiate_it() {
    let scene = Scene::new();
    let request_keyframe = || {};
    let mut publisher = Renditions::new(&scene, &request_keyframe, Codec::Vp9);
    // A frame of VP9 is any byte string here.
    publisher.run(0, 1_000);
    let stream = scene.hub.stream("cam").expect("live");
    let layers = &stream.tracks()[0].layers;
    assert_eq!(stream.tracks()[0].codec, Codec::Vp8);
    assert!(layers[0].other_codec.is_none());
    let other = layers[1].other_codec.as_ref().expect("another codec");
    assert_eq!(other.codec, Codec::Vp9);
    assert_eq!(stream.since_keyframe(of_layer(2)).len(), 25);
    assert_eq!(stream.preferred(VIDEO), of_layer(1));
}

/// A subscription begins with the latest keyframe, which may be seconds old.
#[test]
fn a_rendition_that_comes_back_does_not_take_the_base_layer_into_the_past() {
    let scene = Scene::new();
    let request_keyframe = || {};
    let mut publisher = Renditions::new(&scene, &request_keyframe, Codec::Vp8);
    publisher.run(0, 1_000);
    let stream = scene.hub.stream("cam").expect("live");
    publisher.run(1_000, 7_000);
    assert_eq!(publisher.fetched(), [false, true, true]);
    let mut viewer = stream.subscribe(Arc::new(NoWake));
    let looked = publisher.receiver.look_at_layers(scene.at(7_050));
    assert!(looked.is_ok() && publisher.fetched()[0]);
    let mut sizes = || {
        let mut units = Vec::new();
        viewer.poll(&mut units);
        let video = units.iter().filter(|it| it.track == VIDEO);
        video.map(|it| it.payload_bytes() > 900).collect::<Vec<_>>()
    };
    for ms in (6_000..6_700).step_by(40) {
        let mut frame = scene.frame(ms, ms == 6_000);
        frame.data = [&frame.data[..], &[0; 900]].concat().into();
        let published = publisher.receiver.publish(VIDEO, frame, scene.at(7_060));
        published.expect("free");
    }
    assert!(sizes().is_empty(), "nothing of the past");
    assert!(publisher.receiver.live.take_keyframe_wish());
    publisher.run(7_080, 9_000);
    let sizes = sizes();
    let large = sizes
        .iter()
        .position(|is_large| *is_large)
        .expect("it comes");
    assert!(
        large > 10 && sizes[large..].iter().all(|it| *it),
        "{sizes:?}"
    );
}
