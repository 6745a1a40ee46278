//! Simulcast layers on their way to the hub: late ones, some that end, and some that are not what they
//! seem.

mod pauses;

use glassline_hub::{Stream, Subscription, Wake};
use glassline_media::{LayerIndex as Layer, TrackLayer};
use glassline_rtp::payload::FrameNumbers;

use super::*;

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// A publisher of VP8 in three layers at 30 frames a second, without sender reports.
struct Scene {
    hub: Arc<Hub>,
    session: Session,
    contribution: Contribution,
    counters: WhipCounters,
    video: ReceiverIndex,
    start: Instant,
    number: u32,
    /// Added to SSRC, sequence numbers and timestamps of each layer.
    shift: [u16; 3],
}

/// A frame of a layer: the layer's position, the size in bytes, and whether the frame is a keyframe.
type Frame = (usize, usize, bool);

impl Scene {
    fn new() -> Self {
        let start = Instant::now();
        let hub = Arc::new(Hub::default());
        let reservations = Arc::new(Reservations::new(start));
        let name = StreamName::parse("studio").expect("good");
        let reservation = reservations.reserve(name, SessionId::new("session"), false, start);
        let session = session(2 | 8 | 16, start);
        let made = Contribution::new(
            &session,
            Arc::clone(&hub),
            reservation.expect("free"),
            false,
            start,
        );
        let mut kinds = session.receivers().iter().map(|it| it.kind);
        let video = kinds.position(|it| it == Kind::Video).expect("offered");
        drop(kinds);
        let mut contribution = made.expect("known");
        contribution.start(start);
        Self {
            hub,
            session,
            contribution,
            counters: WhipCounters::default(),
            video: ReceiverIndex(video),
            start,
            number: 0,
            shift: [1, 2, 3],
        }
    }

    /// Sends a frame of each of these layers.
    fn send(&mut self, frames: &[Frame]) {
        let now = self.start + Duration::from_millis(33) * self.number;
        for &(layer, bytes, keyframe) in frames {
            let shift = self.shift[layer];
            let mut payload = match keyframe {
                true => KEYFRAME.to_vec(),
                false => vec![0x10, 1, 1, 1],
            };
            payload.resize(bytes, u8::try_from(layer).expect("small"));
            let number = u16::try_from(self.number).expect("few");
            let header = Header {
                marker: true,
                payload_type: 96,
                sequence: number.wrapping_add(shift * 1_000),
                timestamp: self.number * 3_000 + u32::from(shift) * 1_234_567,
                ssrc: glassline_media::Ssrc(u32::from(shift)),
            };
            let mut packet = vec![0; 12];
            write_header(&mut packet, &header, &[]);
            packet.extend_from_slice(&payload);
            let packet = Packet::parse(&packet).expect("written here");
            let place = (self.video, LayerIndex(layer));
            self.contribution
                .take(&self.session, place, &packet, now, &self.counters);
        }
        let served = self
            .contribution
            .serve(&mut self.session, now, &self.counters);
        served.expect("published");
        self.number += 1;
    }

    /// Sends `count` frames of each of these layers, and no keyframe.
    fn go_on(&mut self, layers: &[Encoding], count: u32) {
        let frames: Vec<_> = layers.iter().copied().map(delta).collect();
        (0..count).for_each(|_| self.send(&frames));
    }

    fn stream(&self) -> Arc<Stream> {
        self.hub.stream("studio").expect("live")
    }

    fn preferred(&self) -> u8 {
        self.stream().preferred(TrackIndex(0)).layer.0
    }
}

fn layer(number: u8) -> TrackLayer {
    TrackLayer {
        track: TrackIndex(0),
        layer: Layer(number),
    }
}

/// Reads the base layer, whose times and picture IDs must go on.
struct BaseReader {
    subscription: Subscription,
    latest: Option<(i64, u16)>,
    of_layer: Option<u8>,
}

impl BaseReader {
    fn new(stream: &Arc<Stream>) -> Self {
        Self {
            subscription: stream.subscribe(Arc::new(NoWake)),
            latest: None,
            of_layer: None,
        }
    }

    /// Returns of which layers the new frames are.
    fn read(&mut self) -> Vec<u8> {
        let mut units = Vec::new();
        self.subscription.poll(&mut units);
        let mut layers = Vec::new();
        for unit in units {
            let payload = unit.payload(0).expect("a packet");
            let id = FrameNumbers::of(Codec::Vp8, payload).frame_id;
            let (id, ns) = (id.expect("written"), unit.time.nanos());
            if let Some((before_ns, before)) = self.latest.replace((ns, id)) {
                assert!(ns > before_ns, "{ns} after {before_ns}");
                assert_eq!(id, before + 1);
            }
            let of_layer = *payload.last().expect("not empty");
            let before = self.of_layer.replace(of_layer);
            let is_other = before.is_some_and(|before| before != of_layer);
            assert!(!is_other || unit.keyframe, "layer {of_layer}");
            if layers.last() != Some(&of_layer) {
                layers.push(of_layer);
            }
        }
        layers
    }
}

/// A layer of the publisher, and the bytes of its frames.
#[derive(Clone, Copy)]
struct Encoding {
    layer: usize,
    bytes: usize,
}

const LOW: Encoding = Encoding {
    layer: 0,
    bytes: 100,
};
const MIDDLE: Encoding = Encoding {
    layer: 1,
    bytes: 300,
};
const HIGH: Encoding = Encoding {
    layer: 2,
    bytes: 900,
};

fn key(of: Encoding) -> Frame {
    (of.layer, of.bytes, true)
}

fn delta(of: Encoding) -> Frame {
    (of.layer, of.bytes, false)
}

#[test]
fn every_layer_that_arrives_lies_in_the_hub_from_its_keyframe_on() {
    let mut scene = Scene::new();
    scene.send(&[key(LOW), delta(MIDDLE)]);
    let stream = scene.stream();
    let kept = || [0, 1, 2, 3].map(|number| stream.since_keyframe(layer(number)).len());
    assert_eq!(kept(), [1, 1, 0, 0], "one has not begun");
    let mut base = BaseReader::new(&stream);
    scene.send(&[delta(LOW), key(MIDDLE)]);
    scene.go_on(&[LOW, MIDDLE], 40);
    assert_eq!(kept(), [42, 42, 41, 0]);
    // The third layer appears late.
    scene.send(&[delta(LOW), delta(MIDDLE), key(HIGH)]);
    scene.go_on(&[LOW, MIDDLE, HIGH], 70);
    assert_eq!(kept(), [113, 113, 112, 71]);
    assert_eq!(base.read(), [0], "until a keyframe of the best layer");
    scene.send(&[delta(LOW), delta(MIDDLE), key(HIGH)]);
    scene.go_on(&[LOW, MIDDLE, HIGH], 10);
    assert_eq!(base.read(), [0, 2]);
    assert_eq!(scene.preferred(), 3);
    let track = &stream.tracks()[0];
    let layers: Vec<_> = track.layers.iter().map(|it| (&*it.rid, it.size)).collect();
    let size = Some((64, 64));
    assert_eq!(layers, [("a", size), ("b", size), ("c", size)]);
    assert_eq!(stream.totals().units, 125, "those of the base layer");
    // The base layer has bytes of its own only where its picture IDs differ.
    let [of_base, of_high] = [0, 3].map(|number| stream.latest_keyframe(layer(number)));
    let id = |unit: &MediaUnit| FrameNumbers::of(Codec::Vp8, unit.payload(0).expect("one"));
    let ids = [of_base, of_high].map(|it| it.map(|unit| id(&unit).frame_id));
    assert_eq!(ids, [Some(Some(114)), Some(Some(71))]);
}

#[test]
fn the_next_layer_replaces_the_best_one_within_a_second_and_gives_way_when_it_returns() {
    let mut scene = Scene::new();
    scene.send(&[key(HIGH), key(LOW), key(MIDDLE)]);
    let stream = scene.stream();
    let mut base = BaseReader::new(&stream);
    scene.go_on(&[LOW, MIDDLE, HIGH], 40);
    assert_eq!((scene.preferred(), base.read()), (3, vec![2]));
    // The best layer ends. Viewers that can move do so at once, to a keyframe that the hub keeps.
    scene.go_on(&[LOW, MIDDLE], 14);
    assert_eq!(scene.preferred(), 3, "within half a second");
    scene.go_on(&[LOW, MIDDLE], 3);
    assert_eq!(scene.preferred(), 2);
    assert!(stream.latest_keyframe(layer(2)).is_some());
    assert!(base.read().is_empty(), "a keyframe is asked for");
    scene.send(&[delta(LOW), key(MIDDLE)]);
    assert_eq!(base.read(), [1]);
    scene.go_on(&[LOW, MIDDLE], 40);
    // It returns, with a keyframe.
    scene.send(&[delta(LOW), delta(MIDDLE), key(HIGH)]);
    scene.go_on(&[LOW, MIDDLE, HIGH], 60);
    assert_eq!((scene.preferred(), base.read()), (2, vec![1]));
    scene.send(&[delta(LOW), delta(MIDDLE), key(HIGH)]);
    scene.go_on(&[LOW, MIDDLE, HIGH], 5);
    assert_eq!((scene.preferred(), base.read()), (3, vec![1, 2]));
}

/// Publishers restart encoders, and some name their layers in any order.
#[test]
fn layers_that_swap_their_ssrcs_and_sizes_go_on_at_keyframes() {
    let mut scene = Scene::new();
    scene.send(&[key(LOW), key(MIDDLE), key(HIGH)]);
    let stream = scene.stream();
    let mut base = BaseReader::new(&stream);
    scene.go_on(&[LOW, MIDDLE, HIGH], 65);
    scene.send(&[key(LOW), key(MIDDLE), key(HIGH)]);
    assert_eq!(base.read(), [0, 2]);
    // The first layer becomes the largest, under the SSRC that the third one had.
    scene.shift = [3, 2, 1];
    let low = Encoding { bytes: 900, ..LOW };
    let high = Encoding { bytes: 100, ..HIGH };
    scene.send(&[key(low), delta(MIDDLE), key(high)]);
    scene.go_on(&[low, MIDDLE, high], 70);
    assert_eq!(base.read(), [2], "until a keyframe of the other layer");
    scene.send(&[key(low), key(MIDDLE), key(high)]);
    scene.go_on(&[low, MIDDLE, high], 5);
    assert_eq!(scene.preferred(), 1);
    assert_eq!(base.read(), [0]);
    for number in 1..=3 {
        let units = stream.since_keyframe(layer(number));
        assert!(units[0].keyframe && units.len() >= 6, "layer {number}");
        let ids = units.iter().map(|unit| {
            let payload = unit.payload(0).expect("a packet");
            FrameNumbers::of(Codec::Vp8, payload).frame_id
        });
        let ids: Vec<_> = ids.flatten().collect();
        assert!(ids.windows(2).all(|it| it[0] + 1 == it[1]), "{ids:?}");
    }
}
