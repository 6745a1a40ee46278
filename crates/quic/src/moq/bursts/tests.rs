//! Units from server to server over loopback.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use glassline_congestion::Algorithm;
use glassline_media::{
    Codec, Forwarded, Layer, MediaTime, MediaUnit, Stamps, Track, TrackIndex, TrackLayer,
    UnitBuilder,
};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::*;
use crate::moq::message_stream::MessageStream;
use crate::moq::{
    Grant, MessageOpener, MessageRefusal, MessageRequests, MessageStreamError, NodeAddress, Origin,
    Server, Session, connect_node,
};
use crate::{ClientEndpoint, CongestionControl, Identity};

/// Timeout of every wait, longer than any of them takes.
const PATIENCE: Duration = Duration::from_secs(30);

const DEADLINE: Duration = Duration::from_secs(60);

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("in time")
}

fn congestion() -> CongestionControl {
    CongestionControl::new(Algorithm::Cubic)
}

fn name(text: &str) -> NodeName {
    text.parse().expect("a name")
}

/// A server with a collection for other servers.
struct Node {
    origin: Origin,
    address: NodeAddress,
    clock: NodeClock,
    /// Requests for messages, of each session.
    requests: mpsc::UnboundedReceiver<MessageRequests>,
    _task: tokio::task::JoinHandle<()>,
}

fn node() -> Node {
    let identity = Identity::self_signed(vec!["localhost".to_owned()], SystemTime::now());
    let identity = identity.expect("a certificate");
    let server = Server::bind((Ipv4Addr::LOCALHOST, 0).into(), &identity).expect("a free port");
    let address = NodeAddress {
        host: "127.0.0.1".to_owned(),
        port: server.local_addr().expect("bound").port(),
        sha256: identity.fingerprint(),
    };
    let origin = Origin::with_deadline(DEADLINE);
    let clock = NodeClock::since(Instant::now());
    let grant = Grant {
        read: Some(origin.clone()),
        node: Some(clock),
        ..Grant::default()
    };
    let (to, requests) = mpsc::unbounded_channel();
    let task = tokio::spawn(async move {
        let mut sessions = Vec::new();
        while let Some(incoming) = server.accept(congestion, |_| false).await {
            let request = incoming.request().await.expect("a request");
            assert_eq!(request.query(), "node=edge");
            let session = request.grant(grant.clone()).await.expect("just opened");
            let requests = session.take_message_requests().expect("of a server");
            // A test may not be interested.
            let _ = to.send(requests);
            assert!(session.take_message_requests().is_none(), "taken once");
            sessions.push(session);
        }
    });
    Node {
        origin,
        address,
        clock,
        requests,
        _task: task,
    }
}

async fn connect(node: &Node) -> Session {
    let endpoint = ClientEndpoint::new().expect("a socket");
    // A clock that shows something else than that of the node.
    let clock = NodeClock::since(Instant::now() - Duration::from_secs(1000));
    let session = connect_node(&endpoint, &node.address, "node=edge", congestion(), clock);
    session.await.expect("the node is there")
}

fn provenance() -> Provenance {
    Provenance {
        epoch: 7,
        node: name("origin"),
        incarnation: 9,
        path: vec![name("origin")],
    }
}

/// Tracks that ordinary readers could not be offered, and layers.
fn tracks() -> Vec<Track> {
    let layers = vec![Layer::default(), Layer::default()];
    vec![
        Track::new(Codec::Jpeg).with_layers(layers),
        Track::audio(Codec::Pcma, 1),
        Track::audio(Codec::Opus, 2),
    ]
}

fn unit(of: TrackLayer, number: i64, keyframe: bool) -> MediaUnit {
    let time = MediaTime::from_nanos(number * 20_000_000);
    let stamps = Stamps::arrived(Instant::now());
    if of.track == TrackIndex(2) {
        let forwarded = Forwarded {
            gap: 2,
            timestamp: u32::MAX - 5,
        };
        let voice = UnitBuilder::forward(b"voice", forwarded, of.track, time, stamps);
        return voice.expect("has a packet");
    }
    let mut builder = UnitBuilder::default();
    builder.frame_only(&[0, 0, 1]);
    for part in 0..40u8 {
        builder.wire_only(&[0x7c, part]);
        builder.coded(&[part; 1000]);
        builder.end_packet();
    }
    let unit = builder.build(of.track, time, keyframe, stamps);
    let mut unit = unit.expect("has packets");
    unit.layer = of.layer;
    unit
}

/// Serves the next request with `broadcast`.
async fn serve(requests: &NodeRequests, broadcast: &UnitBroadcast) {
    let request = soon(requests.next()).await.expect("a request");
    assert_eq!(
        (request.name(), request.asking()),
        ("cam", &[name("edge")][..])
    );
    assert!(!request.is_loop(&name("origin")));
    request.accept(broadcast);
}

#[tokio::test]
async fn units_of_every_kind_arrive_as_they_were_with_all_stamps() {
    let node = node();
    let requests = node.origin.serve_nodes().expect("a new collection");
    let mut broadcast = node.origin.units("cam", node.clock, DEADLINE).expect("new");
    broadcast
        .describe(&provenance(), &tracks(), None)
        .expect("new");
    let session = connect(&node).await;
    let asking = [name("edge")];
    let (reader, ()) = tokio::join!(
        session.read_units(&asking, "cam", 1),
        serve(&requests, &broadcast)
    );
    let mut reader = reader.expect("accepted");
    let catalog = soon(reader.catalog()).await.expect("valid").expect("one");
    assert_eq!(
        (&catalog.provenance, &catalog.tracks),
        (&provenance(), &tracks())
    );
    let layers = |track: usize, layer: u8| TrackLayer {
        track: TrackIndex(track),
        layer: glassline_media::LayerIndex(layer),
    };
    // By then the clocks have been compared.
    tokio::time::sleep(Duration::from_millis(200)).await;
    for of in [layers(0, 0), layers(0, 1), layers(1, 0), layers(2, 0)] {
        let track = &catalog.tracks[of.track.get()];
        let named = &catalog.layers[of.track.get()][usize::from(of.layer.0)];
        let units = soon(reader.read(of, track.kind(), named, DEADLINE)).await;
        let mut units = units.expect("in the catalog");
        for number in 0..25 {
            let sent = unit(of, number, number % 10 == 0);
            assert!(broadcast.write(&sent));
            let received = soon(units.next()).await.expect("valid").expect("more");
            let stamps = received.parts.stamps;
            let mut expected = sent.parts();
            expected.stamps = stamps;
            assert_eq!(received.parts, expected);
            // The whole way took place within this test's process.
            let relay = stamps.relay.expect("the clocks are compared");
            assert!(relay.error < Duration::from_millis(500), "{relay:?}");
            let (early, late) = (
                sent.stamps.origin - relay.error,
                sent.stamps.origin + relay.error,
            );
            assert!((early..=late).contains(&stamps.origin), "{relay:?}");
        }
        assert_eq!(units.late(), 0);
    }
}

#[tokio::test]
async fn a_codec_that_changes_begins_other_tracks_of_the_same_broadcast() {
    let node = node();
    let requests = node.origin.serve_nodes().expect("a new collection");
    let mut broadcast = node.origin.units("cam", node.clock, DEADLINE).expect("new");
    broadcast
        .describe(&provenance(), &tracks(), None)
        .expect("new");
    let session = connect(&node).await;
    let asking = [name("edge")];
    let (reader, ()) = tokio::join!(
        session.read_units(&asking, "cam", 1),
        serve(&requests, &broadcast)
    );
    let mut reader = reader.expect("accepted");
    let first = soon(reader.catalog()).await.expect("valid").expect("one");
    let mut same = tracks();
    same[1].format_parameters = "ptime=20".to_owned();
    broadcast
        .describe(&provenance(), &same, None)
        .expect("it goes on");
    let second = soon(reader.catalog()).await.expect("valid").expect("one");
    assert_eq!((&second.layers, &second.tracks), (&first.layers, &same));
    let other = vec![Track::new(Codec::Vp8)];
    broadcast
        .describe(&provenance(), &other, None)
        .expect("it goes on");
    let third = soon(reader.catalog()).await.expect("valid").expect("one");
    assert_eq!(third.tracks, other);
    assert_ne!(third.layers[0][0], first.layers[0][0]);
    broadcast.finish();
    assert!(soon(reader.catalog()).await.expect("valid").is_none());
}

#[tokio::test]
async fn requests_for_keyframes_reach_the_server_that_offers_the_stream() {
    let node = node();
    let requests = node.origin.serve_nodes().expect("a new collection");
    let mut broadcast = node.origin.units("cam", node.clock, DEADLINE).expect("new");
    broadcast
        .describe(&provenance(), &tracks(), None)
        .expect("new");
    let session = connect(&node).await;
    let asking = [name("edge")];
    let (reader, ()) = tokio::join!(
        session.read_units(&asking, "cam", 1),
        serve(&requests, &broadcast)
    );
    let mut reader = reader.expect("accepted");
    let catalog = soon(reader.catalog()).await.expect("valid").expect("one");
    let track = TrackLayer::from(TrackIndex(0));
    let kind = catalog.tracks[0].kind();
    let units = reader.read(track, kind, &catalog.layers[0][0], DEADLINE);
    let units = soon(units).await.expect("in the catalog");
    units.keyframes().request();
    soon(broadcast.keyframe_requested()).await;
}

#[tokio::test]
async fn a_server_learns_why_it_does_not_get_a_stream() {
    let node = node();
    let requests = node.origin.serve_nodes().expect("a new collection");
    let session = connect(&node).await;
    let all = [
        RequestRefusal::NotFound,
        RequestRefusal::Loop,
        RequestRefusal::Superseded,
    ];
    for (attempt, refusal) in all.into_iter().enumerate() {
        let asking = [name("edge"), name("origin")];
        let refuse = async {
            let request = soon(requests.next()).await.expect("a request");
            assert!(request.is_loop(&name("origin")) && !request.is_loop(&name("other")));
            request.refuse(refusal);
        };
        let reading = session.read_units(&asking, "cam", attempt as u64);
        let (reader, ()) = tokio::join!(soon(reading), refuse);
        let error = match reader {
            Err(error) => error,
            // The route is there; what it leads to shows with the first track.
            Ok(mut reader) => soon(reader.catalog()).await.expect_err("refused"),
        };
        assert!(
            matches!(error, ReadError::Refused(why) if why == refusal),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn the_session_ends_soon_after_the_other_server_died() {
    let node = node();
    let session = Arc::new(connect(&node).await);
    let since = Instant::now();
    // Its socket is closed without a word.
    node._task.abort();
    soon(session.ended()).await;
    assert!(
        since.elapsed() < Duration::from_secs(10),
        "{:?}",
        since.elapsed()
    );
}

#[tokio::test]
async fn messages_pass_both_ways_or_are_refused_with_a_reason() {
    let mut node = node();
    let session = connect(&node).await;
    let mut requests = soon(node.requests.recv()).await.expect("a session");
    let opener = |name: &str| MessageOpener::new(name.to_owned(), Arc::clone(&session.link));
    let opened = soon(opener("hall/cam 1").open()).await;
    let (mut sender, mut receiver) = opened.expect("the node is there");
    let request = soon(requests.next()).await.expect("a request");
    assert_eq!(request.name(), "hall/cam 1");
    let (mut back, mut heard) = request.accept();
    let mut word = [0; 4];
    soon(sender.write(&mut [Bytes::from("le"), Bytes::from("ft")]))
        .await
        .expect("open");
    assert_eq!(soon(heard.fill(&mut word)).await, Ok(true));
    assert_eq!(&word, b"left");
    soon(back.write(&mut [Bytes::from("here")]))
        .await
        .expect("open");
    assert_eq!(soon(receiver.chunk(64)).await, Ok(Bytes::from("here")));
    drop((back, heard));
    assert_eq!(soon(receiver.fill(&mut word)).await, Ok(false), "the end");
    // A request that is refused, and one that is forgotten.
    let (_sender, mut refused) = soon(opener("door").open()).await.expect("open");
    let request = soon(requests.next()).await.expect("a request");
    request.refuse(MessageRefusal::Off);
    let off = MessageStreamError::Refused(MessageRefusal::Off);
    assert_eq!(soon(refused.fill(&mut word)).await, Err(off));
}

#[tokio::test]
async fn streams_that_only_begin_like_messages_disturb_nothing() {
    let mut node = node();
    let session = connect(&node).await;
    let mut requests = soon(node.requests.recv()).await.expect("a session");
    let asked = async |bytes: &'static [u8]| {
        let (send, receive) = session.link.open_bi().await.expect("open");
        let (mut sender, mut receiver) = MessageStream::new(send, receive).split();
        let written = sender.write(&mut [Bytes::from_static(bytes)]).await;
        written.expect("open");
        receiver.fill(&mut [0; 1]).await
    };
    let version = soon(asked(b"\xffmessag\x02\x00\x03cam")).await;
    assert_eq!(version, Err(MessageRefusal::Version.into()));
    for strange in [
        &b"\xffnothing at all"[..],
        b"\xffmessag\x01\xff\xff",
        b"\xffmessag\x01\x00\x02\xff\xfe",
    ] {
        let answered = soon(asked(strange)).await;
        assert!(matches!(answered, Ok(false) | Err(_)), "{answered:?}");
    }
    // One that never ends its header, beside a good one.
    let (mut slow, _answers) = session.link.open_bi().await.expect("open");
    slow.write_all(b"\xff").await.expect("open");
    let opener = MessageOpener::new("cam".to_owned(), Arc::clone(&session.link));
    let _opened = soon(opener.open()).await.expect("open");
    let request = soon(requests.next()).await.expect("a request");
    assert_eq!(request.name(), "cam");
}
