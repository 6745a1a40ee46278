//! Sources that operators make, change and delete over the API, and that survive a restart.
//!
//! A second server is the camera.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use glassline_config::Config;
use glassline_ingest::SourceSpec;
use glassline_media::Kind;
use glassline_server::Server;
use glassline_webrtc::Event;
use serde_json::{Value, json};

use crate::peer::{Peer, SOON};
use crate::running::{Response, Running, STREAM};
use crate::source::{Film, Source};

/// A server that keeps what is made over its API in a folder of its own.
pub(crate) struct Kept {
    folder: PathBuf,
}

impl Kept {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("glassline-sources-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("ours");
        Self { folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("state/api.json")
    }

    pub(crate) fn configure(&self, config: &mut Config) {
        config.admin.state_file = Some(self.file());
        config.admin.sources.loopback = true;
        config.admin.sources.folders = vec![self.folder.join("media")];
    }

    fn start(&self) -> Running {
        Running::with(1, |config| self.configure(config))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A server whose stream is a camera for others: a keyframe a second.
pub(crate) fn camera() -> (Running, Source) {
    let running = Running::start(1);
    let film = Film {
        gop: 30,
        ..Film::default()
    };
    let source = Source::start(&running.stream(), film);
    source.await_published(|all| all.len() > 30);
    (running, source)
}

pub(crate) fn url(camera: &Running) -> String {
    format!("rtsp://{}/{STREAM}", camera.rtsp())
}

pub(crate) fn put(running: &Running, name: &str, body: &Value) -> Response {
    let path = format!("/api/v1/sources/{name}");
    let json = [("Content-Type", "application/json")];
    running.admin_send("PUT", &path, &json, &body.to_string())
}

fn delete(running: &Running, name: &str) -> Response {
    running.admin_request("DELETE", &format!("/api/v1/sources/{name}"), &[])
}

pub(crate) fn source(running: &Running, name: &str) -> Value {
    running.admin(&format!("/api/v1/sources/{name}")).json()
}

pub(crate) fn is_live(running: &Running, name: &str) -> bool {
    let stream = running.hub().stream(name);
    stream.is_some_and(|it| it.is_published())
}

pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn is_closed(peer: &Peer<'_>) -> bool {
    let mut events = peer.events.iter();
    events.any(|event| matches!(event, Event::Closed(_)))
}

#[test]
fn a_camera_that_is_added_shows_at_once_and_survives_a_restart() {
    let (camera, _film) = camera();
    let kept = Kept::new("restart");
    let running = kept.start();
    let body = json!({ "source": format!("rtsp://admin:secret@{}/{STREAM}", camera.rtsp()) });
    let began = Instant::now();
    let made = put(&running, STREAM, &body);
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(made.header("location"), Some("/api/v1/sources/cam"));
    let mut viewer = None;
    eventually("the stream can be watched", || {
        viewer = Peer::of_stream(&running, STREAM).ok();
        viewer.is_some()
    });
    let mut viewer = viewer.expect("answered");
    let has_video = |peer: &Peer<'_>| peer.of(Kind::Video).any(|it| it.marker);
    assert!(viewer.run_until(SOON, has_video), "no frame");
    let took = began.elapsed();
    println!("from the request to a viewer's first frame: {took:?}");
    // The target is a second and the interval of keyframes; the rest is for a busy machine.
    assert!(took < Duration::from_secs(10), "{took:?}");
    let shown = source(&running, STREAM);
    assert_eq!(shown["kind"], "camera");
    assert_eq!(shown["origin"], "api");
    assert!(!shown.to_string().contains("secret"), "{shown}");
    drop(viewer);
    drop(running);
    let text = fs::read_to_string(kept.file()).expect("it is kept");
    assert!(text.contains("secret"), "the camera wants it again");
    let again = kept.start();
    eventually("it is back after a restart", || is_live(&again, STREAM));
    assert_eq!(source(&again, STREAM)["problem"], Value::Null);
}

#[test]
fn viewers_stay_when_the_url_of_a_camera_changes_and_end_when_its_stream_is_deleted() {
    let ((first, _a), (second, _b)) = (camera(), camera());
    let kept = Kept::new("change");
    let running = kept.start();
    assert_eq!(
        put(&running, STREAM, &json!({ "source": url(&first) })).status,
        201
    );
    eventually("the first camera", || is_live(&running, STREAM));
    let stream = running.hub().stream(STREAM).expect("made");
    let mut peer = Peer::joined(&running);
    let changed = put(&running, STREAM, &json!({ "source": url(&second) }));
    assert_eq!(changed.status, 200, "{}", changed.body);
    drop(first);
    let sources = || stream.totals().sources;
    assert!(
        peer.run_until(SOON, |_| sources() >= 2),
        "the second camera"
    );
    let seen = peer.of(Kind::Video).count();
    let goes_on = |peer: &Peer<'_>| peer.of(Kind::Video).count() > seen + 60;
    assert!(peer.run_until(SOON, goes_on), "its frames come");
    assert!(!is_closed(&peer), "the viewer stayed");
    assert_eq!(delete(&running, STREAM).status, 204);
    assert!(peer.run_until(SOON, is_closed), "the viewer is told");
    eventually("the session tells why", || {
        let answer = peer.delete();
        answer.status == 410 && answer.problem(410)["title"] == "The stream was deleted"
    });
    assert!(running.hub().stream(STREAM).is_none());
    assert_eq!(
        running.get(&format!("/api/v1/streams/{STREAM}")).status,
        404
    );
    assert_eq!(delete(&running, STREAM).status, 404);
    assert_eq!(running.total("viewers_closed_total"), 1);
}

#[test]
fn names_of_the_configuration_win_and_conditions_hold() {
    let kept = Kept::new("names");
    let demo = || vec![SourceSpec::parse("cam=demo").expect("a source")];
    let running = Running::with_sources_and(demo(), |config| kept.configure(config));
    let refused = put(&running, "cam", &json!({ "source": "publisher" })).problem(409);
    let detail = refused["detail"].as_str().expect("a sentence");
    assert!(detail.contains("configuration"), "{detail}");
    assert_eq!(delete(&running, "cam").status, 409);
    let publisher = json!({ "source": "publisher" }).to_string();
    let with = |header: &str, name: &str| {
        let headers = [("Content-Type", "application/json"), (header, "*")];
        let path = format!("/api/v1/sources/{name}");
        running
            .admin_send("PUT", &path, &headers, &publisher)
            .status
    };
    assert_eq!(with("If-Match", "studio"), 404, "none to change");
    assert_eq!(with("If-None-Match", "studio"), 201);
    assert_eq!(with("If-None-Match", "studio"), 412, "it is there");
    assert_eq!(with("If-Match", "studio"), 200);
    let list = running.admin("/api/v1/sources?origin=api").json();
    assert_eq!(list["total"], 1);
    assert_eq!(list["sources"][0]["name"], "studio");
    assert_eq!(running.admin("/api/v1/sources").json()["total"], 2);
    drop(running);
    // The operator takes the name: the stored source stays, and shows why it does not run.
    let studio = vec![SourceSpec::parse("studio=demo").expect("a source")];
    let running = Running::with_sources_and(studio, |config| kept.configure(config));
    assert_eq!(source(&running, "studio")["kind"], "demo");
    let stored = running
        .admin("/api/v1/sources?origin=api&name=studio")
        .json();
    let problem = stored["sources"][0]["problem"].as_str().expect("a reason");
    assert!(problem.contains("configuration"), "{problem}");
    assert_eq!(
        delete(&running, "studio").status,
        204,
        "the stored one can go"
    );
    assert!(
        running.hub().stream("studio").is_some(),
        "the operator's stays"
    );
}

#[test]
fn what_a_caller_must_not_name_is_refused_and_nothing_is_kept() {
    let kept = Kept::new("refused");
    let running = kept.start();
    let media = kept.folder.join("media");
    fs::create_dir_all(&media).expect("ours");
    fs::write(kept.folder.join("secret.mp4"), "x").expect("ours");
    fs::write(media.join("broken.mp4"), "no video").expect("ours");
    let refused = [
        (json!({ "source": "rtsp://169.254.169.254/latest" }), 403),
        (json!({ "source": "rtsp://[::ffff:169.254.169.254]/" }), 403),
        (json!({ "source": "/etc/passwd" }), 403),
        (json!({ "source": "../secret.mp4" }), 403),
        (
            json!({ "source": "publisher", "placeholder": "../secret.jpg" }),
            403,
        ),
        (json!({ "source": "rtmp://192.168.1.1/" }), 422),
        (json!({ "source": "exec:ffmpeg" }), 403),
        (json!({ "source": "broken.mp4" }), 422),
        (
            json!({ "source": "rtsp://10.0.0.1/", "transport": "pigeon" }),
            422,
        ),
        (json!({ "source": "rtsp://10.0.0.1/", "run": "sh" }), 400),
        (json!({ "sorce": "demo" }), 400),
        (json!([]), 400),
    ];
    for (body, status) in refused {
        let problem = put(&running, "bad", &body).problem(status);
        assert!(problem["detail"].is_string(), "{body}");
    }
    let untyped = running.admin_send("PUT", "/api/v1/sources/bad", &[], "{}");
    assert_eq!(untyped.status, 415);
    let foreign = [
        ("Content-Type", "application/json"),
        ("Origin", "https://evil.example"),
    ];
    let body = json!({ "source": "demo" }).to_string();
    let of_a_page = running.admin_send("PUT", "/api/v1/sources/bad", &foreign, &body);
    assert_eq!(of_a_page.status, 403);
    for name in ["-x", "a%2F%2Fb", "%C3%BC"] {
        let answer = put(&running, name, &json!({ "source": "demo" }));
        assert_eq!(answer.status, 400, "{name}");
    }
    assert!(running.hub().stream("bad").is_none());
    assert_eq!(running.admin("/api/v1/sources").json()["total"], 0);
    assert!(!kept.file().exists() || !read(&kept.file()).contains("bad"));
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("there")
}

#[test]
fn a_stream_that_somebody_publishes_is_not_taken_away() {
    let kept = Kept::new("published");
    let running = kept.start();
    let _film = Source::start(&running.stream(), Film::default());
    let problem = put(&running, STREAM, &json!({ "source": "demo" })).problem(409);
    let detail = problem["detail"].as_str().expect("a sentence");
    assert!(detail.contains("publishes"), "{detail}");
}

#[test]
fn a_damaged_file_keeps_the_server_from_starting_and_is_not_touched() {
    let kept = Kept::new("damaged");
    fs::create_dir_all(kept.file().parent().expect("a folder")).expect("ours");
    let text = "{\"version\": 1, \"sources\": {\"cam\": ";
    fs::write(kept.file(), text).expect("ours");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut config = Config::default();
    for address in [
        &mut config.http.address,
        &mut config.media.address,
        &mut config.admin.address,
    ] {
        address.set_port(0);
    }
    config.rtsp.address = None;
    config.quic.address = None;
    kept.configure(&mut config);
    let started = runtime.block_on(Server::start(config, Vec::new()));
    let error = started.map(drop).expect_err("it must be seen").to_string();
    assert!(
        error.contains("api.json") && error.contains("line 1"),
        "{error}"
    );
    assert_eq!(read(&kept.file()), text);
}

#[test]
fn a_server_without_a_file_says_that_it_keeps_nothing() {
    let running = Running::start(1);
    let problem = put(&running, "cam", &json!({ "source": "demo" })).problem(409);
    let detail = problem["detail"].as_str().expect("a sentence");
    assert!(detail.contains("admin.state_file"), "{detail}");
    assert!(running.hub().stream("cam").is_none());
}
