//! The right to move a camera, wherever it comes from: an identity provider, a webhook, a token of the
//! server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use glassline_access::auth::Action;
use glassline_config::{Secret, WebUrl, Webhook};
use serde_json::{Value, json};

use crate::onvif::fake_camera::FakeCamera;
use crate::onvif::{JSON, await_seen, door, with_ptz};
use crate::running::Running;
use crate::tokens::{HOUR, Provider};

/// A viewer with a token, and whether it may move the camera of the stream `door`.
struct Viewer {
    token: String,
    moves: bool,
}

impl Viewer {
    /// Checks what the viewer is told of the camera, and that the camera moves if it may.
    fn tries(&self, running: &Running, camera: &FakeCamera) {
        let Self { token, moves } = self;
        let bearer = format!("Bearer {token}");
        let shown = ("Authorization", bearer.as_str());
        let told = running.request("GET", "/api/v1/streams/door/ptz", &[shown], "");
        assert_eq!(told.json()["allowed"], *moves, "{token}: {}", told.body);
        camera.seen.try_iter().for_each(drop);
        let path = "/api/v1/streams/door/ptz/move";
        let left = json!({"pan": -0.5}).to_string();
        let answer = running.request("POST", path, &[JSON, shown], &left);
        if *moves {
            assert_eq!(answer.status, 204, "{token}: {}", answer.body);
            await_seen(camera, "ContinuousMove");
        } else {
            answer.problem(403);
            assert!(
                camera.seen.try_recv().is_err(),
                "{token}: the camera is left alone"
            );
        }
    }
}

/// Tokens of viewers who may move this camera, another one, and none.
fn viewers(token: impl Fn(&Value) -> String) -> Vec<Viewer> {
    let rights = [
        (json!({"read": ["*"], "ptz": ["door"]}), true),
        (json!({"read": ["*"], "ptz": ["other"]}), false),
        (json!({"read": ["*"]}), false),
    ];
    let viewer = |(rights, moves): (Value, bool)| Viewer {
        token: token(&rights),
        moves,
    };
    rights.into_iter().map(viewer).collect()
}

#[test]
fn a_token_of_an_identity_provider_moves_the_cameras_that_it_claims() {
    let (camera, provider) = (with_ptz(), Provider::start());
    let running = Running::with_sources_and(vec![door(&camera)], |config| {
        config.auth.jwt = Some(provider.settings());
    });
    for viewer in viewers(|rights| provider.token(rights, HOUR)) {
        viewer.tries(&running, &camera);
    }
}

#[test]
fn a_webhook_says_whose_camera_moves() {
    let (camera, hook) = (with_ptz(), hook());
    let running = Running::with_sources_and(vec![door(&camera)], |config| {
        let url = WebUrl::parse(&format!("http://{hook}/may")).expect("a URL");
        config.auth.webhook = Some(Webhook {
            actions: vec![Action::Read, Action::Publish, Action::Ptz],
            ..Webhook::at(url)
        });
    });
    // The token is what the webhook is to answer, in characters that a token may have.
    let token = |rights: &Value| -> String {
        let text = rights.to_string();
        text.bytes().map(|byte| format!("{byte:02x}")).collect()
    };
    for viewer in viewers(token) {
        viewer.tries(&running, &camera);
    }
}

/// Starts a webhook that grants the rights that a token lists.
fn hook() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    // The thread ends with the process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let question = question(&mut stream);
            let token = question["token"].as_str().unwrap_or_default();
            let digits = (0..token.len()).step_by(2);
            let byte = |at: usize| u8::from_str_radix(&token[at..at + 2], 16).expect("digits");
            let body = String::from_utf8(digits.map(byte).collect()).expect("text");
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
            );
        }
    });
    address
}

fn question(stream: &mut TcpStream) -> Value {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|it| it > 0) {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let length = head.split("content-length: ").nth(1);
    let length = length.and_then(|it| it.lines().next()?.parse().ok());
    let mut body = vec![0; length.unwrap_or_default()];
    stream.read_exact(&mut body).expect("a body");
    serde_json::from_slice(&body).expect("JSON")
}

#[test]
fn a_token_of_the_server_moves_the_cameras_that_it_names() {
    let camera = with_ptz();
    let name = format!("glassline-ptz-rights-{}.json", std::process::id());
    let kept = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&kept);
    let running = Running::with_sources_and(vec![door(&camera)], |config| {
        config.admin.state_file = Some(kept.clone());
        config.auth.read_token = Secret::new("nobody-knows-it").ok();
        config.auth.publish_token = Secret::new("nor-this-one").ok();
    });
    let names = std::cell::Cell::new(0);
    let made = |rights: &Value| {
        names.set(names.get() + 1);
        let path = format!("/api/v1/tokens/viewer{}", names.get());
        let made = running.admin_send("PUT", &path, &[JSON], &rights.to_string());
        assert_eq!(made.status, 201, "{}", made.body);
        made.json()["token"].as_str().expect("its text").to_owned()
    };
    for viewer in viewers(made) {
        viewer.tries(&running, &camera);
    }
    drop(running);
    let _ = std::fs::remove_file(&kept);
}
