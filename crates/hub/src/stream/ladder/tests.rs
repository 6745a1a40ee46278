//! Streams with a ladder, whose rungs the tests publish.

use std::time::Instant;

use glassline_media::{MediaTime, Stamps, UnitBuilder};

use super::*;
use crate::{Hub, RenditionPublisher, StreamName, Wake};

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

const VIDEO: TrackIndex = TrackIndex(1);

const fn of(layer: u8) -> TrackLayer {
    TrackLayer {
        track: VIDEO,
        layer: LayerIndex(layer),
    }
}

fn tracks(codec: Codec, width: u32, height: u32) -> Vec<Track> {
    let mut video = Track::new(codec);
    (video.video.width, video.video.height) = (width, height);
    vec![Track::audio(Codec::Opus, 2), video]
}

fn stream(ladder: &str) -> Arc<Stream> {
    let stream = Hub::default().create(StreamName::parse("cam").expect("good"));
    let stream = stream.expect("room");
    stream.set_ladder(Some(Ladder::parse(ladder).expect("a ladder")));
    stream
}

fn unit(keyframe: bool, at: Instant) -> MediaUnit {
    let mut builder = UnitBuilder::default();
    builder.push(b"payload");
    let unit = builder.build(VIDEO, MediaTime::ZERO, keyframe, Stamps::arrived(at));
    unit.expect("a packet")
}

/// The layers of the video by name, size and state.
fn layers(stream: &Stream) -> Vec<String> {
    let tracks = stream.tracks();
    let layers = tracks[VIDEO].layers.iter().map(|it| {
        let (width, height) = it.size.expect("known");
        let state = match &it.absence {
            None => "comes",
            Some(LayerAbsence::Paused) => "paused",
            Some(LayerAbsence::Failed(why)) => why,
        };
        format!("{} {width}x{height} {state}", it.rid)
    });
    layers.collect()
}

#[test]
fn a_source_with_one_layer_gets_the_rungs_below_its_own_height() {
    let start = Instant::now();
    for (codec, width, height, expected) in [
        (
            Codec::H264,
            1280,
            720,
            &[
                "source 1280x720 comes",
                "360p 640x360 paused",
                "180p 320x180 paused",
            ][..],
        ),
        (
            Codec::H264,
            1920,
            1080,
            &[
                "source 1920x1080 comes",
                "720p 1280x720 paused",
                "360p 640x360 paused",
                "180p 320x180 paused",
            ],
        ),
        (
            Codec::H264,
            450,
            800,
            &[
                "source 450x800 comes",
                "720p 406x720 paused",
                "360p 202x360 paused",
                "180p 102x180 paused",
            ],
        ),
        (
            Codec::H265,
            320,
            240,
            &["source 320x240 comes", "180p 240x180 paused"],
        ),
        (Codec::H264, 320, 180, &[]),
        (Codec::H264, 0, 0, &[]),
    ] {
        let stream = stream("720p,360p,180p");
        let publisher = stream.publish(tracks(codec, width, height), start);
        let publisher = publisher.expect("free");
        assert_eq!(layers(&stream), expected);
        let best = if expected.is_empty() { 0 } else { 1 };
        assert_eq!(stream.preferred(VIDEO), of(best));
        let tracks = stream.tracks();
        let rungs = tracks[VIDEO].layers.iter().skip(1);
        for rung in rungs {
            assert!(rung.is_made_here);
            assert_eq!(rung.other_codec.is_some(), codec == Codec::H265);
        }
        drop(publisher);
    }
    let stream = stream("360p");
    let mut simulcast = tracks(Codec::H264, 1280, 720);
    simulcast[VIDEO].layers = vec![Layer::default(); 2];
    let _publisher = stream.publish(simulcast, start).expect("free");
    assert!(stream.ladder_need().is_none(), "it has layers of its own");
}

/// A stream of 1280 by 720 with two rungs, and a publisher of the lower one.
fn published() -> (Arc<Stream>, crate::Publisher, RenditionPublisher) {
    let stream = stream("540p,360p:400k");
    let publisher = stream.publish(tracks(Codec::H264, 1280, 720), Instant::now());
    let plan = stream.ladder_need().expect("a ladder").plan;
    let rung = stream.publish_rung(&plan, LayerIndex(3));
    (stream, publisher.expect("free"), rung)
}

#[test]
fn frames_of_the_source_are_its_own_layer_and_those_of_a_rung_are_read_once_they_come() {
    let (stream, mut publisher, rung) = published();
    let now = Instant::now();
    let mut subscription = stream.subscribe(Arc::new(NoWake));
    subscription.read(&[of(1), of(3)]);
    let need = stream.ladder_need().expect("a ladder");
    assert!(need.read.has(LayerIndex(3)) && !need.read.has(LayerIndex(2)));
    for keyframe in [true, false] {
        let pushed = publisher.push(unit(keyframe, now), now);
        pushed.expect("announced");
    }
    assert!(rung.push(unit(true, now), now).is_some());
    let mut out = Vec::new();
    subscription.poll(&mut out);
    let read: Vec<_> = out.iter().map(|it| (it.layer.0, it.index)).collect();
    assert_eq!(read, [(1, 0), (1, 1), (3, 0)]);
    assert_eq!(stream.totals().units, 2, "counts are of the source");
    let state = |stream: &Stream| layers(stream)[2].clone();
    assert_eq!(state(&stream), "360p 640x360 comes");
    assert_eq!(stream.since_keyframe(of(3)).len(), 1);
    drop(rung);
    assert_eq!(state(&stream), "360p 640x360 paused");
    assert!(stream.since_keyframe(of(3)).is_empty());
    assert_eq!(layers(&stream)[1], "540p 960x540 paused");
}

#[test]
fn a_keyframe_is_asked_of_the_source_or_of_who_encodes_the_rung() {
    let (stream, publisher, rung) = published();
    stream.request_keyframe_of(of(3));
    assert!(rung.keyframe_wanted() && !rung.keyframe_wanted());
    assert!(!publisher.keyframe_wanted());
    stream.request_keyframe_of(of(1));
    assert!(publisher.wanted_keyframes().has(LayerIndex::BASE));
    assert!(!rung.keyframe_wanted());
}

#[test]
fn another_ladder_or_size_begins_the_rungs_anew_and_ends_those_before() {
    let (stream, mut publisher, rung) = published();
    let now = Instant::now();
    rung.push(unit(true, now), now).expect("the present ladder");
    let again = tracks(Codec::H264, 1280, 720);
    publisher.describe(&again).expect("the same");
    assert!(
        rung.push(unit(false, now), now).is_some(),
        "nothing changed"
    );
    let smaller = tracks(Codec::H264, 640, 480);
    publisher.describe(&smaller).expect("the same codec");
    assert_eq!(
        layers(&stream),
        ["source 640x480 comes", "360p 480x360 paused"]
    );
    assert!(rung.push(unit(true, now), now).is_none());
    let plan = stream.ladder_need().expect("a ladder").plan;
    let next = stream.publish_rung(&plan, LayerIndex(2));
    next.push(unit(true, now), now).expect("the present ladder");
    drop(rung);
    assert_eq!(layers(&stream)[1], "360p 480x360 comes");
    stream.set_ladder(Some(Ladder::OFF));
    assert!(layers(&stream).is_empty() && stream.ladder_need().is_none());
    assert_eq!(stream.preferred(VIDEO), of(0));
    assert!(next.push(unit(true, now), now).is_none());
    publisher.push(unit(true, now), now).expect("it goes on");
}

#[test]
fn a_failure_is_told_until_it_is_over() {
    let (stream, _publisher, _rung) = published();
    let plan = stream.ladder_need().expect("a ladder").plan;
    stream.set_ladder_failure(&plan, Some("no room".to_owned()));
    assert_eq!(
        layers(&stream)[1..],
        ["540p 960x540 no room", "360p 640x360 no room"]
    );
    let named = stream.named_layer(&"360p".parse().expect("a name"));
    let refused = named.expect_err("it fails").to_string();
    assert_eq!(refused, "the layer 360p does not come: no room");
    stream.set_ladder_failure(&plan, None);
    let named = stream.named_layer(&"360p".parse().expect("a name"));
    assert_eq!(named.ok(), Some(of(3)));
}

#[test]
fn a_source_chooses_before_the_ladder_of_all_sources() {
    let hub = Hub::default();
    let name = |name| StreamName::parse(name).expect("good");
    let [plain, chosen] = ["plain", "chosen"].map(|it| hub.create(name(it)).expect("room"));
    let publish = |stream: &Arc<Stream>| {
        let publisher = stream.publish(tracks(Codec::H264, 1280, 720), Instant::now());
        publisher.expect("free")
    };
    let _publishers = [publish(&plain), publish(&chosen)];
    chosen.set_ladder(Some(Ladder::parse("180p").expect("a ladder")));
    let rungs = |stream: &Stream| layers(stream).len();
    assert_eq!((rungs(&plain), rungs(&chosen)), (0, 2));
    hub.set_ladder(Ladder::parse("540p,360p").expect("a ladder"));
    assert_eq!((rungs(&plain), rungs(&chosen)), (3, 2));
    let late = hub.create(name("late")).expect("room");
    let _publisher = publish(&late);
    assert_eq!(rungs(&late), 3);
    chosen.set_ladder(Some(Ladder::OFF));
    hub.set_ladder(Ladder::OFF);
    assert_eq!((rungs(&plain), rungs(&chosen)), (0, 0));
}
