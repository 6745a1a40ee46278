//! Cameras that are read over HTTP.

use std::sync::atomic::{AtomicUsize, Ordering};

use glassline_demux::MotionJpeg;
use glassline_media::Codec;
use glassline_rtsp::auth::{Authorization, User, digest};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

static FILM: &[u8] = include_bytes!("../../../demux/samples/h264-mp2.ts");
static FRAMES: &[u8] = include_bytes!("../../../demux/samples/jpeg-pcm.mov");

/// Returns the pictures of a film.
fn frames() -> Vec<Vec<u8>> {
    let mut splitter = MotionJpeg::default();
    splitter.push(FRAMES).expect("pictures");
    let frames = std::iter::from_fn(|| splitter.next_frame());
    frames.map(|it| it.to_vec()).collect()
}

/// Answer of a camera to a request, and the media that follow.
struct Reply {
    head: String,
    pieces: Vec<Vec<u8>>,
    is_endless: bool,
}

impl Reply {
    fn new(head: &str, pieces: Vec<Vec<u8>>, is_endless: bool) -> Self {
        Self {
            head: format!("HTTP/1.1 {head}\r\n\r\n"),
            pieces,
            is_endless,
        }
    }

    fn of(head: &str) -> Self {
        Self::new(&format!("{head}\r\nContent-Length: 0"), Vec::new(), false)
    }
}

/// A camera that answers each request as a function says.
struct Camera {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Camera {
    async fn start(answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&seen), Arc::clone(&answer)));
            }
        });
        Self { port, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }

    fn source(&self, rest: &str) -> String {
        let (login, rest) = rest.split_once('/').expect("a path");
        format!("cam=http://{login}127.0.0.1:{}/{rest}", self.port)
    }
}

async fn serve(
    mut socket: TcpStream,
    seen: Arc<Mutex<Vec<String>>>,
    answer: Arc<impl Fn(&str) -> Reply>,
) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match socket.read_u8().await {
            Ok(byte) => request.push(byte),
            Err(_) => return,
        }
    }
    let request = String::from_utf8(request).expect("text");
    let reply = answer(&request);
    seen.lock().push(request);
    let mut sent = socket.write_all(reply.head.as_bytes()).await;
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    loop {
        for piece in &reply.pieces {
            if sent.is_err() {
                return;
            }
            sent = socket.write_all(piece).await;
            if reply.is_endless {
                ticks.tick().await;
            }
        }
        if !reply.is_endless || sent.is_err() {
            return;
        }
    }
}

/// Waits until the stream is down, and returns the reason.
async fn reason(stream: &Stream) -> String {
    until("a reason", || matches!(stream.state(), State::Down { .. })).await;
    let state = stream.state();
    state.detail().expect("a reason").to_string()
}

async fn refusal(head: &'static str, login: &str) -> String {
    let camera = Camera::start(move |_| Reply::of(head)).await;
    let source = camera.source(&format!("{login}/x"));
    let running = Running::start(&[&*source]).await.expect("starts");
    let why = reason(&running.stream("cam")).await;
    running.stop().await;
    why
}

#[tokio::test]
async fn frames_of_a_multipart_body_play_whatever_its_boundary() {
    type PartStyle = fn(&[u8]) -> Vec<u8>;
    let styles: [PartStyle; 4] = [
        |frame| {
            let length = frame.len();
            let head =
                format!("--b\r\nContent-Type: image/jpeg\r\nContent-Length: {length}\r\n\r\n");
            [head.as_bytes(), frame, b"\r\n"].concat()
        },
        |frame| [b"--other\r\nContent-Type: image/jpeg\r\n\r\n", frame].concat(),
        |frame| [b"\n----b\nContent-length: 7\n\n", frame, b"\n"].concat(),
        <[u8]>::to_vec,
    ];
    for (number, style) in styles.into_iter().enumerate() {
        let camera = Camera::start(move |_| {
            let pieces = frames().iter().map(|it| style(it)).collect();
            let head = "200 OK\r\nContent-Type: multipart/x-mixed-replace;boundary=--b";
            Reply::new(head, pieces, true)
        });
        let camera = camera.await;
        let source = camera.source("/mjpg?fps=5&timeout_s=9");
        let running = Running::start(&[&*source]).await.expect("starts");
        let stream = running.stream("cam");
        until("pictures", || stream.totals().units > 5).await;
        assert_eq!(stream.tracks()[0].codec, Codec::Jpeg, "style {number}");
        assert_eq!(stream.source_note().expect("told").protocol, "http");
        let newest = stream.latest_keyframe(TrackIndex(0)).expect("a picture");
        let jpeg = newest.coded_frame().expect("whole").to_vec();
        assert!(jpeg.starts_with(&[0xff, 0xd8]) && jpeg.ends_with(&[0xff, 0xd9]));
        let asked = &camera.requests()[0];
        assert!(asked.starts_with("GET /mjpg?fps=5 HTTP/1.1\r\n"), "{asked}");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_single_frame_is_fetched_again_with_digest_credentials() {
    const CHALLENGE: &str =
        "401 No\r\nWWW-Authenticate: Digest realm=\"cam\", nonce=\"abc\", qop=\"auth\"";
    let (refused, granted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (Arc::clone(&refused), Arc::clone(&granted));
    let camera = Camera::start(move |request| {
        let field = request
            .lines()
            .find_map(|it| it.strip_prefix("authorization: "));
        let user = User {
            name: "admin".to_owned(),
            password: "p@ss".to_owned(),
        };
        let secret = digest::secret(digest::Algorithm::Md5, &user, "cam");
        let shown = field.and_then(Authorization::parse);
        let is_right = matches!(
            shown, Some(Authorization::Digest(it)) if it.verify(&secret, "GET", &[])
        );
        if !is_right {
            counts.0.fetch_add(1, Ordering::Relaxed);
            return Reply::of(CHALLENGE);
        }
        counts.1.fetch_add(1, Ordering::Relaxed);
        let frame = frames().swap_remove(0);
        let head = format!(
            "200 OK\r\nContent-Type: image/jpeg\r\nContent-Length: {}",
            frame.len()
        );
        Reply::new(&head, vec![frame], false)
    });
    let camera = camera.await;
    let source = camera.source("admin:p%40ss@/shot.jpg?every_s=0.1");
    let began = Instant::now();
    let running = Running::start(&[&*source]).await.expect("starts");
    let stream = running.stream("cam");
    until("pictures", || stream.totals().units >= 4).await;
    assert!(
        began.elapsed() >= Duration::from_millis(300),
        "at the stated rate"
    );
    assert_eq!(refused.load(Ordering::Relaxed), 1, "the nonce is kept");
    assert!(granted.load(Ordering::Relaxed) >= 4);
    running.stop().await;
}

#[tokio::test]
async fn a_transport_stream_over_http_plays_and_its_end_is_told() {
    let camera = Camera::start(|_| {
        let head = "200 OK\r\nContent-Type: application/octet-stream";
        Reply::new(head, vec![FILM.to_vec()], false)
    });
    let camera = camera.await;
    let source = camera.source("/live");
    let running = Running::start(&[&*source]).await.expect("starts");
    let stream = running.stream("cam");
    until("media", || stream.totals().units > 20).await;
    let codecs: Vec<_> = stream.tracks().iter().map(|it| it.codec).collect();
    assert_eq!(codecs, [Codec::H264, Codec::MpegAudio]);
    let why = reason(&stream).await;
    assert_eq!(why, "the camera closed the connection");
    running.stop().await;
}

#[tokio::test]
async fn what_a_camera_refuses_over_http_is_told_in_a_sentence() {
    let basic = "401 No\r\nWWW-Authenticate: Basic realm=\"cam\"";
    for (head, login, wanted) in [
        (basic, "", "it wants a user and a password"),
        (
            basic,
            "u:secret@",
            "the camera answered 401: user or password is wrong",
        ),
        ("403 Forbidden", "", "the camera answered 403"),
        (
            "401 No\r\nWWW-Authenticate: NTLM",
            "u:secret@",
            "neither for Basic nor for Digest",
        ),
        ("404 Not Found", "", "no stream at this path (404)"),
        ("503 Busy", "", "it answered 503 (Service Unavailable)"),
        (
            "200 OK\r\nContent-Type: text/html; charset=utf-8",
            "",
            "answered with 'text/html'",
        ),
        ("302 Found", "", "names no URL"),
        ("302 Found\r\nLocation: /x", "", "redirects in a circle"),
        (
            "302 Found\r\nLocation: ftp://h/x",
            "",
            "ftp://h/x, which is no URL of HTTP",
        ),
    ] {
        let why = refusal(head, login).await;
        assert!(why.contains(wanted), "{head}: {why}");
        assert!(!why.contains("secret"), "{why}");
    }
}

#[tokio::test]
async fn credentials_do_not_follow_a_redirection_to_another_host() {
    let other = Camera::start(|_| Reply::of("401 No\r\nWWW-Authenticate: Basic realm=\"x\"")).await;
    let target = format!("http://localhost:{}/y", other.port);
    let camera =
        Camera::start(move |_| Reply::of(&format!("302 Found\r\nLocation: {target}"))).await;
    let source = camera.source("u:secret@/x");
    let running = Running::start(&[&*source]).await.expect("starts");
    let why = reason(&running.stream("cam")).await;
    assert!(why.contains("go neither to another host"), "{why}");
    let asked = other.requests().join("");
    assert!(
        asked.contains("GET /y") && !asked.contains("authorization"),
        "{asked}"
    );
    running.stop().await;
}

#[tokio::test]
async fn a_camera_of_the_api_is_not_dialled_at_addresses_that_it_may_not_have() {
    let camera = Camera::start(|_| Reply::of("200 OK")).await;
    let mut spec = SourceSpec::parse(&camera.source("/x")).expect("a source");
    let found = spec.input.camera_mut().expect("a camera");
    assert_eq!(found.host_and_port(), ("127.0.0.1", camera.port));
    found.reach = Reach::Within(AddressLimits {
        private: true,
        loopback: false,
    });
    let running = Running::start(&["demo"]).await.expect("starts");
    running.sources.add(spec).await.expect("a name is free");
    let why = reason(&running.stream("cam")).await;
    assert!(why.contains("admin.sources.loopback"), "{why}");
    assert_eq!(camera.requests(), [""; 0]);
    running.stop().await;
}

#[tokio::test]
async fn a_camera_over_http_on_demand_is_asked_only_while_somebody_watches() {
    let camera = Camera::start(|_| {
        let head = "200 OK\r\nContent-Type: multipart/x-mixed-replace";
        Reply::new(head, frames(), true)
    });
    let camera = camera.await;
    let source = camera.source("/mjpg?idle_s=0.1");
    let running = Running::start(&[&*source]).await.expect("starts");
    let stream = running.stream("cam");
    assert_eq!(stream.state(), State::Idle);
    let demand = stream.demand();
    until("pictures", || stream.totals().units > 2).await;
    drop(demand);
    until("rest", || stream.state() == State::Idle).await;
    assert_eq!(camera.requests().len(), 1);
    running.stop().await;
}
