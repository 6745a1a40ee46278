//! A viewer that goes over to recordings and back.

use glassline_hub::{Hub, Publisher, StreamName};
use glassline_media::{Codec, Track};
use glassline_rtp::payload::{FrameNumbers, Packetizer};

use super::*;

/// Another stream, whose times begin at another zero.
struct Other {
    stream: Arc<Stream>,
    publisher: Publisher,
}

impl Other {
    fn of(tracks: Vec<Track>, at: Instant) -> Self {
        let name = StreamName::parse("past").expect("a good name");
        let stream = Hub::default().create(name).expect("room");
        let publisher = stream.publish(tracks, at).expect("free");
        Self { stream, publisher }
    }

    /// Publishes a unit of video, of the time `time_ms` of this stream, at `ms` of the scene.
    fn publish(&mut self, scene: &Scene, time_ms: u64, ms: u64, keyframe: bool) -> Arc<MediaUnit> {
        let mut unit = unit(VIDEO, scene.at(ms), time_ms, keyframe, &[200]);
        unit.stamps = Stamps::arrived(scene.at(ms));
        let published = self.publisher.push(unit, scene.at(ms));
        published.expect("a track").expect("published")
    }
}

const VIDEO_ALONE: [Option<TrackLayer>; 2] = [
    Some(TrackLayer {
        track: VIDEO,
        layer: LayerIndex::BASE,
    }),
    None,
];

/// Sends all of video that waits from `ms` on, and returns its timestamps in ms from `start`, and sequence
/// numbers.
fn shown(scene: &mut Scene, sender: &mut StreamSender, ms: u64, start: u32) -> Vec<(u32, u64)> {
    let in_ms = |timestamp: u32| timestamp.wrapping_sub(start).wrapping_add(45) / 90;
    let mut all = Vec::new();
    for ms in (ms..ms + 1_000).step_by(5) {
        let (_, arrived) = scene.flush(sender, ms);
        let video = arrived.iter().filter(|it| it.is_video);
        all.extend(video.map(|it| (in_ms(it.timestamp), it.sequence)));
        if sender.is_idle() {
            return all;
        }
    }
    panic!("something still waits: {all:?}");
}

#[test]
fn timestamps_follow_the_clock_across_streams_and_sequence_numbers_have_no_gap() {
    let mut scene = Scene::new();
    let mut live = scene.sender();
    scene.start(&mut live, 0);
    scene.offer(&mut live, VIDEO, 1_000, true, &[100]);
    let (_, first) = scene.flush(&mut live, 1_000);
    let (start, sequence) = (first[0].timestamp, first[0].sequence);
    scene.offer(&mut live, VIDEO, 1_033, false, &[100]);
    let of_live = shown(&mut scene, &mut live, 1_033, start);
    assert_eq!(of_live, [(33, sequence + 1)]);

    let mut past = Other::of(tracks(), scene.start);
    past.publish(&scene, 0, 1_080, true);
    let now = scene.at(1_090);
    let next = live.go_over(
        &scene.session,
        &scene.stream,
        &past.stream,
        &VIDEO_ALONE,
        &[],
        now,
    );
    let mut next = next.expect("there is a keyframe");
    assert!(next.is_idle(), "it has not begun");
    next.start(&mut scene.session, &past.stream, now);
    let unit = past.publish(&scene, 33, 1_113, false);
    next.offer(&unit, scene.at(1_113), &past.stream);
    let of_past = shown(&mut scene, &mut next, 1_113, start);
    assert_eq!(of_past, [(80, sequence + 2), (113, sequence + 3)]);

    // Back, behind a keyframe that is a second old.
    scene.publish(VIDEO, 1_100, true, &[100]);
    for ms in [1_133, 1_166, 2_100] {
        scene.publish(VIDEO, ms, false, &[100]);
    }
    let now = scene.at(2_110);
    let live = next.go_over(
        &scene.session,
        &past.stream,
        &scene.stream,
        &VIDEO_ALONE,
        &[],
        now,
    );
    let mut live = live.expect("there is a keyframe");
    live.start(&mut scene.session, &scene.stream, now);
    let of_live = shown(&mut scene, &mut live, 2_110, start);
    let last = of_live.last().copied();
    assert_eq!(
        last,
        Some((1_100, sequence + 7)),
        "by the clock: {of_live:?}"
    );
    assert!(
        of_live.is_sorted() && of_live[0].0 > 113,
        "squeezed: {of_live:?}"
    );
}

#[test]
fn a_stream_that_has_sent_nothing_is_not_gone_over_to() {
    let mut scene = Scene::new();
    let mut live = scene.sender();
    scene.start(&mut live, 0);
    scene.offer(&mut live, VIDEO, 0, true, &[100]);
    let past = Other::of(tracks(), scene.start);
    let now = scene.at(10);
    let next = live.go_over(
        &scene.session,
        &scene.stream,
        &past.stream,
        &VIDEO_ALONE,
        &[],
        now,
    );
    assert!(next.is_none());
}

#[test]
fn what_left_of_the_stream_before_is_not_sent_again() {
    let mut scene = Scene::new();
    let mut live = scene.sender();
    scene.start(&mut live, 0);
    scene.offer(&mut live, VIDEO, 0, true, &[100]);
    let (_, arrived) = scene.flush(&mut live, 0);
    let mut past = Other::of(tracks(), scene.start);
    past.publish(&scene, 0, 10, true);
    let now = scene.at(20);
    let next = live.go_over(
        &scene.session,
        &scene.stream,
        &past.stream,
        &VIDEO_ALONE,
        &[],
        now,
    );
    let mut next = next.expect("there is a keyframe");
    next.start(&mut scene.session, &past.stream, now);
    let lost = [arrived[0].sequence];
    let nack = Nack {
        sender: SenderIndex(0),
        lost: &lost,
    };
    next.repair(&past.stream, nack, now, &scene.counters);
    assert_eq!(scene.counters.unrepairable.get(), 1);
    // A sender without a source is silent, and asks for no keyframe.
    while past.publisher.keyframe_wanted() {}
    next.request_keyframe(SenderIndex(1), &past.stream, now);
    assert!(!past.publisher.keyframe_wanted());
}

#[test]
fn frame_numbers_go_on_across_streams() {
    /// A keyframe of VP8, which an encoder sends behind `before` others.
    fn frame(before: usize, at: Instant) -> MediaUnit {
        let mut packetizer = Packetizer::new(&Track::new(Codec::Vp8));
        let coded = [0x10, 2, 0, 0x9d, 1, 0x2a, 64, 0, 64, 0, 1, 2, 3];
        let mut builder = UnitBuilder::default();
        for _ in 0..=before {
            builder = UnitBuilder::default();
            let packetized = packetizer.packetize(&coded, &mut builder);
            packetized.expect("a frame");
        }
        let unit = builder.build(VIDEO, MediaTime::ZERO, true, Stamps::arrived(at));
        unit.expect("packets")
    }
    let id = |unit: &MediaUnit| {
        let payload = unit.payload(0).expect("a packet");
        FrameNumbers::of(Codec::Vp8, payload)
            .frame_id
            .expect("numbered")
    };
    let tracks = || vec![Track::new(Codec::Vp8)];
    let mut scene = Scene::streaming(tracks(), Kinds::ALL);
    let mut live = scene.sender();
    scene.start(&mut live, 0);
    let published = scene.publisher.push(frame(7, scene.start), scene.start);
    let last = published.expect("a track").expect("published");
    live.offer(&last, scene.start, &scene.stream);
    scene.flush(&mut live, 0);
    let mut past = Other::of(tracks(), scene.start);
    let published = past.publisher.push(frame(400, scene.start), scene.start);
    let first = published.expect("a track").expect("published");
    assert_ne!(id(&last) + 1, id(&first));
    let now = scene.at(10);
    let sources = &VIDEO_ALONE[..1];
    let next = live.go_over(
        &scene.session,
        &scene.stream,
        &past.stream,
        sources,
        &[],
        now,
    );
    let mut next = next.expect("there is a keyframe");
    next.start(&mut scene.session, &past.stream, now);
    let queued = next.tracks[0].front().expect("the keyframe");
    let leg = next.tracks[0].leg(queued.leg).expect("the present one");
    let numbers = FrameNumbers::of(Codec::Vp8, first.payload(0).expect("a packet"));
    let shown = leg.number_shift().apply(numbers);
    assert_eq!(shown.frame_id, Some(id(&last) + 1));
}
