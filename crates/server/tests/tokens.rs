//! Tokens that an identity provider signs: what they open, and when that ends.
//!
//! ```text
//! Provider ─ signs ─► token ─► client ─► server under test
//!     └ JWK Set over HTTP ◄───────────────── reads keys
//! ```

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use glassline_config::{Algorithm, Jwt, WebUrl};
use glassline_quic::moq::Role;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::peer::{Peer, PeerOffer, SDP, SOON, socket};
use crate::quic;
use crate::rooms::join;
use crate::rtsp::Hand;
use crate::running::{Running, STREAM};
use crate::source::{Film, Source};

const ISSUER: &str = "https://id.example";

/// An identity provider with one key, and an HTTP server for its JWK Set.
pub(crate) struct Provider {
    key: EcdsaKeyPair,
    address: SocketAddr,
    /// Answer to requests for keys; `None` closes connections unanswered.
    set: Arc<Mutex<Option<String>>>,
    requests: Arc<AtomicU64>,
}

impl Provider {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let provider = Self {
            key: new_key(),
            address,
            set: Arc::default(),
            requests: Arc::default(),
        };
        provider.offer(&[("one", &provider.key)]);
        let (set, requests) = (Arc::clone(&provider.set), Arc::clone(&provider.requests));
        // The thread ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|it| it > 0)
                {
                    head.push(byte[0]);
                }
                requests.fetch_add(1, Ordering::Relaxed);
                let body = set.lock().clone();
                let Some(body) = body else { continue };
                let length = body.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"
                );
            }
        });
        provider
    }

    /// Offers these keys from now on.
    fn offer(&self, keys: &[(&str, &EcdsaKeyPair)]) {
        let jwk = |(id, key): &(&str, &EcdsaKeyPair)| {
            let point = key.public_key().as_ref()[1..].to_vec();
            let (x, y) = point.split_at(32);
            json!({"kty": "EC", "crv": "P-256", "kid": id, "x": base64(x), "y": base64(y)})
        };
        let keys: Vec<Value> = keys.iter().map(jwk).collect();
        *self.set.lock() = Some(json!({ "keys": keys }).to_string());
    }

    /// Answers nothing from now on.
    fn leave(&self) {
        *self.set.lock() = None;
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns a token with these rights for some time.
    pub(crate) fn token(&self, rights: &Value, valid: Duration) -> String {
        signed("one", &self.key, rights, valid)
    }

    pub(crate) fn settings(&self) -> Jwt {
        let url = format!("http://{}/keys", self.address);
        Jwt {
            algorithms: vec![Algorithm::ES256],
            jwks_url: Some(WebUrl::parse(&url).expect("a URL")),
            issuer: Some(ISSUER.to_owned()),
            audience: Some("glassline".to_owned()),
            leeway_s: 0,
            ..Jwt::default()
        }
    }

    /// Starts a server that believes this provider.
    fn guard(&self) -> Running {
        Running::with(1, |config| {
            config.auth.jwt = Some(self.settings());
            config.admin.open_metrics = true;
        })
    }
}

fn new_key() -> EcdsaKeyPair {
    EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key")
}

fn base64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn signed(id: &str, key: &EcdsaKeyPair, rights: &Value, valid: Duration) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let until = (now.expect("after 1970") + valid).as_secs_f64();
    let header = json!({"alg": "ES256", "kid": id}).to_string();
    let claims = json!({"iss": ISSUER, "aud": "glassline", "exp": until, "glassline": rights});
    let text = format!("{}.{}", base64(header), base64(claims.to_string()));
    let signature = key.sign(&SystemRandom::new(), text.as_bytes());
    format!("{text}.{}", base64(signature.expect("a signature")))
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// Sends an offer to watch `stream` with `token`.
fn watch<'a>(
    running: &'a Running,
    stream: &str,
    token: &str,
) -> Result<Peer<'a>, crate::running::Response> {
    let (path, value) = (format!("/{stream}/whep"), bearer(token));
    let headers = [("Authorization", value.as_str())];
    Peer::asking(
        running,
        &path,
        &headers,
        socket(),
        PeerOffer::to_watch(),
        str::to_owned,
    )
}

/// Returns the first line of the answer to DESCRIBE.
fn describe(running: &Running, path_and_query: &str) -> String {
    let url = format!("rtsp://{}/{path_and_query}", running.rtsp());
    let answer = Hand::new(running.rtsp()).ask("DESCRIBE", &url, "");
    answer.lines().next().unwrap_or_default().to_owned()
}

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_token_opens_what_it_claims_over_every_protocol() {
    let provider = Provider::start();
    let running = provider.guard();
    let _source = Source::start(&running.stream(), Film::default());
    let token = provider.token(&json!({"read": ["cam*"], "call": "team"}), HOUR);
    // HTTP: as header and in the query; what it does not claim is 403, and no token 401.
    let value = bearer(&token);
    let headers = [("Authorization", value.as_str())];
    let listed = running
        .request("GET", "/api/v1/streams", &headers, "")
        .json();
    assert_eq!(listed["streams"].as_array().expect("a list").len(), 1);
    assert!(watch(&running, STREAM, &token).is_ok());
    assert_eq!(
        running
            .get(&format!("/api/v1/streams/cam?jwt={token}"))
            .status,
        200
    );
    let other = watch(&running, "hall", &token).err().expect("not hers");
    assert!(
        other.problem(403)["detail"]
            .to_string()
            .contains("`read` list")
    );
    let offer = [SDP, ("Authorization", value.as_str())];
    running
        .request("POST", "/cam/whip", &offer, "")
        .problem(403);
    let nobody = running.get("/api/v1/streams");
    assert_eq!(
        nobody.header("www-authenticate"),
        Some("Bearer realm=\"glassline\"")
    );
    nobody.problem(401);
    assert!(join(&running, "team", &headers).is_ok());
    join(&running, "other", &headers)
        .err()
        .expect("not hers")
        .problem(403);
    // The stream key of a publisher has the token behind the name.
    let publisher = provider.token(&json!({"publish": ["cam"]}), HOUR);
    let key = format!("Bearer cam:{publisher}");
    let offer = [SDP, ("Authorization", key.as_str())];
    running.request("POST", "/whip", &offer, "v=0").problem(400);
    let key = format!("Bearer hall:{publisher}");
    let offer = [SDP, ("Authorization", key.as_str())];
    running.request("POST", "/whip", &offer, "v=0").problem(403);
    // RTSP: in the query.
    for query in ["token", "jwt"] {
        let answer = describe(&running, &format!("cam?{query}={token}"));
        assert!(answer.contains(" 200 "), "{answer}");
    }
    assert!(describe(&running, &format!("hall?jwt={token}")).contains(" 403 "));
    assert!(describe(&running, "cam").contains(" 401 "));
    // QUIC: in the query.
    let runtime = quic::runtime();
    let opened = |name: String| runtime.block_on(quic::open(&running, &name, Role::Subscriber));
    let reader = opened(format!("cam?jwt={token}")).expect("she may");
    // A refusal may come right after the handshake.
    let await_refusal = |name: String| match opened(name) {
        Ok(session) => drop(runtime.block_on(quic::soon(session.ended()))),
        Err(error) => drop(error),
    };
    await_refusal("cam".to_owned());
    let wrong = signed("one", &new_key(), &json!({"read": "*"}), HOUR);
    await_refusal(format!("cam?jwt={wrong}"));
    let ended = async { tokio::time::timeout(Duration::from_millis(100), reader.ended()).await };
    assert!(runtime.block_on(ended).is_err(), "she still reads");
}

#[test]
fn a_token_that_gives_no_right_is_answered_with_the_reason() {
    let provider = Provider::start();
    let running = provider.guard();
    let ask = |token: &str| {
        let value = bearer(token);
        let headers = [("Authorization", value.as_str())];
        let refused = running.request("GET", "/api/v1/streams", &headers, "");
        let challenge = refused.header("www-authenticate").unwrap_or_default();
        assert!(challenge.contains("invalid_token"), "{challenge}");
        refused.problem(401)["detail"].to_string()
    };
    let rights = json!({"read": "*"});
    assert!(ask(&provider.token(&rights, Duration::ZERO)).contains("expired"));
    let forged = signed("one", &new_key(), &rights, HOUR);
    assert!(ask(&forged).contains("signature"));
    assert!(ask(&provider.token(&json!(7), HOUR)).contains("malformed"));
    assert!(running.total("login_failures_total") >= 3);
    // A player repeats the token that it has: that is no guess, so its address is not limited.
    for _ in 0..50 {
        assert!(ask(&forged).contains("signature"));
    }
    // Guesses are: each costs the address one of twenty.
    let refused = (0..30).filter(|number| {
        let guess = format!("{forged}{number}AA");
        let value = bearer(&guess);
        let headers = [("Authorization", value.as_str())];
        running
            .request("GET", "/api/v1/streams", &headers, "")
            .status
            == 429
    });
    assert!(refused.count() > 0);
}

#[test]
fn a_new_key_is_read_once_and_the_last_ones_stay_while_the_provider_is_away() {
    let provider = Provider::start();
    let running = provider.guard();
    let ask = |token: &str| {
        let value = bearer(token);
        let headers = [("Authorization", value.as_str())];
        running
            .request("GET", "/api/v1/streams", &headers, "")
            .status
    };
    let rights = json!({"read": "*"});
    assert_eq!(ask(&provider.token(&rights, HOUR)), 200);
    assert_eq!(provider.requests(), 1, "read at start");
    let second = new_key();
    provider.offer(&[("one", &provider.key), ("two", &second)]);
    assert_eq!(ask(&signed("two", &second, &rights, HOUR)), 200);
    assert_eq!(provider.requests(), 2, "the unknown key caused it");
    // Strangers cannot make the server ask again and again.
    for number in 0..10 {
        assert_eq!(
            ask(&signed(&number.to_string(), &second, &rights, HOUR)),
            401
        );
    }
    assert_eq!(provider.requests(), 2);
    provider.leave();
    assert_eq!(ask(&provider.token(&json!({"read": "cam"}), HOUR)), 200);
    let keys = running.metric("token_keys");
    assert_eq!(keys, [(String::new(), 2)]);
}

#[test]
fn without_keys_tokens_are_asked_to_wait_and_nothing_is_open() {
    let provider = Provider::start();
    provider.leave();
    let running = provider.guard();
    running.get("/api/v1/streams").problem(401);
    let value = bearer(&provider.token(&json!({"read": "*"}), HOUR));
    let headers = [("Authorization", value.as_str())];
    let refused = running.request("GET", "/api/v1/streams", &headers, "");
    assert!(refused.header("retry-after").is_some());
    refused.problem(503);
    assert!(describe(&running, "cam").contains(" 401 "));
}

#[test]
fn sessions_end_with_their_token() {
    const VALID: Duration = Duration::from_secs(8);
    let provider = Provider::start();
    let running = provider.guard();
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 2);
    let rights = json!({"read": "cam", "call": "team"});
    let token = || provider.token(&rights, VALID);
    let lasting = provider.token(&json!({"read": ["*"]}), HOUR);
    let mut viewer = watch(&running, STREAM, &token()).expect("she may");
    viewer.await_media();
    let value = bearer(&token());
    let participant = join(&running, "team", &[("Authorization", &value)]).expect("she may");
    let runtime = quic::runtime();
    let name = format!("cam?jwt={}", token());
    let reader = runtime.block_on(quic::open(&running, &name, Role::Subscriber));
    let reader = reader.expect("she may");
    let mut player = Hand::new(running.rtsp());
    let url = format!("rtsp://{}/cam?jwt={}", running.rtsp(), token());
    assert!(player.ask("DESCRIBE", &url, "").contains(" 200 "));
    let mut stays = watch(&running, STREAM, &lasting).expect("she may");
    stays.await_media();
    // All of them have ended some time after their token, and say why.
    let value = bearer(&lasting);
    let headers = [("Authorization", value.as_str())];
    let get = |location: &str| running.request("GET", location, &headers, "");
    let end = Instant::now() + SOON;
    while get(&viewer.location).status != 410 {
        assert!(Instant::now() < end, "the viewer's session goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
    let detail = get(&viewer.location).problem(410)["detail"].to_string();
    assert!(detail.contains("token"), "{detail}");
    assert!(
        runtime
            .block_on(quic::soon(async { reader.ended().await }))
            .to_string()
            .len()
            > 1
    );
    let mut rest = Vec::new();
    player
        .stream
        .read_to_end(&mut rest)
        .expect("closed by the server");
    while running.get(&participant.location).status == 200 {
        assert!(Instant::now() < end, "the participant stays");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(get(&stays.location).status, 204, "its token lasts");
}

#[test]
fn a_token_gives_a_role_on_the_admin_port_and_its_browser_is_out_with_it() {
    let provider = Provider::start();
    let running = provider.guard();
    let ask = |rights: &Value| {
        let value = bearer(&provider.token(rights, HOUR));
        running.admin_with("/api/v1/session", &[("Authorization", &value)])
    };
    let operator = ask(&json!({"admin": "operator"}));
    assert_eq!(operator.status, 200, "{}", operator.body);
    assert_eq!(operator.json()["role"], "operator");
    assert_eq!(ask(&json!({"read": "*"})).status, 401, "it has no role");
    assert_eq!(
        ask(&json!({"admin": "root"})).status,
        401,
        "there is no such role"
    );
    assert_eq!(
        running.admin("/api/v1/session").status,
        401,
        "nobody is in without a role"
    );
    let short = provider.token(&json!({"admin": "viewer"}), Duration::from_secs(3));
    let json = [("Content-Type", "application/json")];
    let shown = json!({ "token": short }).to_string();
    let signed = running.admin_send("POST", "/api/v1/session", &json, &shown);
    assert_eq!(signed.status, 200, "{}", signed.body);
    let set = signed.header("set-cookie").expect("a cookie").to_owned();
    let cookie = set.split(';').next().expect("a pair");
    let end = Instant::now() + Duration::from_secs(30);
    let status = || {
        running
            .admin_with("/api/v1/session", &[("Cookie", cookie)])
            .status
    };
    while status() != 401 {
        assert!(Instant::now() < end, "the browser is still in");
        std::thread::sleep(Duration::from_millis(100));
    }
}
