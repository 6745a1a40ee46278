use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use glassline_media::{Bitrate, Kind, TrackIndex};

use super::*;
use crate::publish::input::{Input, Spec};
use crate::publish::source::{Source, open};
use crate::viewers::rtsp_test_server::Server;

/// Longest wait of a test for something that comes at once on an idle machine.
const TEST_PATIENCE: Duration = Duration::from_secs(60);

fn camera(url: &str) -> Camera {
    url.parse().expect("a valid URL")
}

async fn opened(url: &str) -> Result<Source, Error> {
    let spec = Spec {
        input: Input::Camera(camera(url)),
        fps: None,
        once: false,
        live: false,
        audio: None,
        rungs: Vec::new(),
        layers: Vec::new(),
        start: Bitrate::from_bps(1_000_000),
        carries: |_| true,
    };
    open(&spec).await
}

/// Returns the next `count` units of `source`.
async fn units(source: &mut Source, count: usize) -> Vec<crate::publish::unit::Unit> {
    let mut units = Vec::new();
    while units.len() < count {
        match tokio::time::timeout(TEST_PATIENCE, source.events.recv()).await {
            Ok(Some(Event::Unit(unit))) => units.push(unit),
            other => panic!("{other:?} after {} units", units.len()),
        }
    }
    units
}

#[tokio::test]
async fn video_and_audio_of_a_camera_become_units_on_one_timeline() {
    let server = Server::start();
    let mut source = opened(&server.url()).await.expect("a camera");
    let kinds: Vec<_> = source.tracks.iter().map(Track::kind).collect();
    assert_eq!(kinds, [Kind::Video, Kind::Audio]);
    let units = units(&mut source, 60).await;
    for track in TrackIndex::first(2) {
        let times: Vec<_> = units.iter().filter(|it| it.track == track).collect();
        assert!(times.len() > 5, "{} of track {track}", times.len());
        assert!(times.windows(2).all(|pair| pair[0].time < pair[1].time));
    }
    let keyframe = units
        .iter()
        .find(|it| it.track == TrackIndex(0) && it.keyframe);
    let keyframe = keyframe.expect("a keyframe");
    assert!(
        keyframe.data.starts_with(&[0, 0, 0, 1, 0x67]),
        "its sets come first"
    );
    source.controls.stop();
    wait_until("TEARDOWN", || server.shared.torn_down.load(Relaxed) == 1).await;
}

#[tokio::test]
async fn a_camera_asks_for_the_password_of_its_url() {
    let server = Server::start();
    server.shared.guarded.store(true, Relaxed);
    let with = |user: &str| server.url().replace("rtsp://", &format!("rtsp://{user}@"));
    opened(&with("user:pass%20word"))
        .await
        .expect("the right password");
    for user in ["user:another", "stranger:pass%20word"] {
        let refused = opened(&with(user)).await.expect_err("a wrong one");
        let is_lasting = matches!(refused, Error::Camera { lasting: true, .. });
        assert!(
            is_lasting && refused.to_string().contains("refuses access"),
            "{refused}"
        );
        assert!(!refused.to_string().contains(user), "{refused}");
    }
    let missing = opened(&server.url()).await.expect_err("no password");
    assert!(missing.to_string().contains("refuses access"), "{missing}");
}

#[tokio::test]
async fn a_camera_that_closes_the_connection_is_called_again() {
    let server = Server::start();
    let mut source = opened(&server.url()).await.expect("a camera");
    let before = units(&mut source, 10).await;
    server.shared.hang_up.store(true, Relaxed);
    wait_until("the end", || server.shared.open.load(Relaxed) == 0).await;
    server.shared.hang_up.store(false, Relaxed);
    // Units of the first session may still wait.
    let again = loop {
        let unit = units(&mut source, 1).await.remove(0);
        if unit.made > before[9].made + BACKOFF_MIN / 2 {
            break unit;
        }
    };
    assert!(again.time > before[9].time, "the timeline goes on");
}

async fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "no {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A server that answers each connection's first request by `answer`. Returns its URL.
fn hostile(answer: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 4096];
            let asked = stream.read(&mut request);
            // The client hangs up; its other connections are served.
            let _ = asked.and_then(|_| answer(&mut stream));
        }
    });
    format!("rtsp://{address}/stream")
}

/// Calls a hostile camera; returns why it was given up, and after how long.
async fn given_up(url: &str, patience: Duration) -> (String, Duration) {
    let began = Instant::now();
    let camera = camera(url);
    let calling = Session::connect(&camera, |_| true, patience);
    let called = tokio::time::timeout(TEST_PATIENCE, calling).await;
    let Ok(Err(why)) = called else {
        panic!("the camera was not given up");
    };
    (why.to_string(), began.elapsed())
}

const OK: &[u8] = b"RTSP/1.0 200 OK\r\nCSeq: 1\r\n";

#[tokio::test]
async fn messages_without_an_end_are_given_up_at_their_bound() {
    let bounds = [
        "more than 8192",
        "more than 64 headers",
        "within 16384 bytes",
    ];
    for part in [&b"a"[..], b"X: a\r\n", b"X-a: 0123456789abcdef\r\n"] {
        let url = hostile(move |stream| {
            stream.write_all(OK)?;
            let parts = part.repeat(1 << 12);
            loop {
                stream.write_all(&parts)?;
            }
        });
        let (why, after) = given_up(&url, TEST_PATIENCE / 2).await;
        let is_bound = bounds.iter().any(|bound| why.contains(bound));
        assert!(is_bound, "{why}");
        assert!(after < TEST_PATIENCE / 2, "by the bound, not the deadline");
    }
}

#[tokio::test]
async fn a_body_that_is_too_long_is_given_up_when_it_is_announced() {
    for bytes in [(1_u64 << 20) + 1, 1 << 40, u64::MAX] {
        let url = hostile(move |stream| {
            stream.write_all(OK)?;
            write!(stream, "Content-Length: {bytes}\r\n\r\n")?;
            // The body does not come; the connection stays open.
            stream.read(&mut [0; 1]).map(drop)
        });
        let (why, after) = given_up(&url, TEST_PATIENCE / 2).await;
        assert!(why.contains(&format!("a body of {bytes} bytes")), "{why}");
        assert!(after < TEST_PATIENCE / 2, "by the bound, not the deadline");
    }
}

/// A response has one deadline, however much of it has come.
#[tokio::test]
async fn a_response_that_comes_byte_by_byte_is_given_up_at_its_deadline() {
    for (head, part) in [
        ("", &b"a"[..]),
        (
            "Content-Length: 1000000\r\n\r\nv=0\r\n",
            b"m=video 0 RTP/AVP 96\r\n",
        ),
    ] {
        let url = hostile(move |stream| {
            stream.write_all(OK)?;
            stream.write_all(head.as_bytes())?;
            loop {
                std::thread::sleep(Duration::from_millis(30));
                stream.write_all(part)?;
            }
        });
        let (why, after) = given_up(&url, Duration::from_secs(1)).await;
        assert!(why.contains("did not answer OPTIONS within 1s"), "{why}");
        assert!(after >= Duration::from_secs(1));
    }
}

#[tokio::test]
async fn frames_instead_of_a_response_are_not_kept_and_end_at_the_deadline() {
    let url = hostile(|stream| {
        let frame = [&[b'$', 0, 0xff, 0xff][..], &[0x80; 0xffff]].concat();
        loop {
            stream.write_all(&frame)?;
        }
    });
    let (why, _) = given_up(&url, Duration::from_secs(1)).await;
    let is_deadline = why.contains("did not answer OPTIONS within 1s");
    assert!(is_deadline || why.contains("cannot parse"), "{why}");
}

#[tokio::test]
async fn a_camera_that_never_answers_is_given_up() {
    let url = hostile(|stream| stream.read(&mut [0; 1]).map(drop));
    let (why, _) = given_up(&url, Duration::from_secs(1)).await;
    assert!(why.contains("did not answer OPTIONS within 1s"), "{why}");
}
