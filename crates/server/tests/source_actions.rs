//! Sources that operators try before they make them, and sources that they restart.
//!
//! A second server is the camera.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};

use glassline_media::Kind;
use serde_json::{Value, json};

use crate::peer::{Peer, SOON};
use crate::running::{Response, Running, STREAM};
use crate::sources::{Kept, camera, eventually, is_closed, is_live, put, url};

const TRIALS: &str = "/api/v1/source-trials";

fn started(name: &str) -> (Kept, Running) {
    let kept = Kept::new(name);
    let running = Running::with(1, |config| kept.configure(config));
    (kept, running)
}

fn attempt(running: &Running, source: &str) -> Response {
    let json = [("Content-Type", "application/json")];
    let body = json!({ "source": source }).to_string();
    running.admin_send("POST", TRIALS, &json, &body)
}

fn restart(running: &Running, name: &str) -> Response {
    running.admin_post(&format!("/api/v1/sources/{name}/restart"))
}

#[test]
fn a_trial_names_the_tracks_of_a_camera_and_keeps_nothing() {
    let (camera, _film) = camera();
    let (_kept, running) = started("trial");
    let before = running.admin("/api/v1/streams").json()["total"].clone();
    let source = format!("rtsp://admin:secret@{}/{STREAM}?on_demand", camera.rtsp());
    let tried = attempt(&running, &source);
    assert_eq!(tried.status, 200, "{}", tried.body);
    let found: Value = tried.json();
    assert_eq!(found["works"], true, "{found}");
    assert_eq!(found["tracks"][0]["kind"], "video", "{found}");
    assert_eq!(found["tracks"][0]["codec"], "H264", "{found}");
    assert!(!found.to_string().contains("secret"), "{found}");
    assert_eq!(running.admin("/api/v1/streams").json()["total"], before);
    assert_eq!(running.admin("/api/v1/sources").json()["total"], 0);
    eventually("the camera is left", || {
        camera.admin("/api/v1/rtsp/clients").json()["total"] == 0
    });
    assert_eq!(attempt(&running, "publisher").json()["works"], true);
}

#[test]
fn a_trial_says_why_no_media_comes_and_tries_nothing_that_must_not_be_named() {
    let (_kept, running) = started("trial-fails");
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = closed.local_addr().expect("bound");
    drop(closed);
    let failed = attempt(&running, &format!("rtsp://ann:secret@{address}/"));
    assert_eq!(failed.status, 200, "{}", failed.body);
    let failed: Value = failed.json();
    assert_eq!(failed["works"], false, "{failed}");
    let problem = failed["problem"].as_str().expect("a reason");
    assert!(problem.contains("refused"), "{problem}");
    assert!(!failed.to_string().contains("secret"), "{failed}");
    for (source, status) in [
        ("rtsp://169.254.169.254/latest", 403),
        ("/etc/passwd", 403),
        ("rtmp://192.168.1.1/", 422),
    ] {
        attempt(&running, source).problem(status);
    }
}

#[test]
fn the_fifth_trial_at_a_time_is_refused() {
    let (_kept, running) = started("trials");
    // A camera that accepts and never answers keeps a trial for as long as it may last.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("bound");
    let body = json!({ "source": format!("rtsp://{address}/") }).to_string();
    let begin = || {
        let admin = running.listener("admin");
        let mut stream = TcpStream::connect(admin).expect("it listens");
        let head = format!(
            "POST {TRIALS} HTTP/1.1\r\nHost: {admin}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        (stream, silent.accept().expect("the camera is dialled"))
    };
    let _four: Vec<_> = (0..4).map(|_| begin()).collect();
    let refused = attempt(&running, "demo");
    assert_eq!(refused.problem(503)["title"], "Too many trials");
}

#[test]
fn viewers_stay_when_a_source_is_restarted() {
    let (camera, _film) = camera();
    let (_kept, running) = started("restarted");
    assert_eq!(
        put(&running, STREAM, &json!({ "source": url(&camera) })).status,
        201
    );
    eventually("the camera", || is_live(&running, STREAM));
    let stream = running.hub().stream(STREAM).expect("made");
    let mut peer = Peer::joined(&running);
    let sources = stream.totals().sources;
    assert_eq!(restart(&running, STREAM).status, 204);
    let is_redialled = |_: &Peer<'_>| stream.totals().sources > sources;
    assert!(peer.run_until(SOON, is_redialled), "dialled again");
    let seen = peer.of(Kind::Video).count();
    let goes_on = |peer: &Peer<'_>| peer.of(Kind::Video).count() > seen + 30;
    assert!(peer.run_until(SOON, goes_on), "its frames come");
    assert!(!is_closed(&peer), "the viewer stayed");
    let noted = running.admin("/api/v1/audit").json().to_string();
    assert!(noted.contains("restartSource"), "{noted}");
    restart(&running, "nobody").problem(404);
    assert_eq!(
        put(&running, "studio", &json!({ "source": "publisher" })).status,
        201
    );
    restart(&running, "studio").problem(409);
}
