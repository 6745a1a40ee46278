//! Names of streams: those of cameras are theirs alone, and those with folders work over every protocol.

use glassline_ingest::SourceSpec;
use glassline_media::Kind;

use crate::peer::Peer;
use crate::quic::{Camera, track_configs};
use crate::rtsp::Hand;
use crate::running::Running;
use crate::sources::eventually;
use crate::whip::{Publisher, go_live, until};

const SDP: &str = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n\
                   m=audio 0 RTP/AVP 0\r\na=control:streamid=0\r\n";

const BROWSER: (&str, &str) = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");

/// Starts a server with a camera that does not answer, one that lets clients in, and a clip.
fn with_cameras() -> Running {
    // Nothing listens on the port of "discard".
    let sources = [
        "door=rtsp://127.0.0.1:9/live",
        "gate=rtsp://127.0.0.1:9/live?publishers=allowed",
        "film=demo",
    ];
    let specs = sources.map(|it| SourceSpec::parse(it).expect("a source"));
    let running = Running::with_sources(specs.into());
    eventually("the camera is found away", || {
        state(&running, "door") == "down"
    });
    running
}

fn state(running: &Running, name: &str) -> &'static str {
    let stream = running.hub().stream(name).expect("configured");
    stream.state().as_str()
}

fn failures(running: &Running) -> String {
    running.admin("/api/v1/failures").body
}

fn announced(running: &Running, path: &str) -> String {
    let url = format!("rtsp://{}/{path}", running.rtsp());
    Hand::new(running.rtsp()).announce(&url, SDP)
}

#[test]
fn nobody_publishes_over_a_configured_camera_or_clip() {
    let running = with_cameras();
    for path in ["/door/whip", "/door/whip?override", "/film/whip?override"] {
        let refused = Publisher::post(&running, path, &[]);
        let problem = refused.err().expect("refused").problem(409);
        assert_eq!(problem["configured"], true, "{path}");
        let detail = problem["detail"].as_str().expect("a sentence");
        assert!(detail.contains("publish under another name"), "{detail}");
    }
    let why = "'door' is the name of a configured camera: publish under another name, or set \
               `publishers: allowed` for this source";
    let answer = announced(&running, "door");
    assert!(
        answer.starts_with(&format!("RTSP/1.0 403 {why}\r\n")),
        "{answer}"
    );
    let ended = Camera::start(&running, "door", "", track_configs()).ended();
    let told = ended.to_string();
    assert!(told.contains("publish under another name"), "{told}");
    eventually("the list of failures has it", || {
        failures(&running).contains(why)
    });

    // What is wrong with the camera stays visible.
    let stream = running.get("/api/v1/streams/door").json();
    assert_eq!(stream["takes_publishers"], false);
    let detail = stream["detail"].as_str().expect("a reason");
    assert!(!detail.contains("publisher"), "{detail}");
    let told = running.get("/api/v1/streams/door/publishing").json();
    assert_eq!(told["configured"], why);
    assert_eq!(
        running.get("/api/v1/streams/gate").json()["takes_publishers"],
        true
    );
}

#[test]
fn a_camera_that_lets_clients_in_may_be_published() {
    let running = with_cameras();
    let mut publisher = Publisher::post(&running, "/gate/whip", &[]).expect("answered");
    go_live(&mut publisher, "gate");
}

#[test]
fn a_name_with_folders_is_published_watched_and_asked_for() {
    let running = Running::start(1);
    let mut publisher = Publisher::post(&running, "/site/cam1/whip", &[]).expect("answered");
    go_live(&mut publisher, "site/cam1");
    let mut viewer = Peer::of_stream(&running, "site/cam1").expect("live");
    let arrives = until(&mut [&mut publisher], &mut [&mut viewer], |_, viewers| {
        viewers[0].of(Kind::Video).next().is_some()
    });
    assert!(arrives);
    for path in ["/api/v1/streams/site/cam1", "/api/v1/streams/site%2Fcam1"] {
        assert_eq!(running.get(path).json()["name"], "site/cam1", "{path}");
    }
    for below in ["latency", "publishing"] {
        let path = format!("/api/v1/streams/site/cam1/{below}");
        assert_eq!(running.get(&path).status, 200, "{path}");
    }
    assert_eq!(
        running.admin("/api/v1/streams/site/cam1/latency").status,
        200
    );
    for (page, status) in [
        ("/site/cam1", 200),
        ("/site%2Fcam1", 200),
        ("/site/cam1/publish", 200),
        ("/site/cam2", 404),
    ] {
        let answer = running.request("GET", page, &[BROWSER], "");
        assert_eq!(answer.status, status, "{page}");
        assert!(answer.body.contains("<html"), "{page}");
    }
    let metrics = running.admin("/metrics").body;
    assert!(metrics.contains("stream=\"site/cam1\""), "{metrics}");
    let url = format!("rtsp://{}/site/cam1", running.rtsp());
    let described = Hand::new(running.rtsp()).ask("DESCRIBE", &url, "");
    assert!(described.contains("200 OK"), "{described}");
    let base = format!("Content-Base: {url}/\r\n");
    assert!(described.contains(&base), "{described}");
    assert_eq!(viewer.delete().status, 200);
}

#[test]
fn an_impossible_name_is_refused_with_its_own_reason() {
    let running = Running::start(1);
    for (path, why) in [
        ("%F0%9F%98%80", "use letters, digits"),
        ("-x", "no part of it begins with '.' or '-'"),
        ("site/whep/x", "'whep' in stream name 'site/whep/x'"),
        ("api/cam", "'api/cam' is a path of the HTTP server"),
        ("a/b/c/d/e/f/g/h/i", "at most 8 parts"),
    ] {
        let answer = announced(&running, path);
        assert!(answer.starts_with("RTSP/1.0 403 "), "{answer}");
        assert!(answer.contains(why), "{path}: {answer}");
        eventually("the list of failures has it", || {
            failures(&running).contains(why)
        });
    }
    let failed = failures(&running);
    assert!(!failed.contains("no right"), "{failed}");
    let refused = Peer::of_stream(&running, "a%20b").err().expect("refused");
    let problem = refused.problem(400);
    assert_eq!(problem["title"], "No stream can have this name");
    let refused = Publisher::post(&running, "/a%20b/whip", &[]);
    assert_eq!(refused.err().expect("refused").status, 400);
}

#[test]
fn a_browser_gets_a_page_where_a_program_gets_json() {
    let running = Running::start(1);
    for path in ["/-/nothing", "/call/team/a/b/c"] {
        let page = running.request("GET", path, &[BROWSER], "");
        let program = running.get(path);
        assert_eq!((page.status, program.status), (404, 404), "{path}");
        assert!(page.body.contains("To the start page"), "{}", page.body);
        assert_eq!(
            program.header("content-type"),
            Some("application/problem+json")
        );
    }
    let api = running.request("GET", "/api/v1/streams/nothing", &[BROWSER], "");
    assert_eq!(api.header("content-type"), Some("application/problem+json"));
}
