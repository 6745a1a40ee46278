//! Cameras that operators find by ONVIF, and that viewers move.

#[path = "../../onvif/src/tests/fake_camera.rs"]
#[expect(dead_code, reason = "the crate's own tests have broken cameras, too")]
pub(crate) mod fake_camera;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use glassline_access::auth::{Account, Name, NamedToken, Pattern, Role};
use glassline_config::{Config, Secret};
use glassline_ingest::SourceSpec;
use serde_json::{Value, json};

use crate::peer::SOON;
use crate::running::{Response, Running};
use fake_camera::{Behaviour, FakeCamera};

pub(crate) const JSON: (&str, &str) = ("Content-Type", "application/json");
/// `viewer:pw`, `mover:pw` and `boss:pw`.
const VIEWER: (&str, &str) = ("Authorization", "Basic dmlld2VyOnB3");
const MOVER: (&str, &str) = ("Authorization", "Basic bW92ZXI6cHc=");
const BOSS: (&str, &str) = ("Authorization", "Basic Ym9zczpwdw==");

/// Time after which the server ends a movement that nobody repeats, less what clocks round.
const HELD: Duration = Duration::from_millis(1_990);

pub(crate) fn with_ptz() -> FakeCamera {
    FakeCamera::start(Behaviour {
        has_ptz: true,
        ..Behaviour::default()
    })
}

/// A stream `door` of a camera that nobody answers for but its ONVIF.
pub(crate) fn door(camera: &FakeCamera) -> SourceSpec {
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = nobody.local_addr().expect("bound");
    let url = format!(
        "rtsp://operator:secret%3C1%3E@{nobody}/main?onvif={}",
        camera.url()
    );
    SourceSpec::parse(&format!("door={url}")).expect("a source")
}

fn users(config: &mut Config) {
    let account = |name: &str, ptz: &[&str], role| {
        let pattern = |it: &&str| Pattern::parse(it).expect("a pattern");
        Account {
            read: vec![pattern(&"*")],
            ptz: ptz.iter().map(pattern).collect(),
            role,
            ..Account::new(Name::parse(name).expect("a name"), "pw", &[1; 16])
        }
    };
    config.auth.users = vec![
        account("viewer", &["other"], None),
        account("mover", &["door"], None),
        account("boss", &[], Some(Role::Operator)),
    ];
}

fn post(running: &Running, below: &str, by: (&str, &str), body: &Value) -> Response {
    let path = format!("/api/v1/streams/door/ptz/{below}");
    running.request("POST", &path, &[JSON, by], &body.to_string())
}

/// Waits for a request of this name.
pub(crate) fn await_seen(camera: &FakeCamera, name: &str) -> String {
    let end = Instant::now() + SOON;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let seen = camera.seen.recv_timeout(left);
        let seen = seen.unwrap_or_else(|_| panic!("nobody asked for {name}"));
        if seen.contains(&format!("<{name} ")) {
            return seen;
        }
    }
}

#[test]
fn a_camera_moves_for_those_who_may_and_stops_by_itself() {
    let camera = with_ptz();
    let running = Running::with_sources_and(vec![door(&camera)], users);
    let shown = |by| running.request("GET", "/api/v1/streams/door/ptz", &[by], "");
    let nothing = json!({"allowed": false, "pan_tilt": false, "zoom": false, "presets": []});
    assert_eq!(shown(VIEWER).json(), nothing);
    assert!(camera.seen.try_recv().is_err(), "the camera is left alone");
    let expected = json!({
        "allowed": true, "pan_tilt": true, "zoom": true,
        "presets": [{"token": "1", "name": "Gate"}, {"token": "2", "name": "Yard <left>"}],
    });
    for by in [MOVER, BOSS] {
        assert_eq!(shown(by).json(), expected);
    }
    let left = json!({"pan": -0.5});
    assert_eq!(post(&running, "move", VIEWER, &left).status, 403);
    assert_eq!(
        post(&running, "move", MOVER, &json!({"pan": 1.5})).status,
        400
    );
    let began = Instant::now();
    let moved = post(&running, "move", MOVER, &left);
    assert_eq!(moved.status, 204, "{}", moved.body);
    let command = await_seen(&camera, "ContinuousMove");
    assert!(command.contains("x=\"-0.5\" y=\"0\""), "{command}");
    await_seen(&camera, "Stop");
    assert!(began.elapsed() >= HELD, "{:?}", began.elapsed());
    // A button that is released stops at once, and nothing stops the camera a second time.
    for body in [&left, &json!({})] {
        assert_eq!(post(&running, "move", MOVER, body).status, 204);
    }
    await_seen(&camera, "Stop");
    let gone = post(&running, "preset", BOSS, &json!({"preset": "1"}));
    assert_eq!(gone.status, 204, "{}", gone.body);
    await_seen(&camera, "GotoPreset");
    let absent = post(&running, "preset", MOVER, &json!({"preset": "9"}));
    assert_eq!(absent.status, 422, "{}", absent.body);
    for request in camera.seen.try_iter() {
        assert!(!request.contains("secret"), "{request}");
    }
}

#[test]
fn clients_that_ask_for_positions_again_and_again_leave_the_camera_alone() {
    let camera = with_ptz();
    let running = Running::with_sources_and(vec![door(&camera)], users);
    let began = Instant::now();
    for _ in 0..50 {
        let shown = running.request("GET", "/api/v1/streams/door/ptz", &[MOVER], "");
        assert_eq!(shown.status, 200, "{}", shown.body);
    }
    let asked = camera.seen.try_iter();
    let asked = asked.filter(|it| it.contains("<GetPresets ")).count() as u64;
    // Once in five seconds, however long this machine takes for the requests.
    assert!(
        (1..=1 + began.elapsed().as_secs() / 5).contains(&asked),
        "{asked}"
    );
}

#[test]
fn a_camera_without_ptz_and_other_streams_are_named() {
    let camera = FakeCamera::start(Behaviour::default());
    let off = SourceSpec::parse("off=rtsp://127.0.0.1:1/x?onvif=off").expect("a source");
    let running = Running::with_sources(vec![door(&camera), off]);
    for (name, told) in [
        ("door", "no PTZ"),
        ("off", "`onvif: off`"),
        ("cam", "does not come from a camera"),
    ] {
        let shown = running.get(&format!("/api/v1/streams/{name}/ptz"));
        let problem = shown.problem(404);
        let detail = problem["detail"].as_str().expect("a text");
        assert!(detail.contains(told), "{detail}");
        assert!(!detail.contains("secret"), "{detail}");
    }
    // What was found is remembered: nobody asks again.
    camera.seen.try_iter().for_each(drop);
    assert_eq!(running.get("/api/v1/streams/door/ptz").status, 404);
    assert!(camera.seen.try_recv().is_err());
}

#[test]
fn operators_find_cameras_and_ask_them_for_their_streams() {
    let camera = with_ptz();
    let running = Running::with(1, |config| config.admin.sources.loopback = true);
    let ask = |path: &str, body: Value| {
        running.admin_send(
            "POST",
            &format!("/api/v1/{path}"),
            &[JSON],
            &body.to_string(),
        )
    };
    let search = json!({"addresses": [camera.discovery.to_string()], "seconds": 1});
    let found = ask("camera-searches", search);
    assert_eq!(found.status, 200, "{}", found.body);
    let expected = json!({"cameras": [{
        "id": "urn:uuid:camera-1", "address": "127.0.0.1", "name": "Hall", "model": "P3245-V",
        "location": null, "service": camera.url(),
    }]});
    assert_eq!(found.json(), expected);
    let wrong = json!({"service": camera.url(), "user": "operator", "password": "gu3ss-it"});
    let refused = ask("camera-profiles", wrong);
    assert_eq!(refused.status, 422);
    assert!(!refused.body.contains("gu3ss"), "{}", refused.body);
    let right = json!({"service": camera.url(), "user": "operator", "password": "secret<1>"});
    let told = ask("camera-profiles", right).json();
    assert_eq!(
        (&told["model"], &told["manufacturer"]),
        (&json!("P3245-V"), &json!("Maker"))
    );
    let main = json!({
        "name": "mainStream", "stream": "main", "url": "rtsp://192.0.2.20:554/main?x=1", "codec": "H264",
        "width": 1920, "height": 1080, "frame_rate": 25.0, "bitrate_bps": 4_096_000, "b_frames": false,
        "audio": "AAC", "ptz": true, "back_channel": true,
    });
    assert_eq!(told["profiles"][0], main);
    assert_eq!(told["profiles"][1]["stream"], Value::Null);
    for (path, body, status) in [
        (
            "camera-searches",
            json!({"addresses": ["camera.example"]}),
            422,
        ),
        (
            "camera-searches",
            json!({"addresses": vec!["127.0.0.1"; 17]}),
            422,
        ),
        (
            "camera-profiles",
            json!({"service": "ftp://127.0.0.1/"}),
            422,
        ),
        (
            "camera-profiles",
            json!({"service": "http://127.0.0.1:1/x"}),
            502,
        ),
    ] {
        let answer = ask(path, body.clone());
        assert_eq!(answer.status, status, "{body} {}", answer.body);
    }
}

#[test]
fn addresses_that_callers_must_not_name_are_not_asked() {
    let camera = with_ptz();
    let running = Running::start(1);
    let ask = |path: &str, body: Value| {
        running.admin_send(
            "POST",
            &format!("/api/v1/{path}"),
            &[JSON],
            &body.to_string(),
        )
    };
    let search = json!({"addresses": [camera.discovery.to_string()], "seconds": 1});
    assert_eq!(ask("camera-searches", search).status, 403);
    let metadata = json!({"service": "http://169.254.169.254/latest"});
    for body in [json!({"service": camera.url()}), metadata] {
        assert_eq!(ask("camera-profiles", body).status, 403);
    }
    assert!(camera.seen.try_recv().is_err());
}

#[test]
fn only_those_who_may_make_sources_search_for_cameras() {
    let running = Running::with(1, |config| {
        let token = |name: &str, role| NamedToken {
            name: Name::parse(name).expect("a name"),
            token: Secret::new(&format!("{name}-0123456789abcdef")).expect("a token"),
            role,
        };
        config.auth.tokens = vec![token("op", Role::Operator), token("admin", Role::Admin)];
    });
    let ask = |token: &str| {
        let bearer = format!("Bearer {token}-0123456789abcdef");
        let headers = [JSON, ("Authorization", &*bearer)];
        let body = json!({"addresses": ["nobody"]}).to_string();
        running
            .admin_send("POST", "/api/v1/camera-searches", &headers, &body)
            .status
    };
    assert_eq!((ask("op"), ask("admin")), (403, 422));
}
