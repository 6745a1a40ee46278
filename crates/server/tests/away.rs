//! Sources that are not always there: the words for their state, cameras on demand, and what stands in.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use glassline_media::Kind;
use glassline_quic::moq::Role;
use glassline_server::ingest::SourceSpec;
use serde_json::Value;
use tokio::net::TcpSocket;

use crate::peer::Peer;
use crate::quic;
use crate::rtsp::Hand;
use crate::running::{Running, STREAM};
use crate::source::{Film, Source};

/// Longest wait for something that takes some hundred milliseconds on an idle machine.
const SOON: Duration = Duration::from_secs(60);

/// Waits until `done` is true of the API's view of a stream, and returns the view.
fn await_view(running: &Running, stream: &str, done: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + SOON;
    loop {
        let view = running.get(&format!("/api/v1/streams/{stream}")).json();
        if done(&view) {
            return view;
        }
        assert!(Instant::now() < end, "{view}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns a port that refuses connections for as long as the socket lives: nobody listens on it.
fn refusing() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().expect("a socket");
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    socket.bind(any).expect("a port");
    let address = socket.local_addr().expect("bound");
    (socket, address)
}

fn source(text: &str) -> SourceSpec {
    SourceSpec::parse(text).expect("a source")
}

#[test]
fn a_camera_that_refuses_connections_is_unreachable_and_says_why() {
    let (_refuses, address) = refusing();
    let running = Running::with_sources(vec![source(&format!("door=rtsp://{address}/"))]);
    let view = await_view(&running, "door", |view| view["status"] == "unreachable");
    let detail = view["detail"].as_str().expect("a reason");
    assert!(detail.contains("cannot connect"), "{detail}");
    assert_eq!(view["silent_s"], Value::Null);
    let rows = running.metric("stream_status");
    let of = |status: &str| format!("stream=\"door\",status=\"{status}\"");
    for (status, value) in [
        ("live", 0),
        ("hangs", 0),
        ("waiting", 0),
        ("unreachable", 1),
    ] {
        let row = rows.iter().find(|(labels, _)| *labels == of(status));
        assert_eq!(row.map(|row| row.1), Some(value), "{status}: {rows:?}");
    }
}

/// Connections that a camera has, each by RTSP.
fn connections(camera: &Running) -> u64 {
    camera.total("rtsp_connections")
}

/// Connections that a camera has accepted so far.
fn accepted(camera: &Running) -> u64 {
    camera.total("rtsp_accepted_total")
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

/// A reader finds the camera from the first time on that somebody watched it.
#[test]
fn a_moq_reader_wakes_a_camera_on_demand() {
    let camera = Running::start(1);
    let _source = Source::start(&camera.stream(), Film::default());
    let running = on_demand(&camera);
    let mut viewer = Peer::of_stream(&running, "door").expect("an answer");
    let plays = |peer: &Peer<'_>| peer.of(Kind::Video).count() > 5;
    assert!(viewer.run_until(SOON, plays), "frames of the camera");
    viewer.delete();
    await_idle(&running, &camera);
    quic::runtime().block_on(async {
        let session = quic::open(&running, "door", Role::Subscriber).await;
        let session = session.expect("a session");
        let broadcast = quic::soon(session.subscribe("door")).await;
        let mut broadcast = broadcast.expect("it is announced");
        let catalog = quic::soon(broadcast.catalog()).await;
        let catalog = catalog.expect("good").expect("one");
        let video = &catalog.choose().expect("video and audio")[0];
        let frames = quic::soon(broadcast.read(video, SOON)).await;
        let frame = quic::soon(frames.expect("there").next()).await;
        assert!(frame.expect("good").is_some(), "a frame of the camera");
    });
    assert_eq!(accepted(&camera), 2);
}

/// A camera that can go away and come back at the same address.
struct Camera {
    running: Option<Running>,
    address: SocketAddr,
}

impl Camera {
    /// Starts a camera with the built-in clip.
    fn start() -> Self {
        // An IP address of its own, whose ports nobody else takes meanwhile.
        static CAMERAS: AtomicU8 = AtomicU8::new(1);
        let number = CAMERAS.fetch_add(1, Ordering::Relaxed);
        let [low, high, ..] = std::process::id().to_le_bytes();
        let ip = Ipv4Addr::new(127, high, low, number);
        let mut camera = Self {
            running: None,
            address: SocketAddr::from((ip, 0)),
        };
        camera.come_back();
        camera.address = camera.running.as_ref().expect("it is there").rtsp();
        camera
    }

    fn go_away(&mut self) {
        let running = self.running.take().expect("it is there");
        running.stop(Duration::ZERO);
    }

    fn come_back(&mut self) {
        let address = self.address;
        let running = Running::with_sources_and(vec![source("demo")], |config| {
            config.rtsp.address = Some(address);
        });
        self.running = Some(running);
    }
}

/// Whether an access unit is a keyframe with its parameter sets: SPS, PPS, IDR.
fn is_whole_keyframe((_, types): &(u32, Vec<u8>)) -> bool {
    [7, 8, 5].iter().all(|wanted| types.contains(wanted))
}

/// The packets of `viewer` since packet `from` as access units: time, and the NAL unit types. Packets
/// that were sent again are left out, since they come behind later ones.
fn frames(viewer: &Peer<'_>, from: usize) -> Vec<(u32, Vec<u8>)> {
    let mut frames: Vec<(u32, Vec<u8>)> = Vec::new();
    let packets = viewer.of(Kind::Video).skip(from);
    for packet in packets.filter(|packet| !packet.repaired) {
        let types = match packet.payload[0] & 0x1f {
            // STAP-A: each NAL unit behind its size; FU-A: the type is in the second byte.
            24 => {
                let (mut types, mut rest) = (Vec::new(), &packet.payload[1..]);
                while let [high, low, nal @ ..] = rest {
                    types.push(nal[0] & 0x1f);
                    rest = &nal[usize::from(u16::from_be_bytes([*high, *low]))..];
                }
                types
            }
            28 => vec![packet.payload[1] & 0x1f],
            kind => vec![kind],
        };
        match frames.last_mut() {
            Some((time, known)) if *time == packet.timestamp => known.extend(types),
            _ => frames.push((packet.timestamp, types)),
        }
    }
    frames
}

#[test]
fn a_placeholder_plays_in_the_same_session_while_a_camera_is_away() {
    let mut camera = Camera::start();
    let text = format!(
        "door=rtsp://{}/demo?placeholder&after_s=0.2",
        camera.address
    );
    let running = Running::with_sources(vec![source(&text)]);
    await_view(&running, "door", |view| view["status"] == "live");
    let mut viewer = Peer::of_stream(&running, "door").expect("an answer");
    let count = |peer: &Peer<'_>| peer.of(Kind::Video).count();
    assert!(viewer.run_until(SOON, |peer| count(peer) > 50), "live");
    let stream = running.hub().stream("door").expect("configured");
    let layout = stream.layout();

    camera.go_away();
    let stands_in = |_: &Peer<'_>| stream.standing_in().is_some();
    assert!(viewer.run_until(SOON, stands_in), "something stands in");
    let view = await_view(&running, "door", |view| view["status"] == "unreachable");
    assert_eq!(view["stand_in"], "placeholder");
    let before = count(&viewer);
    let three = |peer: &Peer<'_>| frames(peer, before).len() > 3;
    assert!(viewer.run_until(SOON, three), "a frame a second");
    // Parameter sets of its own come with its keyframes, of which there is one in five seconds.
    let from = before.saturating_sub(20);
    let keyframe = |peer: &Peer<'_>| frames(peer, from).iter().any(is_whole_keyframe);
    assert!(viewer.run_until(SOON, keyframe), "a whole keyframe");
    let times: Vec<_> = frames(&viewer, before).iter().map(|it| it.0).collect();
    for pair in times.windows(2) {
        let step = pair[1].wrapping_sub(pair[0]);
        assert!((80_000..1 << 31).contains(&step), "a second: {times:?}");
    }

    camera.come_back();
    let live = |_: &Peer<'_>| stream.state().as_str() == "live";
    assert!(viewer.run_until(SOON, live), "the camera is back");
    let before = count(&viewer);
    assert!(
        viewer.run_until(SOON, |peer| count(peer) > before + 50),
        "live"
    );
    let times: Vec<_> = frames(&viewer, 0).iter().map(|it| it.0).collect();
    let steps = times.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
    assert!(
        steps.clone().all(|step| step < 1 << 31),
        "never back: {times:?}"
    );
    assert_eq!(stream.standing_in(), None);
    assert_eq!((stream.layout(), stream.totals().sources), (layout, 2));
    assert_eq!(running.sessions().0, 1, "the same session");
}

#[test]
fn a_fallback_plays_in_the_same_session_and_is_left_when_the_camera_is_back() {
    let mut camera = Camera::start();
    let spare = Camera::start();
    let text = format!(
        "door=rtsp://{}/demo?fallback=yard&after_s=0.2",
        camera.address
    );
    let other = format!("yard=rtsp://{}/demo?idle_s=0.3", spare.address);
    let running = Running::with_sources(vec![source(&text), source(&other)]);
    await_view(&running, "door", |view| view["status"] == "live");
    let mut viewer = Peer::of_stream(&running, "door").expect("an answer");
    let count = |peer: &Peer<'_>| peer.of(Kind::Video).count();
    assert!(viewer.run_until(SOON, |peer| count(peer) > 50), "live");
    let spare = spare.running.as_ref().expect("it is there");
    assert_eq!(accepted(spare), 0, "nobody needs it");

    camera.go_away();
    let stream = running.hub().stream("door").expect("configured");
    let what = Some("fallback yard");
    let stands_in = |_: &Peer<'_>| stream.standing_in().as_deref() == what;
    assert!(
        viewer.run_until(SOON, stands_in),
        "the other camera stands in"
    );
    let (before, heard) = (count(&viewer), viewer.of(Kind::Audio).count());
    let plays =
        |peer: &Peer<'_>| count(peer) > before + 100 && peer.of(Kind::Audio).count() > heard + 50;
    assert!(viewer.run_until(SOON, plays), "video and audio of it");

    camera.come_back();
    let live = |_: &Peer<'_>| stream.state().as_str() == "live";
    assert!(viewer.run_until(SOON, live), "the camera is back");
    let before = count(&viewer);
    assert!(
        viewer.run_until(SOON, |peer| count(peer) > before + 50),
        "live"
    );
    assert_eq!(running.sessions().0, 1, "the same session");
    let view = await_view(&running, "yard", |view| view["state"] == "idle");
    assert_eq!(view["status"], "waiting");
}

#[test]
fn a_fallback_is_waited_for_while_a_camera_was_never_there() {
    let (_refuses, address) = refusing();
    let text = format!("door=rtsp://{address}/?fallback=demo&after_s=0.2");
    let running = Running::with_sources(vec![source(&text), source("demo")]);
    let mut viewer = Peer::of_stream(&running, "door").expect("an answer");
    let plays = |peer: &Peer<'_>| peer.of(Kind::Video).count() > 50;
    assert!(viewer.run_until(SOON, plays), "frames of the clip");
    let view = await_view(&running, "door", |view| view["status"] == "unreachable");
    assert_eq!(view["stand_in"], "fallback demo");
}

#[test]
fn a_stream_that_clients_publish_is_listed_before_and_has_a_fallback() {
    let running =
        Running::with_sources(vec![source("cam=publisher?fallback=demo"), source("demo")]);
    let view = await_view(&running, STREAM, |view| view["state"] == "down");
    assert_eq!(view["status"], "waiting");
    let mut viewer = Peer::of_stream(&running, STREAM).expect("an answer");
    let plays = |peer: &Peer<'_>| peer.of(Kind::Video).count() > 50;
    assert!(viewer.run_until(SOON, plays), "frames of the clip");
    let stream = running.hub().stream(STREAM).expect("configured");
    let _source = Source::start(&stream, Film::default());
    assert_eq!(stream.standing_in(), None, "the publisher took over");
    let before = viewer.of(Kind::Video).count();
    let goes_on = |peer: &Peer<'_>| peer.of(Kind::Video).count() > before + 50;
    assert!(viewer.run_until(SOON, goes_on), "its frames");
}

/// Returns a frame of the built-in clip as a JPEG file.
fn image_of_the_clip() -> Vec<u8> {
    let running = Running::with_sources(vec![source("demo")]);
    await_view(&running, "demo", |view| view["packets"].as_u64() > Some(0));
    let mut connection = running.connect_http(Ipv4Addr::LOCALHOST);
    let request = "GET /demo/snapshot.jpg HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    connection.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).expect("an answer");
    let head = answer.windows(4).position(|it| it == b"\r\n\r\n");
    answer.split_off(head.expect("a head") + 4)
}

/// The image is read at start, and shown before a camera was ever there.
#[test]
fn a_given_image_is_shown_for_a_camera_that_was_never_there() {
    let name = format!("glassline-away-{}.jpg", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, image_of_the_clip()).expect("a file");
    let (_refuses, address) = refusing();
    let text = format!(
        "door=rtsp://{address}/?after_s=0.2&placeholder={}",
        path.display()
    );
    let running = Running::with_sources(vec![source(&text)]);
    let mut viewer = Peer::of_stream(&running, "door").expect("an answer");
    let shown = |peer: &Peer<'_>| frames(peer, 0).iter().any(is_whole_keyframe);
    assert!(viewer.run_until(SOON, shown), "the image");
    let view = await_view(&running, "door", |view| view["status"] == "unreachable");
    assert_eq!(view["stand_in"], "placeholder");
    std::fs::remove_file(&path).expect("there");
}
