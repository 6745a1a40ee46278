//! Sources that are not always there: the words for their state, and what stands in.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use glassline_ingest::SourceSpec;
use glassline_media::Kind;
use serde_json::Value;
use tokio::net::TcpSocket;

use crate::peer::Peer;
use crate::running::{Running, STREAM};
use crate::source::{Film, Source, VIDEO};

/// Longest wait for something that takes some hundred milliseconds on an idle machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Waits until `done` is true of the API's view of a stream, and returns the view.
pub(crate) fn await_view(running: &Running, stream: &str, done: impl Fn(&Value) -> bool) -> Value {
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
pub(crate) fn refusing() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().expect("a socket");
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    socket.bind(any).expect("a port");
    let address = socket.local_addr().expect("bound");
    (socket, address)
}

/// Connections that a camera has accepted so far.
pub(crate) fn accepted(camera: &Running) -> u64 {
    camera.total("rtsp_accepted_total")
}

pub(crate) fn source(text: &str) -> SourceSpec {
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

#[test]
fn a_publisher_that_hangs_has_a_fallback_until_its_next_keyframe() {
    let text = "cam=publisher?fallback=demo&silent_s=0.3";
    let running = Running::with_sources(vec![source(text), source("demo")]);
    let stream = running.hub().stream(STREAM).expect("configured");
    let publisher = Source::start(&stream, Film::default());
    let mut viewer = Peer::of_stream(&running, STREAM).expect("an answer");
    let count = |peer: &Peer<'_>| peer.of(Kind::Video).count();
    assert!(viewer.run_until(SOON, |peer| count(peer) > 50), "live");
    let layout = stream.layout();
    for _ in 0..2 {
        publisher.set_hangs(true);
        let stands_in = |_: &Peer<'_>| stream.standing_in().is_some();
        assert!(viewer.run_until(SOON, stands_in), "something stands in");
        let before = count(&viewer);
        let plays = |peer: &Peer<'_>| count(peer) > before + 50;
        assert!(viewer.run_until(SOON, plays), "frames of the clip");
        let view = await_view(&running, STREAM, |view| !view["stand_in"].is_null());
        assert_eq!(
            (&view["state"], &view["stand_in"]),
            (&"live".into(), &"fallback demo".into())
        );

        publisher.set_hangs(false);
        let is_back = |_: &Peer<'_>| stream.standing_in().is_none();
        assert!(viewer.run_until(SOON, is_back), "the publisher goes on");
        let kept = publisher.published().len();
        publisher.await_published(|units| units.len() > kept + 50);
        let units = publisher.published();
        let video = units.iter().filter(|unit| unit.track == VIDEO);
        let times: Vec<_> = video.map(|unit| unit.time).collect();
        assert!(times.is_sorted(), "the timeline goes on: {times:?}");
    }
    assert_eq!(stream.layout(), layout);
    assert_eq!(running.sessions().0, 1, "the same session");
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
