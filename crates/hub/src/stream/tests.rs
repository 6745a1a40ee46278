use super::*;
use crate::PublishError;
use crate::{Hub, Wake};
use glassline_media::{
    Codec, Layer, LayerAbsence, LayerIndex, MediaTime, Stamps, UnitBuilder, VideoParameters,
};

#[derive(Default)]
struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn stream() -> Arc<Stream> {
    Hub::default()
        .create(StreamName::parse("cam").expect("good"))
        .expect("room")
}

fn tracks() -> Vec<Track> {
    vec![
        Track::h264(VideoParameters::default()),
        Track::audio(Codec::Opus, 2),
    ]
}

fn unit(track: usize, ms: i64, keyframe: bool, at: Instant) -> MediaUnit {
    let mut builder = UnitBuilder::default();
    builder.push(b"payload");
    builder
        .build(
            TrackIndex(track),
            MediaTime::from_nanos(ms * 1_000_000),
            keyframe,
            Stamps::arrived(at),
        )
        .expect("has a packet")
}

#[test]
fn a_subscriber_gets_every_unit_once_and_one_wake_each() {
    let (stream, start) = (stream(), Instant::now());
    let mut publisher = stream.publish(tracks(), start).expect("free");
    publisher
        .push(unit(0, 0, true, start), start)
        .expect("track 0");
    let wakes = Arc::new(WakeCount::default());
    let mut subscription = stream.subscribe(Arc::clone(&wakes) as Arc<dyn Wake>);
    let mut out = Vec::new();
    subscription.poll(&mut out);
    assert!(out.is_empty(), "a subscription begins now");
    for frame in 1..4 {
        publisher
            .push(unit(0, frame * 33, false, start), start)
            .expect("track 0");
    }
    publisher
        .push(unit(1, 40, true, start), start)
        .expect("track 1");
    subscription.poll(&mut out);
    assert_eq!(
        out.iter()
            .map(|b| (b.track.get(), b.index))
            .collect::<Vec<_>>(),
        [(0, 1), (0, 2), (0, 3), (1, 0)]
    );
    assert_eq!(wakes.0.load(Ordering::Relaxed), 4);
    assert_eq!(stream.since_keyframe(TrackIndex(0)).len(), 4);
    let since = |index| {
        stream
            .since(TrackIndex(0), index)
            .iter()
            .map(|b| b.index)
            .collect::<Vec<_>>()
    };
    assert_eq!((since(2), since(4)), (vec![2, 3], vec![]));
    assert!(stream.since(TrackIndex(7), 0).is_empty(), "no such track");
    drop(subscription);
    drop(wakes);
    publisher
        .push(unit(1, 60, true, start), start)
        .expect("nobody listens");
    assert_eq!(stream.inner.lock().subscribers.len(), 0);
}

#[test]
fn the_end_of_a_source_wakes_who_waits_for_more() {
    let stream = stream();
    let publisher = stream.publish(tracks(), Instant::now()).expect("free");
    let wakes = Arc::new(WakeCount::default());
    let _subscription = stream.subscribe(Arc::clone(&wakes) as Arc<dyn Wake>);
    publisher.finish(State::Ended {
        detail: "played".into(),
    });
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert_eq!(stream.state().as_str(), "ended");
}

#[test]
fn viewers_outlive_a_restart_of_the_source() {
    let (stream, start) = (stream(), Instant::now());
    let later = start + Duration::from_secs(3);
    let mut first = stream.publish(tracks(), start).expect("free");
    assert!(matches!(
        stream.publish(tracks(), start),
        Err(PublishError::Busy { .. })
    ));
    let before = first
        .push(unit(0, 5_000, true, start), start)
        .expect("track 0")
        .expect("published");
    first.finish(State::Down {
        detail: "connection lost".into(),
    });
    assert_eq!(stream.state().detail(), Some("connection lost"));

    let mut subscription = stream.subscribe(Arc::new(WakeCount::default()));
    let mut second = stream.publish(tracks(), later).expect("free again");
    let after = second
        .push(unit(0, 0, true, later), later)
        .expect("track 0")
        .expect("published");
    assert_eq!(after.index, before.index + 1);
    assert_eq!(after.first_packet, before.first_packet + 1);
    assert_eq!(
        after.time.saturating_since(before.time),
        Duration::from_secs(3)
    );
    let mut out = Vec::new();
    subscription.poll(&mut out);
    assert_eq!(out.len(), 1);
    assert_eq!(stream.totals().sources, 2);
}

#[test]
fn a_source_with_another_codec_is_taken_and_begins_a_layout() {
    let (stream, start) = (stream(), Instant::now());
    let mut first = stream.publish(tracks(), start).expect("free");
    let before = stream.layout();
    let wakes = Arc::new(WakeCount::default());
    let mut subscription = stream.subscribe(Arc::clone(&wakes) as Arc<dyn Wake>);
    for _ in 0..3 {
        first.push(unit(0, 0, true, start), start).expect("track 0");
    }
    drop(first);
    assert_eq!(stream.layout(), before, "the next source may be the same");
    let woken = wakes.0.load(Ordering::Relaxed);

    let changed = vec![Track::new(Codec::Vp8), Track::audio(Codec::Opus, 2)];
    let mut second = stream.publish(changed, start).expect("another codec");
    assert_ne!(stream.layout(), before);
    assert_eq!(wakes.0.load(Ordering::Relaxed), woken + 1, "readers look");
    assert_eq!(stream.tracks()[0].codec, Codec::Vp8);
    let mut out = Vec::new();
    subscription.poll(&mut out);
    assert!(out.is_empty(), "no unit of the old layout is left");
    assert_eq!(subscription.layout(), stream.layout());
    assert_eq!(subscription.missed(), 0);
    assert!(stream.since_keyframe(TrackIndex(0)).is_empty());
    assert!(stream.find(TrackIndex(0), 0).is_none(), "nothing to repair");
    let next = second
        .push(unit(0, 0, true, start), start)
        .expect("track 0")
        .expect("published");
    assert_eq!((next.index, next.first_packet), (3, 3), "numbers go on");
    subscription.poll(&mut out);
    assert_eq!(out.len(), 1);
}

#[test]
fn a_reader_gets_a_new_layout_from_its_first_unit_on() {
    let (stream, start) = (stream(), Instant::now());
    drop(stream.publish(tracks(), start).expect("free"));
    let mut subscription = stream.subscribe(Arc::new(WakeCount::default()));
    let changed = vec![Track::audio(Codec::Opus, 2)];
    let mut second = stream.publish(changed, start).expect("another layout");
    for _ in 0..2 {
        second
            .push(unit(0, 0, true, start), start)
            .expect("track 0");
    }
    let mut out = Vec::new();
    subscription.poll(&mut out);
    assert_eq!((out.len(), subscription.missed()), (2, 0));
    assert_eq!(subscription.layout(), stream.layout());
}

#[test]
fn another_resolution_or_number_of_tracks_keeps_the_layout() {
    let (stream, start) = (stream(), Instant::now());
    drop(stream.publish(tracks(), start).expect("free"));
    let layout = stream.layout();
    let mut wider = tracks();
    wider[0].video.width = 1920;
    drop(stream.publish(wider, start).expect("the same codecs"));
    drop(
        stream
            .publish(tracks()[..1].to_vec(), start)
            .expect("no audio"),
    );
    assert_eq!(stream.layout(), layout, "viewers stay");
    // Viewers that negotiated Opus are still there, although the last source had no audio.
    let other_audio = vec![tracks()[0].clone(), Track::audio(Codec::Aac, 2)];
    drop(stream.publish(other_audio, start).expect("AAC"));
    assert_ne!(stream.layout(), layout);
    assert_eq!(
        stream.publish(Vec::new(), start).expect_err("no tracks"),
        PublishError::NoTracks
    );
}

#[test]
fn a_publisher_that_learns_more_of_its_tracks_says_so() {
    let (stream, start) = (stream(), Instant::now());
    let mut publisher = stream.publish(tracks(), start).expect("free");
    let wakes = Arc::new(WakeCount::default());
    let _subscription = stream.subscribe(Arc::clone(&wakes) as Arc<dyn Wake>);
    let mut known = tracks();
    known[0].video.reordered = true;
    publisher.describe(&known).expect("the same codecs");
    assert!(stream.tracks()[0].video.reordered);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "those who read it look");
    let fewer = publisher.describe(&known[..1]).expect_err("one is missing");
    assert!(matches!(fewer, PublishError::NoSuchTrack { .. }));
    known.swap(0, 1);
    let changed = publisher.describe(&known).expect_err("other codecs");
    assert!(matches!(
        changed,
        PublishError::TrackChanged { track: 0, .. }
    ));
    assert_eq!(stream.tracks().len(), 2);
}

#[test]
fn viewers_are_counted_while_their_tokens_live() {
    let stream = stream();
    let token = stream.add_viewer();
    assert_eq!(stream.viewers(), 1);
    drop(token);
    assert_eq!(stream.viewers(), 0);
}

#[test]
fn bitrate_is_that_of_the_last_seconds() {
    let (stream, start) = (stream(), Instant::now());
    let mut publisher = stream.publish(tracks(), start).expect("free");
    for step in 0..300u32 {
        let at = start + step * Duration::from_millis(10);
        publisher
            .push(unit(0, i64::from(step) * 10, false, at), at)
            .expect("track 0");
    }
    let kbps = stream.bitrate(start + Duration::from_secs(3)).bps() as f64 / 1000.0;
    assert!((kbps - 5.6).abs() < 0.2, "{kbps} kbit/s of 7 bytes a 10 ms");
}

#[test]
fn layers_of_a_track_stand_side_by_side_and_a_reader_takes_one() {
    let (stream, start) = (stream(), Instant::now());
    let layer = |rid: &str| Layer {
        rid: rid.to_owned(),
        ..Layer::default()
    };
    let video = Track::new(Codec::Vp8).with_layers(vec![layer("low"), layer("high")]);
    let mut publisher = stream.publish(vec![video], start).expect("free");
    let of_layer = |layer: u8, frame: i64| {
        let mut unit = unit(0, frame * 33, frame == 0, start);
        unit.layer = LayerIndex(layer);
        unit
    };
    let refused = publisher.push(of_layer(3, 0), start);
    assert_eq!(
        refused.err(),
        Some(PublishError::NoSuchLayer {
            track: TrackIndex(0),
            layer: 3,
            layers: 3
        })
    );
    let wake = || Arc::new(WakeCount::default()) as Arc<dyn Wake>;
    let (mut low, mut high) = (stream.subscribe(wake()), stream.subscribe(wake()));
    let high_layer = TrackLayer {
        track: TrackIndex(0),
        layer: LayerIndex(1),
    };
    high.read(&[high_layer]);
    for frame in 0..3 {
        for layer in 0..3 {
            publisher
                .push(of_layer(layer, frame), start)
                .expect("announced");
        }
    }
    let read = |subscription: &mut Subscription| {
        let mut out = Vec::new();
        subscription.poll(&mut out);
        let numbers = out
            .iter()
            .map(|unit| (unit.layer.0, unit.index, unit.first_packet));
        numbers.collect::<Vec<_>>()
    };
    assert_eq!(read(&mut low), [(0, 0, 0), (0, 1, 1), (0, 2, 2)]);
    assert_eq!(read(&mut high), [(1, 0, 0), (1, 1, 1), (1, 2, 2)]);
    assert_eq!(stream.since_keyframe(high_layer).len(), 3);
    let (found, index) = stream.find(high_layer, 1).expect("kept");
    assert_eq!((found.layer, found.index, index), (LayerIndex(1), 1, 0));
    assert_eq!(
        stream.since(TrackIndex(0), 2).len(),
        1,
        "a track alone is its base layer"
    );
}

#[test]
fn counts_are_those_of_the_base_layer_and_keyframes_are_asked_for_by_layer() {
    let (stream, start) = (stream(), Instant::now());
    let track = Track::new(Codec::Vp8).with_layers(vec![Layer::default(); 2]);
    let mut publisher = stream.publish(vec![track], start).expect("free");
    for layer in [0, 1, 1, 2] {
        let mut unit = unit(0, 0, true, start);
        unit.layer = LayerIndex(layer);
        publisher.push(unit, start).expect("announced");
    }
    assert_eq!(stream.totals().units, 1);
    let of = |layer| TrackLayer {
        track: TrackIndex(0),
        layer: LayerIndex(layer),
    };
    assert!(publisher.wanted_keyframes().is_empty());
    stream.request_keyframe_of(of(2));
    stream.request_keyframe();
    let wanted = publisher.wanted_keyframes();
    let layers = [0, 1, 2].map(|layer| wanted.has(LayerIndex(layer)));
    assert_eq!(layers, [true, false, true]);
    assert!(!publisher.keyframe_wanted(), "it was told");
}

#[test]
fn the_best_encoding_is_stated_by_the_present_source_and_wakes_readers_of_every_layer() {
    let (stream, start) = (stream(), Instant::now());
    let layered = || vec![Track::new(Codec::Vp8).with_layers(vec![Layer::default(); 2])];
    let [base, high] = [0, 2].map(|layer| TrackLayer {
        track: TrackIndex(0),
        layer: LayerIndex(layer),
    });
    let first = stream.publish(layered(), start).expect("free");
    let wakes = Arc::new(WakeCount::default());
    let mut reader = stream.subscribe(Arc::clone(&wakes) as Arc<dyn Wake>);
    reader.read(&[high]);
    assert_eq!(stream.preferred(TrackIndex(0)), base);
    let mut preference = reader.preference();
    let mut is_news = |reader: &mut Subscription| {
        reader.poll(&mut Vec::new());
        std::mem::replace(&mut preference, reader.preference()) != preference
    };
    first.prefer(high);
    assert_eq!(
        (
            stream.preferred(TrackIndex(0)),
            wakes.0.load(Ordering::Relaxed)
        ),
        (high, 1)
    );
    assert!(is_news(&mut reader));
    first.prefer(high);
    assert!(!is_news(&mut reader), "as before");
    let second = stream.take_over(SourceNote::default(), layered(), start);
    let _second = second.expect("by right");
    assert!(is_news(&mut reader));
    assert_eq!(stream.preferred(TrackIndex(0)), base, "another source");
    first.prefer(high);
    assert_eq!(stream.preferred(TrackIndex(0)), base, "it was replaced");
}

#[test]
fn receivers_choose_anew_when_a_layer_fails_or_comes_again() {
    let (stream, start) = (stream(), Instant::now());
    let described = |absence| {
        let failing = Layer {
            absence,
            ..Layer::default()
        };
        vec![Track::new(Codec::Vp8).with_layers(vec![Layer::default(), failing])]
    };
    let mut publisher = stream.publish(described(None), start).expect("free");
    let mut reader = stream.subscribe(Arc::new(WakeCount::default()));
    let mut preference = reader.preference();
    let mut is_news_that = |absence| {
        publisher.describe(&described(absence)).expect("the same");
        reader.poll(&mut Vec::new());
        std::mem::replace(&mut preference, reader.preference()) != preference
    };
    let failed = |why: &str| Some(LayerAbsence::Failed(why.to_owned()));
    assert!(!is_news_that(Some(LayerAbsence::Paused)), "it would come");
    assert!(is_news_that(failed("no answer")));
    assert!(!is_news_that(failed("still none")));
    assert!(is_news_that(None));
}
