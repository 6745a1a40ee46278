//! Servers that pull streams from each other: what viewers get, and what happens when one is lost.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glassline_config::{Cluster, ClusterOrigin, Config, Notices, PublicUrls, Rebalance, Secret};
use glassline_hub::{Publisher, Stream, StreamName};
use glassline_media::{Codec, Kind, MediaTime, Stamps, Track, TrackIndex, UnitBuilder};
use serde_json::{Value, json};

use crate::panics::fail_at;
use crate::peer::{Peer, SDP, SOON};
use crate::rtsps::data;
use crate::running::{Running, STREAM};
use crate::source::{Film, Source, VIDEO};

const SECRET: &str = "shared-by-all-servers";

fn cluster(name: &str, origins: Vec<ClusterOrigin>) -> Option<Cluster> {
    Some(Cluster {
        name: name.parse().expect("a name"),
        secret: Secret::new(SECRET).expect("a secret"),
        nats: None,
        region: "default".to_owned().try_into().expect("a name"),
        advertise: None,
        origins,
        linger_s: 1,
        drain_s: 0,
        public: PublicUrls::default(),
        redirect: true,
        rebalance: Rebalance::default(),
        viewers_per_stream: 200,
        pulls_per_stream: 32,
        mbps_max: None,
        redirect_far: false,
        notices: Notices::All,
    })
}

fn origin(at: SocketAddr, running: &Running) -> ClusterOrigin {
    ClusterOrigin {
        url: format!("quic://{at}").parse().expect("an address"),
        sha256: running.fingerprint().parse().expect("a fingerprint"),
    }
}

/// A server called `name` that pulls from `origins`.
pub(crate) fn node(name: &str, origins: &[&Running]) -> Running {
    let origins = origins.iter().map(|it| origin(it.quic(), it)).collect();
    Running::with(1, |config| config.cluster = cluster(name, origins))
}

/// A server called `name` that pulls from `origins`, which are reached by the addresses beside them.
pub(crate) fn node_with(
    name: &str,
    origins: &[(SocketAddr, &Running)],
    change: impl FnOnce(&mut Config),
) -> Running {
    let origins = origins.iter().map(|(at, it)| origin(*at, it)).collect();
    Running::with(1, |config| {
        config.cluster = cluster(name, origins);
        change(config);
    })
}

pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn video_frames(peer: &Peer<'_>) -> usize {
    peer.of(Kind::Video).filter(|it| it.marker).count()
}

/// A path to a server that can be cut without a word to anybody, as a host that loses power is.
pub(crate) struct Path {
    pub(crate) address: SocketAddr,
    is_cut: Arc<AtomicBool>,
}

impl Path {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let outside = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let inside = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let address = outside.local_addr().expect("bound");
        let is_cut = Arc::new(AtomicBool::new(false));
        let client = Arc::new(parking_lot::Mutex::new(None));
        inside.connect(server).expect("loopback");
        let back = (inside.try_clone(), outside.try_clone());
        let (Ok(answers), Ok(to_client)) = back else {
            panic!("no sockets");
        };
        let (cut, known) = (Arc::clone(&is_cut), Arc::clone(&client));
        std::thread::spawn(move || {
            let mut datagram = vec![0; 65_536];
            while let Ok((bytes, from)) = outside.recv_from(&mut datagram) {
                *known.lock() = Some(from);
                if !cut.load(Ordering::Relaxed) {
                    let _ = inside.send(&datagram[..bytes]);
                }
            }
        });
        let cut = Arc::clone(&is_cut);
        std::thread::spawn(move || {
            let mut datagram = vec![0; 65_536];
            while let Ok(bytes) = answers.recv(&mut datagram) {
                let to = *client.lock();
                if let Some(to) = to.filter(|_| !cut.load(Ordering::Relaxed)) {
                    let _ = to_client.send_to(&datagram[..bytes], to);
                }
            }
        });
        Self { address, is_cut }
    }

    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_viewer_at_the_edge_gets_every_packet_of_the_origin_as_it_was_cut() {
    let origin = node("origin", &[]);
    let source = Source::start(&origin.stream(), Film::default());
    let edge = node("edge", &[&origin]);
    let mut peer = Peer::of_stream(&edge, STREAM).expect("an answer");
    peer.await_media();
    peer.run_until(SOON, |peer| video_frames(peer) > 60);
    let sent = source.payloads(VIDEO);
    let packets = peer.in_order(Kind::Video);
    let received: Vec<&[u8]> = packets.iter().map(|it| it.payload.as_slice()).collect();
    let start = sent.iter().position(|payload| payload == received[0]);
    let start = start.expect("the first packet is one of the origin's");
    for (place, payload) in received.iter().enumerate() {
        assert_eq!(*payload, sent[start + place], "packet {place}");
    }
    assert!(peer.of(Kind::Audio).count() > 50);
    assert_eq!(
        origin.hub().stream(STREAM).expect("there").tracks(),
        edge.hub().stream(STREAM).expect("pulled").tracks()
    );
}

#[test]
fn a_stream_is_pulled_once_for_all_viewers_and_left_after_the_last_one() {
    let origin = node("origin", &[]);
    let _source = Source::start(&origin.stream(), Film::default());
    let edge = node("edge", &[&origin]);
    let peers: Vec<_> = (0..50)
        .map(|_| Peer::of_stream(&edge, STREAM).expect("an answer"))
        .collect();
    let sessions = origin.get("/api/v1/streams").json();
    assert_eq!(edge.hub().streams().len(), 1);
    let stream = edge.hub().stream(STREAM).expect("pulled");
    assert_eq!(stream.totals().sources, 1, "{sessions}");
    for peer in &peers {
        peer.delete();
    }
    drop(peers);
    drop(stream);
    eventually("the pull ends after its linger", || {
        edge.hub()
            .stream(STREAM)
            .is_none_or(|it| !it.is_published())
    });
    // And begins again for the next viewer.
    let mut peer = Peer::of_stream(&edge, STREAM).expect("an answer");
    peer.await_media();
}

/// RTSP clients ask from threads of their own, where no task can be spawned.
#[test]
fn an_rtsp_viewer_at_the_edge_gets_the_stream_of_the_origin() {
    let origin = node("origin", &[]);
    let _source = Source::start(&origin.stream(), Film::default());
    let edge = node("edge", &[&origin]);
    let url = format!("rtsp://{}/{STREAM}", edge.rtsp());
    let answer = edge.raw_rtsp(&format!("DESCRIBE {url} RTSP/1.0\r\nCSeq: 1\r\n\r\n"));
    assert!(answer.starts_with("RTSP/1.0 200"), "{answer}");
    assert!(answer.contains("application/sdp"), "{answer}");
}

#[test]
fn a_chain_of_three_servers_passes_a_stream_on_and_its_stages_add_up() {
    let origin = node("origin", &[]);
    let zero = Instant::now();
    let _source = Source::start(&origin.stream(), Film::default());
    let middle = node("middle", &[&origin]);
    let edge = node("edge", &[&middle]);
    let mut peer = Peer::of_stream(&edge, STREAM).expect("an answer");
    peer.await_media();
    peer.run_until(SOON, |peer| video_frames(peer) > 60);
    let ms = |at: Instant| (at - zero).as_secs_f64() * 1e3;
    let shown: Vec<_> = peer.of(Kind::Video).filter(|it| it.marker).collect();
    let shown = &shown[shown.len() - 20..];
    let frames: Vec<Value> = shown
        .iter()
        .map(|it| json!({"rtp_timestamp": it.timestamp, "received_ms": ms(it.at), "presented_ms": ms(it.at)}))
        .collect();
    let body =
        json!({"offset_ns": 0.0, "error_ns": 0.0, "frames": frames, "unmatched": 0, "lost": 0});
    let path = format!("{}/report", peer.location);
    let headers = [("Content-Type", "application/json")];
    let mine = edge
        .request("POST", &path, &headers, &body.to_string())
        .json();
    let lines = mine["frames"].as_array().expect("frames");
    assert!(!lines.is_empty(), "{mine}");
    for line in lines {
        let stages = line["stages"].as_object().expect("stages");
        let sum: f64 = stages.values().map(|it| it.as_f64().expect("ms")).sum();
        assert!(
            (line["sum_ms"].as_f64().expect("ms") - sum).abs() < 0.01,
            "{line}"
        );
        let relay = stages["relay"].as_f64().expect("two hops");
        assert!((0.0..5_000.0).contains(&relay), "{line}");
        assert!(
            line["error_ms"].as_f64().expect("ms") > 0.0,
            "two clocks: {line}"
        );
    }
    let local = origin.get("/api/v1/streams/cam/latency").json();
    let stages = local["stages"].as_array().expect("rows");
    assert!(stages.iter().all(|row| row["stage"] != "relay"), "{local}");
}

#[test]
fn a_ring_of_servers_answers_that_the_stream_is_nowhere_at_once() {
    // Each server needs the address of the next one before that runs.
    let reserved = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let first_at = reserved.local_addr().expect("bound");
    drop(reserved);
    let named = |config: &mut Config| {
        config.quic.certificate = Some(data("localhost.pem"));
        config.quic.key = Some(data("localhost.key.pem"));
    };
    let scout = Running::with(1, named);
    let sha256 = scout.fingerprint();
    drop(scout);
    let at = |address: SocketAddr| ClusterOrigin {
        url: format!("quic://{address}").parse().expect("an address"),
        sha256: sha256.parse().expect("a fingerprint"),
    };
    let member = |name: &'static str, to: SocketAddr| {
        Running::with(1, |config| {
            named(config);
            config.cluster = cluster(name, vec![at(to)]);
        })
    };
    let third = member("third", first_at);
    let second = member("second", third.quic());
    let first = Running::with(1, |config| {
        named(config);
        config.quic.address = Some(first_at);
        config.cluster = cluster("first", vec![at(second.quic())]);
    });
    for server in [&first, &second, &third] {
        let since = Instant::now();
        let refused = Peer::of_stream(server, STREAM)
            .err()
            .expect("it is nowhere");
        assert_eq!(refused.status, 404, "{}", refused.body);
        assert!(
            since.elapsed() < Duration::from_secs(30),
            "{:?}",
            since.elapsed()
        );
    }
}

#[test]
fn viewers_stay_when_the_origin_vanishes_and_another_one_has_the_stream() {
    let (lost, other) = (node("lost", &[]), node("other", &[]));
    let _sources = [&lost, &other].map(|it| Source::start(&it.stream(), Film::default()));
    let path = Path::to(lost.quic());
    let origins = vec![origin(path.address, &lost), origin(other.quic(), &other)];
    let edge = Running::with(1, |config| config.cluster = cluster("edge", origins));
    let mut peer = Peer::of_stream(&edge, STREAM).expect("an answer");
    peer.await_media();
    peer.run_until(SOON, |peer| video_frames(peer) > 10);
    let is_read = other.hub().stream(STREAM).expect("there").is_demanded();
    assert!(!is_read, "the first one is taken");
    path.cut();
    eventually("the other origin is asked", || {
        peer.run_for(Duration::from_millis(50));
        other.hub().stream(STREAM).expect("there").is_demanded()
    });
    let before = video_frames(&peer);
    peer.run_until(SOON, |peer| video_frames(peer) > before + 30);
    assert!(peer.is_connected());
    assert_eq!(
        edge.hub().stream(STREAM).expect("pulled").totals().sources,
        2
    );
}

#[test]
fn viewers_stay_when_the_stream_at_the_origin_is_silent_and_another_one_has_it() {
    let (silent, other) = (node("silent", &[]), node("other", &[]));
    let source = Source::start(&silent.stream(), Film::default());
    let _other = Source::start(&other.stream(), Film::default());
    let edge = node("edge", &[&silent, &other]);
    let mut peer = Peer::of_stream(&edge, STREAM).expect("an answer");
    peer.await_media();
    peer.run_until(SOON, |peer| video_frames(peer) > 10);
    // Its server is well, and the connection to it.
    drop(source);
    eventually("the other origin is asked", || {
        peer.run_for(Duration::from_millis(50));
        other.hub().stream(STREAM).expect("there").is_demanded()
    });
    let before = video_frames(&peer);
    peer.run_until(SOON, |peer| video_frames(peer) > before + 30);
    assert!(peer.is_connected());
}

#[test]
fn a_silent_stream_of_the_only_origin_goes_on_without_old_frames() {
    let origin = node("origin", &[]);
    let film = Film {
        gop: 10_000,
        ..Film::default()
    };
    let source = Source::start(&origin.stream(), film);
    let edge = node("edge", &[&origin]);
    let mut peer = Peer::of_stream(&edge, STREAM).expect("an answer");
    peer.await_media();
    peer.run_until(SOON, |peer| video_frames(peer) > 10);
    drop(source);
    peer.run_for(Duration::from_secs(5));
    let silent = video_frames(&peer);
    peer.run_for(Duration::from_secs(2));
    assert_eq!(video_frames(&peer), silent, "nothing is sent twice");
    let _source = Source::start(&origin.stream(), film);
    peer.run_until(SOON, |peer| video_frames(peer) > silent + 30);
    let totals = edge.hub().stream(STREAM).expect("pulled").totals();
    assert_eq!(totals.sources, 1, "it is the same pull");
}

#[test]
fn an_offer_that_is_refused_starts_no_search() {
    let origin = node("origin", &[]);
    let edge = node("edge", &[&origin]);
    for garbage in ["", "garbage", "v=0\r\n"] {
        let refused = edge.request("POST", "/nowhere/whep", &[SDP], garbage);
        assert_eq!(refused.status, 400, "{}", refused.body);
        assert!(edge.hub().streams().is_empty(), "{garbage:?}");
    }
}

#[test]
fn a_stream_whose_search_panics_can_be_asked_for_again() {
    let origin = node("origin", &[]);
    let _source = Source::start(&origin.stream(), Film::default());
    let edge = node("edge", &[&origin]);
    fail_at(&edge, "origin-search");
    let refused = Peer::of_stream(&edge, STREAM).err().expect("it failed");
    assert_eq!(refused.status, 404, "{}", refused.body);
    assert!(edge.hub().streams().is_empty(), "nothing of it is kept");
    assert_eq!(edge.of_part("panics_total", "quic"), 1);
    let mut peer = Peer::of_stream(&edge, STREAM).expect("an answer");
    peer.await_media();
}

/// Publishes a stream of motion JPEG and linear PCM, which ordinary MoQ catalogs have no name for.
fn odd(stream: &Arc<Stream>) -> (Publisher, impl FnMut(&mut Publisher) + use<>) {
    let tracks = vec![
        Track::new(Codec::Jpeg),
        Track::audio(Codec::L16, 2).with_clock_rate(48_000),
    ];
    let publisher = stream.publish(tracks, Instant::now()).expect("free");
    let mut number = 0i64;
    let push = move |publisher: &mut Publisher| {
        for (track, payload) in [(0, vec![number as u8; 3000]), (1, vec![number as u8; 960])] {
            let mut builder = UnitBuilder::default();
            payload.chunks(1000).for_each(|part| builder.push(part));
            let now = Instant::now();
            let time = MediaTime::from_nanos(number * 20_000_000);
            let unit = builder.build(TrackIndex(track), time, true, Stamps::arrived(now));
            publisher
                .push(unit.expect("packets"), now)
                .expect("announced");
        }
        number += 1;
    };
    (publisher, push)
}

#[test]
fn motion_jpeg_and_pcm_pass_from_server_to_server() {
    let origin = node("origin", &[]);
    let (mut publisher, mut push) = odd(&origin.stream());
    let edge = node("edge", &[&origin]);
    push(&mut publisher);
    let asking = std::thread::scope(|scope| {
        let asked = scope.spawn(|| edge.get("/cam/snapshot.jpg").status);
        while !asked.is_finished() {
            push(&mut publisher);
            std::thread::sleep(Duration::from_millis(20));
        }
        asked.join().expect("no panic")
    });
    assert_ne!(asking, 404);
    let stream = edge.hub().stream(STREAM).expect("pulled");
    let codecs: Vec<_> = stream
        .tracks()
        .iter()
        .map(|it| (it.codec, it.clock_rate))
        .collect();
    assert_eq!(codecs, [(Codec::Jpeg, 90_000), (Codec::L16, 48_000)]);
    let unit = stream.since_keyframe(TrackIndex(0)).pop().expect("a frame");
    let number = unit.payload(0).expect("a packet")[0];
    let lengths: Vec<_> = unit.payloads().map(<[u8]>::len).collect();
    assert_eq!(lengths, [1000; 3]);
    assert_eq!(
        unit.coded_frame().expect("a frame").to_vec(),
        vec![number; 3000]
    );
}

#[test]
fn a_server_with_another_secret_gets_nothing_and_strangers_cost_an_origin_little() {
    let origin = node("origin", &[]);
    let _source = Source::start(&origin.stream(), Film::default());
    let forged = Running::with(1, |config| {
        config.cluster = cluster("edge", vec![self::origin(origin.quic(), &origin)]);
        let cluster = config.cluster.as_mut().expect("just set");
        cluster.secret = Secret::new("guessed").expect("a secret");
    });
    let refused = Peer::of_stream(&forged, STREAM).err().expect("no right");
    assert_eq!(refused.status, 404, "{}", refused.body);
    let edge = node("edge", &[&origin]);
    // Invented names: the first ones are asked for, the others are not.
    for number in 0..120 {
        let name = format!("invented{number}");
        assert_eq!(
            Peer::of_stream(&edge, &name).err().expect("nowhere").status,
            404
        );
    }
    assert!(edge.hub().streams().is_empty(), "nothing of it is kept");
}

#[test]
fn a_request_for_a_keyframe_at_the_edge_reaches_the_origins_source() {
    let origin = node("origin", &[]);
    let name = StreamName::parse(STREAM).expect("a name");
    let stream = origin.hub().create(name).expect("room");
    let (mut publisher, mut push) = odd(&stream);
    push(&mut publisher);
    let edge = node("edge", &[&origin]);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| edge.get("/cam/snapshot.jpg").status);
        while !asked.is_finished() {
            push(&mut publisher);
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let pulled = edge.hub().stream(STREAM).expect("pulled");
    let _demand = pulled.demand();
    let _ = publisher.keyframe_wanted();
    pulled.request_keyframe();
    eventually("the source is told", || publisher.keyframe_wanted());
}
