//! Layers that clients name, and what sessions are told of layers.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glassline_hub::{Publisher, Stream, StreamName, Subscription, Wake};
use glassline_media::{
    Codec, Kind, Layer, LayerIndex, MediaTime, MediaUnit, Stamps, Track, TrackIndex, TrackLayer,
    UnitBuilder,
};
use glassline_quic::moq::Role;
use serde_json::{Value, json};

use crate::cluster::{eventually, node};
use crate::peer::{Peer, PeerOffer, SOON, socket};
use crate::quic::{self, soon};
use crate::running::Running;
use crate::source::{Film, Source};
use crate::whip::{self, go_live};

/// A thread that publishes `yard` in two layers, 25 frames a second. The last byte of a frame is the number
/// of its layer.
struct Layered {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Layered {
    fn start(running: &Running) -> Self {
        let name = StreamName::parse("yard").expect("a name");
        let stream = running.hub().create(name).expect("room");
        let layer = |rid: &str, side| Layer {
            rid: rid.to_owned(),
            size: Some((side, side)),
            ..Layer::default()
        };
        let layers = vec![layer("main", 64), layer("sub", 32)];
        let video = Track::new(Codec::Vp8).with_layers(layers);
        let publisher = stream.publish(vec![video], Instant::now()).expect("free");
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let thread = std::thread::spawn(move || publish(publisher, &until));
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Layered {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn publish(mut publisher: Publisher, stop: &AtomicBool) {
    const FRAME: Duration = Duration::from_millis(40);
    let start = Instant::now();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let at = start + FRAME * number;
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        let keyframe = number % 25 == 0;
        for layer in 0..3 {
            let mut payload = vec![0x10, u8::from(!keyframe)];
            if keyframe {
                payload.extend([0x02, 0x00, 0x9d, 0x01, 0x2a, 64, 0, 64, 0]);
            }
            payload.push(layer);
            let mut builder = UnitBuilder::default();
            builder.push(&payload);
            let time = MediaTime::ZERO + FRAME * number;
            let unit = builder.build(TrackIndex(0), time, keyframe, Stamps::arrived(at));
            let mut unit = unit.expect("a packet");
            unit.layer = LayerIndex(layer);
            publisher.push(unit, Instant::now()).expect("announced");
        }
    }
}

/// Reads one layer of the video of `stream`.
fn read(stream: &Arc<Stream>, layer: u8) -> Subscription {
    let mut reader = stream.subscribe(Arc::new(NoWake));
    reader.read(&[TrackLayer {
        track: TrackIndex(0),
        layer: LayerIndex(layer),
    }]);
    reader
}

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

#[test]
fn a_server_that_pulls_carries_the_layers_that_are_read_there() {
    let origin = node("origin", &[]);
    let edge = node("edge", &[&origin]);
    let _source = Layered::start(&origin);
    let _viewer = Peer::of_stream(&edge, "yard").expect("pulled");
    let pulled = edge.hub().stream("yard").expect("it is pulled");
    let _demand = pulled.demand();
    let is_paused = |place: usize| {
        let tracks = pulled.tracks();
        let layer = tracks.first().and_then(|it| it.layers.get(place).cloned());
        layer.is_some_and(|it| it.is_paused())
    };
    let at_origin = origin.hub().stream("yard").expect("published");
    let is_carried = |layer: u8| {
        let read = at_origin.layers_read(TrackIndex(0));
        read.has(LayerIndex(layer))
    };
    eventually("the layers are known, and not carried", || {
        is_paused(0) && is_paused(1) && is_carried(0)
    });
    assert!(!is_carried(1) && !is_carried(2));
    let mut small = read(&pulled, 2);
    let mut units = Vec::new();
    eventually("the frames of the small layer", || {
        small.poll(&mut units);
        units.len() > 20
    });
    assert!(units[0].keyframe, "a reader begins at a keyframe");
    let is_small = |it: &Arc<MediaUnit>| it.payload(0).and_then(<[u8]>::last) == Some(&2);
    assert!(units.iter().all(is_small));
    assert!(is_paused(0) && !is_paused(1) && is_carried(2) && !is_carried(1));
    let layers = || pulled.tracks()[0].layers.clone();
    assert_eq!([&*layers()[0].rid, &*layers()[1].rid], ["main", "sub"]);
    eventually("the rates at the origin", || {
        let rates = layers().into_iter().map(|it| it.bitrate);
        rates.flatten().filter(|it| it.bps() > 0).count() == 2
    });
    eventually("the best layer is known", || {
        pulled.preferred(TrackIndex(0)).layer != LayerIndex::BASE
    });
    eventually("the base layer is nobody's", || !is_carried(0));
    drop(small);
    eventually("nobody reads it any more", || {
        is_paused(1) && !is_carried(2)
    });
    eventually("for whoever comes", || is_carried(0));
}

/// A stream of server-sent events, as far as it came.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(running: &Running, path: &str) -> Self {
        let mut stream = running.connect_http(Ipv4Addr::LOCALHOST);
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("sent");
        Self(BufReader::new(stream))
    }

    /// Returns the data of the next event; `None` at the end of the stream.
    fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).expect("in time") == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).expect("JSON"));
            }
        }
    }
}

#[test]
fn a_viewer_subscribes_to_the_event_of_its_layers_and_unsubscribes() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let viewer = Peer::joined(&running);
    let sse = format!("{}/sse", viewer.location);
    let links = viewer.links.join(" ");
    assert!(links.contains(&format!(
        "<{sse}>; rel=\"urn:ietf:params:whep:ext:core:server-sent-events\"; events=\"layers\""
    )));
    assert!(links.contains("/layer>; rel=\"urn:ietf:params:whep:ext:core:layer\""));
    let subscribe = |body: &str| {
        let json = [("Content-Type", "application/json")];
        running.request("POST", &sse, &json, body)
    };
    let unknown = subscribe("[\"layers\", \"viewercount\"]").problem(400);
    let detail = unknown["detail"].as_str().expect("a text");
    assert!(detail.contains("no event 'viewercount'"), "{detail}");
    subscribe("[]").problem(400);
    subscribe("layers").problem(400);
    let subscribed = subscribe("[\"layers\"]");
    assert_eq!(subscribed.status, 201);
    let location = subscribed.header("location").expect("its URL");
    assert_eq!(location, format!("{sse}/layers"));
    let mut draft = Events::open(&running, location);
    assert_eq!(draft.next(), Some(json!({})), "a single encoding");
    let mut deployed = Events::open(&running, &sse);
    assert_eq!(deployed.next(), Some(json!({})));
    running.get(&sse).problem(429);
    assert_eq!(running.request("DELETE", location, &[], "").status, 200);
    assert_eq!((draft.next(), deployed.next()), (None, None));
    let mut again = Events::open(&running, &sse);
    assert_eq!(again.next(), Some(json!({})));
    viewer.delete();
    assert_eq!(again.next(), None, "the session ended");
    running.get(&sse).problem(404);
}

#[test]
fn a_viewer_begins_with_the_layer_that_its_url_names() {
    let running = Running::start(1);
    let _source = Layered::start(&running);
    let stream = running.hub().stream("yard").expect("published");
    let ask = |query: &str| {
        let path = format!("/yard/whep{query}");
        let offer = PeerOffer::to_watch();
        Peer::asking(&running, &path, &[], socket(), offer, str::to_owned)
    };
    // Keyframes have the size of the picture in front of the number.
    let is_keyframe = |payload: &[u8]| payload[1] & 1 == 0;
    for (query, layer) in [
        ("?layer=sub", 2),
        ("?layer=low", 2),
        ("?layer=32p", 2),
        ("?layer=main", 1),
    ] {
        let mut viewer = ask(query).expect("answered");
        let has_some = |peer: &Peer<'_>| peer.of(Kind::Video).count() >= 60;
        assert!(viewer.run_until(SOON, has_some), "{query}: no video");
        let frames = viewer.in_order(Kind::Video);
        let is_named = |payload: &[u8]| payload.last() == Some(&layer);
        // A layer whose rate is not known yet, as its source has just begun, comes behind the best one.
        let first = frames.iter().position(|it| is_named(&it.payload));
        let first = first.unwrap_or_else(|| panic!("{query}: never"));
        assert!(first <= 25, "{query}: after {first} frames");
        let frames = &frames[first..];
        assert!(frames.iter().all(|it| is_named(&it.payload)), "{query}");
        assert!(is_keyframe(&frames[0].payload), "{query}");
        let read = stream.layers_read(TrackIndex(0));
        assert!(read.has(LayerIndex(layer)), "{query}");
        assert_eq!(viewer.delete().status, 200);
    }
    let refusal = |query| ask(query).err().expect("refused");
    let unknown = refusal("?layer=attic").problem(422);
    let detail = unknown["detail"].as_str().expect("a text");
    assert!(
        detail.contains("no layer attic") && detail.contains("sub"),
        "{detail}"
    );
    let no_name = refusal("?layer=").problem(400);
    let detail = no_name["detail"].as_str().expect("a text");
    assert!(detail.contains("a height like 360p"), "{detail}");
}

#[test]
fn a_publisher_follows_which_layers_to_send_until_its_session_ends() {
    let running = Running::start(1);
    let mut publisher = whip::Publisher::post(&running, "/studio/whip", &[]).expect("answered");
    go_live(&mut publisher, "studio");
    let layers = format!("{}/layers", publisher.peer.location);
    let mut orders = Events::open(&running, &layers);
    assert_eq!(orders.next(), Some(json!({"layers": []})), "a single one");
    let mut second = Events::open(&running, &layers);
    assert!(second.next().is_some(), "a page that comes back");
    let refused = running.get(&layers).problem(409);
    let detail = refused["detail"].as_str().expect("a text");
    assert!(detail.contains("followed already"), "{detail}");
    drop(second);
    assert_eq!(publisher.peer.delete().status, 200);
    assert_eq!(orders.next(), None);
    running.get(&layers).problem(404);
}

#[test]
fn readers_over_quic_choose_a_layer_by_its_rendition() {
    let running = Running::start(1);
    let _source = Layered::start(&running);
    let stream = running.hub().stream("yard").expect("published");
    let is_read = |layer: u8| stream.layers_read(TrackIndex(0)).has(LayerIndex(layer));
    let runtime = quic::runtime();
    let session = runtime.block_on(quic::open(&running, "yard", Role::Subscriber));
    let session = session.expect("reading is open");
    runtime.block_on(async {
        let mut subscription = soon(session.subscribe("yard")).await.expect("live");
        let catalog = soon(subscription.catalog()).await.expect("good");
        let catalog = catalog.expect("one");
        let named = |name: &str| {
            let mut renditions = catalog.renditions.iter();
            let found = renditions.find(|it| it.name == name).cloned();
            found.unwrap_or_else(|| panic!("no {name}: {:?}", catalog.renditions))
        };
        let size = |name: &str| {
            let video = named(name).track.video;
            (video.width, video.height)
        };
        assert_eq!((size("video0"), size("video0-sub")), ((64, 64), (32, 32)));
        let deadline = Duration::from_secs(2);
        for (name, layer) in [("video0-sub", 2), ("video0", 0)] {
            let rendition = named(name);
            let frames = subscription.read(&rendition, deadline);
            let mut frames = soon(frames).await.expect("there");
            for number in 0..30 {
                let frame = soon(frames.next()).await.expect("good").expect("more");
                assert_eq!(frame.data.last(), Some(&layer), "frame {number} of {name}");
                assert!(
                    number > 0 || frame.keyframe,
                    "a reader begins at a keyframe"
                );
            }
            let others = [0, 1, 2].map(|it| it != layer && is_read(it));
            // The small layer is read for some seconds more.
            assert_eq!(others, [false, false, layer == 0], "beside {name}");
        }
    });
    drop(session);
    eventually("nobody reads a layer any more", || {
        ![0, 1, 2].into_iter().any(is_read)
    });
}
