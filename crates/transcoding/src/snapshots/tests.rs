//! Keyframes of the built-in clip as images, and clients that ask and hang up.

use std::net::Ipv4Addr;

use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use glassline_hub::{Hub, Publisher, StreamName};
use glassline_media::{
    Codec, Layer, LayerAbsence, MediaTime, Stamps, Track, TrackIndex, UnitBuilder,
};
use glassline_rtp::payload::{Packetizer, Recovery, recovery};

use super::*;

static VIDEO: &[u8] = include_bytes!("../../../../assets/demo.h264");
static AUDIO: &[u8] = include_bytes!("../../../../assets/demo.ogg");

const CLIENT: SourcePrefix = SourcePrefix::V4(Ipv4Addr::LOCALHOST);

/// Returns the first keyframe of the built-in clip, of 1280 by 720.
pub(super) fn keyframe() -> Vec<u8> {
    let mut clip = glassline_demux::from_bytes(VIDEO, AUDIO).expect("the clip is whole");
    let frames = std::iter::from_fn(|| clip.next_frame().expect("a good frame"));
    let mut videos = frames.filter(|it| it.keyframe && it.data.starts_with(&[0, 0]));
    videos.next().expect("a keyframe").data.to_vec()
}

/// Publishes `keyframe` as the newest of `stream`.
fn publish(stream: &Arc<Stream>, keyframe: &[u8]) -> Publisher {
    let now = Instant::now();
    let publisher = stream.publish(vec![Track::new(Codec::H264)], now);
    let mut publisher = publisher.expect("free");
    let mut builder = UnitBuilder::default();
    for piece in keyframe.chunks(1_000) {
        builder.push(piece);
    }
    let unit = builder.build(TrackIndex(0), MediaTime::ZERO, true, Stamps::arrived(now));
    let pushed = publisher.push(unit.expect("a unit"), now);
    pushed.expect("room");
    publisher
}

fn width(width: u16) -> SizeLimit {
    SizeLimit {
        width: Some(width),
        height: None,
    }
}

fn stream(hub: &Hub) -> Arc<Stream> {
    let name = StreamName::parse("cam").expect("a name");
    hub.admit(name).expect("room")
}

#[tokio::test]
async fn a_stream_without_keyframe_is_asked_for_one() {
    let hub = Hub::default();
    let stream = stream(&hub);
    let tracks = vec![Track::audio(Codec::Opus, 2), Track::new(Codec::H264)];
    let publisher = stream.publish(tracks, Instant::now()).expect("free");
    assert!(!publisher.keyframe_wanted());
    let snapshots = Snapshots::default();
    let refused = snapshots
        .of(&stream, None, SizeLimit::default(), CLIENT)
        .await;
    assert!(
        matches!(refused, Err(NoSnapshot::NoKeyframe)),
        "{refused:?}"
    );
    assert!(publisher.keyframe_wanted());
}

#[tokio::test]
async fn what_cannot_be_decoded_is_named() {
    let hub = Hub::default();
    let stream = stream(&hub);
    let snapshots = Snapshots::default();
    let refused = snapshots
        .of(&stream, None, SizeLimit::default(), CLIENT)
        .await;
    assert!(matches!(refused, Err(NoSnapshot::NoVideo)), "no source yet");
    let audio = vec![Track::audio(Codec::Opus, 2)];
    drop(stream.publish(audio, Instant::now()).expect("free"));
    let refused = snapshots
        .of(&stream, None, SizeLimit::default(), CLIENT)
        .await;
    assert!(matches!(refused, Err(NoSnapshot::NoVideo)), "{refused:?}");
    let video = vec![Track::new(Codec::Vp9)];
    let publisher = stream.publish(video, Instant::now()).expect("free");
    let refused = snapshots
        .of(&stream, None, SizeLimit::default(), CLIENT)
        .await;
    let refused = refused.expect_err("VP9").to_string();
    assert!(refused.contains("VP9"), "{refused}");
    drop(publisher);
}

#[test]
fn tags_are_of_the_bytes() {
    assert_eq!(entity_tag(b""), "\"cbf29ce484222325\"");
    assert_eq!(entity_tag(b"a"), "\"af63dc4c8601ec8c\"");
}

#[tokio::test]
async fn the_image_of_a_client_that_hung_up_is_kept_for_the_next_one() {
    let hub = Hub::default();
    let stream = stream(&hub);
    let _publisher = publish(&stream, &keyframe());
    let snapshots = Snapshots::default();
    // Each is polled once, and dropped like the request of a client that hangs up.
    for pixels in 0..200 {
        let asked = snapshots.of(&stream, None, width(320 + pixels), CLIENT);
        let _ = asked.now_or_never();
    }
    let made = loop {
        let subject = Subject {
            stream: stream.name().clone(),
            layer: LayerIndex::BASE,
        };
        let kept = snapshots
            .cache
            .lock()
            .recent(&subject, width(320), Instant::now());
        match kept {
            Some(Kept::Image(made)) => break made,
            _ => tokio::task::yield_now().await,
        }
    };
    let same = snapshots.of(&stream, None, width(320), CLIENT).await;
    assert!(Arc::ptr_eq(&same.expect("an image"), &made));
    // Nothing is left of the others.
    while snapshots.turns.lock().values().any(BlockingPool::is_used) {
        tokio::task::yield_now().await;
    }
    drop(snapshots.decoders.place().await);
}

#[tokio::test]
async fn the_turn_of_an_address_lasts_as_long_as_its_work() {
    let hub = Hub::default();
    let stream = stream(&hub);
    let _publisher = publish(&stream, &keyframe());
    let snapshots = Snapshots::default();
    let turn = snapshots.turn(CLIENT).await;
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let abandoned = snapshots.decoders.run(move || {
        let _turn = turn;
        let _ = ends.recv();
    });
    assert!(abandoned.now_or_never().is_none());
    assert!(
        snapshots.turn(CLIENT).now_or_never().is_none(),
        "a thread works for it"
    );
    assert!(snapshots.decoders.place().now_or_never().is_none());
    drop(end);
    drop(snapshots.turn(CLIENT).await);
    drop(snapshots.decoders.place().await);
}

#[tokio::test]
async fn an_address_that_asks_for_everything_delays_another_one_by_one_image() {
    let hub = Hub::default();
    let stream = stream(&hub);
    let _publisher = publish(&stream, &keyframe());
    let snapshots = Snapshots::default();
    let decoder = snapshots.decoders.place().await;
    let other = SourcePrefix::V4(Ipv4Addr::new(192, 0, 2, 1));
    let sizes = [320, 384, 480, 640, 960].map(|pixels| (CLIENT, pixels));
    let asked = sizes.into_iter().chain([(other, 160)]);
    let mut images: FuturesUnordered<_> = asked
        .map(|(client, pixels)| {
            let image = snapshots.of(&stream, None, width(pixels), client);
            image.map(move |image| (client, image))
        })
        .collect();
    // All of them wait before the first is served.
    assert!(images.next().now_or_never().is_none());
    drop(decoder);
    let mut served = Vec::new();
    while let Some((client, image)) = images.next().await {
        image.expect("an image");
        served.push(client);
    }
    let place = served.iter().position(|it| *it == other);
    assert!(place.is_some_and(|it| it <= 1), "{served:?}");
}

#[tokio::test]
async fn a_keyframe_that_cannot_be_decoded_is_not_decoded_for_everybody() {
    let hub = Hub::default();
    let stream = stream(&hub);
    let _publisher = publish(&stream, &keyframe()[..40]);
    let snapshots = Snapshots::default();
    let refused = snapshots
        .of(&stream, None, SizeLimit::default(), CLIENT)
        .await;
    assert!(
        matches!(refused, Err(NoSnapshot::Undecodable(_))),
        "{refused:?}"
    );
    let again = snapshots
        .of(&stream, None, width(320), CLIENT)
        .now_or_never();
    assert!(
        matches!(again, Some(Err(NoSnapshot::Undecodable(_)))),
        "{again:?}"
    );
}

/// A source of intra refresh without its IDR picture, whose frames are published one by one.
struct Refreshing {
    film: std::vec::IntoIter<(Vec<u8>, bool)>,
    packetizer: Packetizer,
    publisher: Publisher,
}

impl Refreshing {
    fn of(stream: &Arc<Stream>) -> Self {
        let sample = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../demux/samples/intra-refresh.h264"
        );
        let options = glassline_demux::Options {
            once: true,
            ..glassline_demux::Options::default()
        };
        let mut film = glassline_demux::open(&[sample.into()], &options).expect("a sample");
        let film = std::iter::from_fn(|| film.next_frame().expect("a good frame"));
        let film = film.map(|frame| {
            let is_start = matches!(recovery(Codec::H264, &frame.data), Recovery::Frames(_));
            (frame.data.to_vec(), is_start)
        });
        let film: Vec<_> = film.skip_while(|(_, is_start)| !is_start).collect();
        let track = Track::new(Codec::H264);
        let packetizer = Packetizer::new(&track);
        let publisher = stream.publish(vec![track], Instant::now());
        Self {
            film: film.into_iter(),
            packetizer,
            publisher: publisher.expect("free"),
        }
    }

    /// Publishes `count` frames, or those that are left.
    fn publish(&mut self, count: usize) {
        for (data, is_start) in self.film.by_ref().take(count) {
            let now = Instant::now();
            let mut builder = UnitBuilder::default();
            let packetized = self.packetizer.packetize(&data, &mut builder);
            packetized.expect("a frame");
            let stamps = Stamps::arrived(now);
            let unit = builder.build(TrackIndex(0), MediaTime::ZERO, is_start, stamps);
            let pushed = self.publisher.push(unit.expect("a unit"), now);
            pushed.expect("room");
        }
    }
}

#[tokio::test]
async fn a_source_of_intra_refresh_is_shown_once_its_frame_is_right() {
    let hub = Hub::default();
    let stream = stream(&hub);
    let snapshots = Snapshots::default();
    let mut source = Refreshing::of(&stream);
    source.publish(1);
    let mut image = Box::pin(snapshots.of(&stream, None, SizeLimit::default(), CLIENT));
    assert!(image.as_mut().now_or_never().is_none(), "it is not right");
    let decoder = snapshots.decoders.place().now_or_never();
    assert!(decoder.is_some(), "who waits for frames holds no decoder");
    drop(decoder);
    source.publish(usize::MAX);
    let image = image.await.expect("an image");
    let kept = snapshots.of(&stream, None, SizeLimit::default(), CLIENT);
    let kept = kept.now_or_never().expect("kept").expect("an image");
    assert!(Arc::ptr_eq(&image, &kept));
    // What is in the ring is enough for the next one.
    let others = Snapshots::default();
    let image = others.of(&stream, None, width(160), CLIENT).await;
    image.expect("an image");
}

#[tokio::test]
async fn a_source_that_ends_before_its_frame_is_right_is_named() {
    let hub = Hub::default();
    let stream = stream(&hub);
    let snapshots = Snapshots::default();
    Refreshing::of(&stream).publish(2);
    let refused = snapshots
        .of(&stream, None, SizeLimit::default(), CLIENT)
        .await;
    let refused = refused.expect_err("no picture").to_string();
    assert!(refused.contains("recovery points"), "{refused}");
}

#[tokio::test]
async fn an_image_is_of_the_smallest_layer_that_is_large_enough_and_is_sent() {
    let hub = Hub::default();
    let stream = stream(&hub);
    let layer = |rid: &str, size| Layer {
        rid: rid.to_owned(),
        size: Some(size),
        ..Layer::default()
    };
    let layers = vec![layer("main", (1280, 720)), layer("sub", (640, 360))];
    let track = |codec| Track::new(codec).with_layers(layers.clone());
    let mut publisher = stream
        .publish(vec![track(Codec::H264)], Instant::now())
        .expect("free");
    let of = |wish: Option<&str>, width| {
        let wish = wish.map(|it| it.parse::<LayerWish>().expect("a layer"));
        let limit = SizeLimit {
            width,
            height: None,
        };
        layer_for(&stream, wish.as_ref(), limit).map(|it| it.0)
    };
    assert_eq!(of(None, None).ok(), Some(0));
    assert_eq!(of(None, Some(320)).ok(), Some(2), "thumbnails");
    assert_eq!(of(None, Some(900)).ok(), Some(1));
    assert_eq!(of(None, Some(4000)).ok(), Some(0));
    assert_eq!(of(Some("low"), None).ok(), Some(2));
    let error = of(Some("x"), None).expect_err("unknown").to_string();
    assert!(error.contains("main, sub"), "{error}");
    let mut paused = track(Codec::H264);
    paused.layers[1].absence = Some(LayerAbsence::Paused);
    publisher.describe(&[paused]).expect("the same track");
    assert_eq!(of(None, Some(320)).ok(), Some(1), "of those that are sent");
    assert_eq!(
        of(Some("sub"), None).ok(),
        Some(0),
        "nobody is woken for an image"
    );
    drop(publisher);
    let mut mixed = track(Codec::H265);
    mixed.layers[1].other_codec = Some(Box::new(Track::new(Codec::H264)));
    let _publisher = stream.publish(vec![mixed], Instant::now()).expect("free");
    assert_eq!(of(None, None).ok(), Some(2), "in a codec that is decoded");
}
