//! Rights that a webhook decides about, over every protocol.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use glassline_config::{Secret, WebUrl, Webhook};
use glassline_quic::moq::Role;
use parking_lot::Mutex;
use serde_json::Value;

use crate::peer::{Peer, PeerOffer, SDP, SOON, socket};
use crate::quic;
use crate::rooms::join;
use crate::rtsp::Hand;
use crate::running::{Response, Running, STREAM};
use crate::source::{Film, Source};

const SECRET: &str = "between-us-two";

/// `ann` with the password `pw`, and with another.
const ANN: &str = "Basic YW5uOnB3";
const ANN_WRONG: &str = "Basic YW5uOm5v";

/// A webhook that allows `ann` and tokens that begin with `good`. It never answers `slow`, and answers
/// `broken` with half of an object.
struct Hook {
    address: SocketAddr,
    got: Arc<Mutex<Vec<Value>>>,
}

impl Hook {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let got = Arc::<Mutex<Vec<Value>>>::default();
        let noted = Arc::clone(&got);
        // The thread ends with the process.
        std::thread::spawn(move || {
            let mut hanging = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let Some(question) = read(&mut stream) else {
                    continue;
                };
                let (status, body) = decide(&question);
                noted.lock().push(question);
                if status == 0 {
                    hanging.push(stream);
                    continue;
                }
                let length = body.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n\
                     Content-Length: {length}\r\n\r\n{body}"
                );
            }
        });
        Self { address, got }
    }

    fn guard(&self, change: impl FnOnce(&mut Webhook)) -> Running {
        let mut webhook = webhook_at(self.address);
        change(&mut webhook);
        Running::with(1, |config| {
            config.auth.webhook = Some(webhook);
            config.admin.open_metrics = true;
        })
    }

    /// Returns the questions about `action` by `protocol`.
    fn questions(&self, action: &str, protocol: &str) -> Vec<Value> {
        let got = self.got.lock();
        let is_of = |it: &&Value| it["action"] == action && it["protocol"] == protocol;
        got.iter().filter(is_of).cloned().collect()
    }
}

fn webhook_at(address: SocketAddr) -> Webhook {
    let url = WebUrl::parse(&format!("http://{address}/may")).expect("a URL");
    Webhook {
        secret: Secret::new(SECRET).ok(),
        deadline_ms: 10_000,
        ..Webhook::at(url)
    }
}

/// Reads a question; `None` if it is not signed with the secret.
fn read(stream: &mut TcpStream) -> Option<Value> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|it| it > 0) {
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?.to_lowercase();
    let value = |name: &str| head.split(name).nth(1)?.lines().next().map(str::to_owned);
    let length = value("content-length: ")?.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let signature = value("x-glassline-signature: sha256=")?;
    let digits = (0..signature.len()).step_by(2);
    let tag: Option<Vec<u8>> = digits
        .map(|at| u8::from_str_radix(signature.get(at..at + 2)?, 16).ok())
        .collect();
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    hmac::verify(&key, &body, &tag?).ok()?;
    serde_json::from_slice(&body).ok()
}

/// Returns status and body; status 0 for no answer.
fn decide(question: &Value) -> (u16, &'static str) {
    if question["user"] == "ann" && question["password"] == "pw" {
        return (200, "{}");
    }
    match question["token"].as_str().unwrap_or_default() {
        "short" => (200, r#"{"read": ["cam"], "ttl_s": 4}"#),
        "list" => (200, r#"{"read": ["cam"]}"#),
        "slow" => (0, ""),
        "broken" => (200, "{"),
        "other" => (403, ""),
        token if token.starts_with("good") => (200, "{}"),
        _ => (401, ""),
    }
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn watch<'a>(running: &'a Running, shown: &str) -> Result<Peer<'a>, Response> {
    let headers = [("Authorization", shown)];
    let path = format!("/{STREAM}/whep");
    let offer = PeerOffer::to_watch();
    Peer::asking(running, &path, &headers, socket(), offer, str::to_owned)
}

/// Returns the answer to an offer to publish that is no SDP: 400 if its sender has the right.
fn publish(running: &Running, path: &str, shown: &str) -> Response {
    let offer = [SDP, ("Authorization", shown)];
    running.request("POST", path, &offer, "v=0")
}

fn describe(running: &Running, name: &str, headers: &str) -> String {
    let url = format!("rtsp://{}/{name}", running.rtsp());
    Hand::new(running.rtsp()).ask("DESCRIBE", &url, headers)
}

#[test]
fn the_webhook_decides_over_http() {
    let hook = Hook::start();
    let running = hook.guard(|_| {});
    let _source = Source::start(&running.stream(), Film::default());
    assert!(watch(&running, &bearer("good")).is_ok());
    assert!(watch(&running, ANN).is_ok());
    for (shown, status) in [
        (bearer("no"), 401),
        (ANN_WRONG.to_owned(), 401),
        (bearer("other"), 403),
        (bearer("broken"), 503),
    ] {
        let refused = watch(&running, &shown).err().expect("refused");
        let has_wait = refused.header("retry-after").is_some();
        assert_eq!(has_wait, status == 503, "{shown}");
        let challenges = refused.headers_named("www-authenticate").len();
        assert_eq!(challenges, if status == 401 { 2 } else { 0 }, "{shown}");
        refused.problem(status);
    }
    // Whoever may read one stream learns of no other, and publishes nothing.
    let named = [("Authorization", ANN)];
    let listed = running.request("GET", "/api/v1/streams", &named, "").json();
    assert_eq!(listed["streams"].as_array().map(Vec::len), Some(0));
    for (path, shown, status) in [
        ("/cam/whip", bearer("good"), 400),
        ("/cam/whip", bearer("no"), 401),
        ("/whip", bearer("cam:good"), 400),
        ("/whip", bearer("cam:ann:pw"), 400),
        ("/whip", bearer("cam:ann:no"), 401),
        ("/whip", bearer("cam"), 401),
        ("/cam/talk", bearer("other"), 403),
    ] {
        publish(&running, path, &shown).problem(status);
    }
    let good = bearer("good");
    let peer = join(&running, "team", &[("Authorization", &good)]).expect("she may");
    assert_eq!(running.get(&peer.location).status, 200);
    join(&running, "team", &[])
        .err()
        .expect("nobody")
        .problem(401);
    // What the webhook was asked.
    let whep = &hook.questions("read", "whep")[0];
    assert_eq!(whep["stream"], STREAM);
    assert_eq!(whep["address"], "127.0.0.1");
    assert_eq!(hook.questions("call", "call")[0]["room"], "team");
    assert_eq!(hook.questions("publish", "talk").len(), 1);
    let keyed = hook.questions("publish", "whip");
    assert!(
        keyed
            .iter()
            .any(|it| it["user"] == "ann" && it["stream"] == "cam")
    );
    let metric = running.metric("auth_webhook_questions_total");
    let of = |result: &str| {
        let has = |(labels, _): &&(String, u64)| labels.contains(result);
        metric.iter().find(has).map_or(0, |(_, count)| *count)
    };
    assert!(
        of("allowed") >= 6 && of("denied") >= 6 && of("failed") >= 1,
        "{metric:?}"
    );
}

#[test]
fn the_webhook_decides_over_rtsp_and_quic() {
    let hook = Hook::start();
    let running = hook.guard(|_| {});
    let _source = Source::start(&running.stream(), Film::default());
    // A client asks first without credentials, and is asked for a password that can be passed on.
    let first = describe(&running, "cam", "");
    assert!(first.starts_with("RTSP/1.0 401"), "{first}");
    assert!(
        first.contains("Basic realm=") && !first.contains("Digest"),
        "{first}"
    );
    assert!(
        hook.questions("read", "rtsp").is_empty(),
        "it has shown nothing"
    );
    let basic = |shown: &str| describe(&running, "cam", &format!("Authorization: {shown}\r\n"));
    for (answer, status) in [
        (basic(ANN), 200),
        (basic(ANN_WRONG), 401),
        (describe(&running, "cam?token=good", ""), 200),
        (describe(&running, "cam?token=no", ""), 401),
        (describe(&running, "cam?token=other", ""), 403),
        (describe(&running, "cam?token=broken", ""), 503),
    ] {
        assert!(
            answer.starts_with(&format!("RTSP/1.0 {status}")),
            "{answer}"
        );
    }
    let announced = Hand::new(running.rtsp()).announce(
        &format!("rtsp://{}/desk?token=no", running.rtsp()),
        "v=0\r\n",
    );
    assert!(announced.starts_with("RTSP/1.0 401"), "{announced}");
    assert_eq!(hook.questions("publish", "rtsp")[0]["stream"], "desk");
    let runtime = quic::runtime();
    let opened = |name: &str| runtime.block_on(quic::open(&running, name, Role::Subscriber));
    // A session names its streams later, so the answer has to.
    let reader = opened("cam?token=list").expect("she may");
    for refused in ["cam", "cam?token=good", "cam?token=no", "cam?token=broken"] {
        // A refusal may come right after the handshake.
        if let Ok(session) = opened(refused) {
            drop(runtime.block_on(quic::soon(session.ended())));
        }
    }
    let ended = async { tokio::time::timeout(Duration::from_millis(100), reader.ended()).await };
    assert!(runtime.block_on(ended).is_err(), "she still reads");
    assert_eq!(hook.questions("read", "moq")[0]["stream"], Value::Null);
}

#[test]
fn sessions_end_with_the_rights_that_the_webhook_gave() {
    let hook = Hook::start();
    let running = hook.guard(|_| {});
    let _source = Source::start(&running.stream(), Film::default());
    let viewer = watch(&running, &bearer("short")).expect("she may");
    let stays = watch(&running, &bearer("good")).expect("she may");
    let mut player = Hand::new(running.rtsp());
    let url = format!("rtsp://{}/cam?token=short", running.rtsp());
    assert!(player.ask("DESCRIBE", &url, "").contains(" 200 "));
    let shown = bearer("good");
    let headers = [("Authorization", shown.as_str())];
    let status = |location: &str| running.request("GET", location, &headers, "").status;
    let end = Instant::now() + SOON;
    while status(&viewer.location) != 410 {
        assert!(Instant::now() < end, "the viewer's session goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(status(&stays.location), 204, "her rights have no end");
    let mut rest = Vec::new();
    let closed = player.stream.read_to_end(&mut rest);
    closed.expect("closed by the server");
}

#[test]
fn nobody_waits_while_the_webhook_hangs_and_those_who_ask_are_refused() {
    let hook = Hook::start();
    let running = &hook.guard(|it| it.deadline_ms = 4000);
    let _source = Source::start(&running.stream(), Film::default());
    let mut player = Hand::new(running.rtsp());
    let url = format!("rtsp://{}/cam?token=good", running.rtsp());
    assert!(player.ask("DESCRIBE", &url, "").contains(" 200 "));
    std::thread::scope(|scope| {
        let by_http = scope.spawn(|| watch(running, &bearer("slow")).err().map(|it| it.status));
        let by_rtsp = scope.spawn(|| describe(running, "cam?token=slow", ""));
        let end = Instant::now() + SOON;
        let hangs = |protocol| {
            hook.questions("read", protocol)
                .iter()
                .any(|it| it["token"] == "slow")
        };
        while !hangs("whep") || !hangs("rtsp") {
            assert!(Instant::now() < end, "the webhook is not asked");
            std::thread::sleep(Duration::from_millis(5));
        }
        // The same RTSP thread and the same runtime serve others meanwhile.
        assert!(player.ask("DESCRIBE", &url, "").contains(" 200 "));
        assert!(describe(running, "cam?token=good-2", "").contains(" 200 "));
        assert!(watch(running, &bearer("good-2")).is_ok());
        assert!(
            !by_http.is_finished() && !by_rtsp.is_finished(),
            "they were waited for"
        );
        assert_eq!(by_http.join().expect("no panic"), Some(503));
        let answer = by_rtsp.join().expect("no panic");
        assert!(answer.starts_with("RTSP/1.0 503"), "{answer}");
    });
}

#[test]
fn without_the_webhook_nothing_is_open() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let running = Running::with(1, |config| {
        config.auth.webhook = Some(webhook_at(address));
    });
    let refused = watch(&running, ANN).err().expect("nobody decides");
    let detail = refused.problem(503)["detail"].to_string();
    assert!(detail.contains("gives no answer"), "{detail}");
    publish(&running, "/cam/whip", &bearer("good")).problem(503);
    let good = bearer("good");
    let refused = join(&running, "team", &[("Authorization", &good)]);
    refused.err().expect("nobody decides").problem(503);
    let answer = describe(&running, "cam?token=good", "");
    assert!(answer.starts_with("RTSP/1.0 503"), "{answer}");
    // Without credentials, all are asked for some, also on this machine.
    running.get("/api/v1/streams").problem(401);
    running
        .request("POST", "/cam/whip", &[SDP], "v=0")
        .problem(401);
}
