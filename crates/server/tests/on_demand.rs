//! Cameras on demand: dialed for a receiver of any protocol, and left after the last.

use std::time::{Duration, Instant};

use glassline_media::Kind;
use glassline_quic::moq::Role;

use crate::away::{SOON, accepted, await_view, refusing, source};
use crate::peer::Peer;
use crate::quic;
use crate::rtsp::Hand;
use crate::running::{Running, STREAM};
use crate::source::{Film, Source};

/// Connections that a camera has, each by RTSP.
fn connections(camera: &Running) -> u64 {
    camera.total("rtsp_connections")
}

/// A server that dials `camera` for its stream `door` while somebody watches, and leaves half a
/// second later.
fn on_demand(camera: &Running) -> Running {
    let address = camera.rtsp();
    Running::with_sources(vec![source(&format!(
        "door=rtsp://{address}/{STREAM}?idle_s=0.5"
    ))])
}

fn await_idle(running: &Running, camera: &Running) {
    await_view(running, "door", |view| view["state"] == "idle");
    let end = Instant::now() + SOON;
    while connections(camera) > 0 {
        assert!(Instant::now() < end, "the camera is left");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_camera_on_demand_is_dialed_for_a_viewer_and_left_after_the_last() {
    let camera = Running::start(1);
    let _source = Source::start(&camera.stream(), Film::default());
    let running = on_demand(&camera);
    let view = await_view(&running, "door", |view| view["state"] == "idle");
    assert_eq!(view["status"], "waiting");
    assert_eq!(running.admin("/readyz").status, 200, "nothing is wrong");
    // Neither a page that lists streams nor a client that looks around is a viewer.
    let idle = running.get("/door/snapshot.jpg").problem(409);
    assert!(idle["detail"].as_str().expect("text").contains("?wake"));
    for (method, path) in [
        ("OPTIONS", "/door/whep"),
        ("HEAD", "/door/whep"),
        ("GET", "/door"),
    ] {
        running.request(method, path, &[], "");
    }
    let stream = running.hub().stream("door").expect("configured");
    assert!(!stream.is_demanded());
    assert_eq!(accepted(&camera), 0, "nobody watched");

    for round in 1..=2 {
        let asks = Instant::now();
        let mut viewer = Peer::of_stream(&running, "door").expect("an answer");
        let begins = |peer: &Peer<'_>| peer.of(Kind::Video).any(|packet| packet.marker);
        assert!(viewer.run_until(SOON, begins), "a frame of the camera");
        // The camera has a keyframe a second, and its server keeps the latest for who comes.
        println!(
            "the first frame comes {:?} after the request",
            asks.elapsed()
        );
        let plays = |peer: &Peer<'_>| peer.of(Kind::Video).count() > 50;
        assert!(viewer.run_until(SOON, plays), "frames of the camera");
        assert_eq!(accepted(&camera), round);
        let view = await_view(&running, "door", |view| view["status"] == "live");
        assert_eq!(view["source"]["protocol"], "camera");
        viewer.delete();
        await_idle(&running, &camera);
        assert_eq!(stream.memory_bytes(), 0, "nobody needs the frames of then");
        assert!(!stream.tracks().is_empty(), "for an answer at once");
    }
    assert_eq!(stream.totals().sources, 2);
}

#[test]
fn rtsp_clients_and_snapshots_wait_for_a_camera_on_demand() {
    let camera = Running::start(1);
    let _source = Source::start(&camera.stream(), Film::default());
    let running = on_demand(&camera);
    let url = format!("rtsp://{}/door", running.rtsp());
    let mut client = Hand::new(running.rtsp());
    let described = client.ask("DESCRIBE", &url, "Accept: application/sdp\r\n");
    assert!(described.starts_with("RTSP/1.0 200"), "{described}");
    assert!(described.contains("m=video"), "{described}");
    let set_up = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
    let answer = client.ask("SETUP", &format!("{url}/trackID=0"), set_up);
    assert!(answer.starts_with("RTSP/1.0 200"), "{answer}");
    drop(client);
    await_idle(&running, &camera);

    let image = running.get("/door/snapshot.jpg?wake");
    assert_eq!(image.status, 501, "frames of nothing: {}", image.body);
    assert_eq!(accepted(&camera), 2);
    await_idle(&running, &camera);
}

#[test]
fn who_asks_for_a_camera_on_demand_that_fails_learns_why_at_once() {
    let (_refuses, address) = refusing();
    let text = format!("door=rtsp://{address}/?on_demand");
    let running = Running::with_sources(vec![source(&text)]);
    await_view(&running, "door", |view| view["state"] == "idle");
    let refused = Peer::of_stream(&running, "door").err();
    let refused = refused.expect("there is no camera");
    assert!(refused.header("retry-after").is_some());
    let problem = refused.problem(409);
    let detail = problem["detail"].as_str().expect("a reason");
    assert!(detail.contains("cannot connect"), "{detail}");
    let view = await_view(&running, "door", |view| view["status"] == "unreachable");
    assert!(
        view["detail"]
            .as_str()
            .expect("a reason")
            .contains("cannot connect")
    );
    let mut client = Hand::new(running.rtsp());
    let url = format!("rtsp://{}/door", running.rtsp());
    let described = client.ask("DESCRIBE", &url, "Accept: application/sdp\r\n");
    assert!(described.starts_with("RTSP/1.0 503"), "{described}");
}

/// Reads the stream `door` by MoQ until a frame comes.
async fn read_a_frame(running: &Running) {
    let session = quic::open(running, "door", Role::Subscriber).await;
    let session = session.expect("a session");
    let broadcast = quic::soon(session.subscribe("door")).await;
    let mut broadcast = broadcast.expect("it is announced");
    let catalog = quic::soon(broadcast.catalog()).await;
    let catalog = catalog.expect("good").expect("one");
    let video = &catalog.choose().expect("video and audio")[0];
    let frames = quic::soon(broadcast.read(video, SOON)).await;
    let frame = quic::soon(frames.expect("there").next()).await;
    assert!(frame.expect("good").is_some(), "a frame");
}

#[test]
fn a_moq_reader_wakes_a_camera_on_demand_that_nobody_has_watched_yet() {
    let camera = Running::start(1);
    let _source = Source::start(&camera.stream(), Film::default());
    let running = on_demand(&camera);
    for round in 1..=2 {
        quic::runtime().block_on(read_a_frame(&running));
        assert_eq!(accepted(&camera), round);
        await_idle(&running, &camera);
    }
}

#[test]
fn a_moq_reader_learns_that_a_camera_on_demand_fails_and_may_ask_again() {
    let (_refuses, address) = refusing();
    let text = format!("door=rtsp://{address}/?on_demand");
    let running = Running::with_sources(vec![source(&text)]);
    let stream = running.hub().stream("door").expect("configured");
    quic::runtime().block_on(async {
        for failures in 1..=2 {
            let session = quic::open(&running, "door", Role::Subscriber).await;
            let session = session.expect("a session");
            let broadcast = quic::soon(session.subscribe("door")).await;
            let mut broadcast = broadcast.expect("it is announced");
            let catalog = quic::soon(broadcast.catalog()).await;
            assert!(matches!(catalog, Ok(None) | Err(_)), "{catalog:?}");
            assert!(stream.failures() >= failures);
        }
    });
}

#[test]
fn a_moq_reader_gets_what_stands_in_for_a_publisher_that_was_never_there() {
    let text = "door=publisher?fallback=demo&after_s=0.2";
    let running = Running::with_sources(vec![source(text), source("demo")]);
    quic::runtime().block_on(read_a_frame(&running));
}
