//! HLS by HTTP/2: many requests that wait for parts on one connection, and everything else beside them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use glassline_hub::Publisher;
use glassline_media::{Codec, MediaTime, Stamps, Track, TrackIndex, UnitBuilder};
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::https::{client_config, secured};
use crate::running::{Running, STREAM};

/// Long, for a busy machine, and shorter than the time for which requests for parts wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// Requests that one connection may have, and those of them that may wait.
const REQUESTS_MAX: usize = 64;
const WAITS_MAX: usize = REQUESTS_MAX / 4 * 3;

/// A source whose frames come when a test says so.
struct Camera {
    publisher: Publisher,
    begun: Instant,
    frames: u32,
}

impl Camera {
    fn start(running: &Running) -> Self {
        let (tracks, begun) = (vec![Track::new(Codec::Vp8)], Instant::now());
        let publisher = running.stream().publish(tracks, begun);
        Self {
            publisher: publisher.expect("nobody publishes"),
            begun,
            frames: 0,
        }
    }

    /// Sends frames that are 40 ms apart, with a keyframe each second.
    fn send(&mut self, frames: u32) {
        for _ in 0..frames {
            let keyframe = self.frames.is_multiple_of(25);
            let mut builder = UnitBuilder::default();
            builder.wire_only(&[0xee]);
            builder.coded(match keyframe {
                true => &[0x10, 0, 0, 0x9d, 1, 0x2a, 64, 0, 32, 0, 7],
                false => &[0x11, 0, 0, 7],
            });
            builder.end_packet();
            let since_begun = Duration::from_millis(40) * self.frames;
            let stamps = Stamps::arrived(self.begun + since_begun);
            let time = MediaTime::ZERO + since_begun;
            let unit = builder.build(TrackIndex(0), time, keyframe, stamps);
            let unit = unit.expect("a frame");
            let pushed = self.publisher.push(unit, Instant::now());
            pushed.expect("it publishes");
            self.frames += 1;
        }
    }
}

/// A connection of HTTP/2.
#[derive(Clone)]
struct Client(SendRequest<Empty<Bytes>>);

impl Client {
    async fn connect(running: &Running) -> Self {
        let socket = TcpStream::connect(running.listener("https")).await;
        let config = client_config(&["h2", "http/1.1"]);
        let name = ServerName::try_from("localhost").expect("a name");
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, socket.expect("open"));
        let tls = connecting.await.expect("a handshake");
        assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (requests, connection) = handshake(TokioExecutor::new(), TokioIo::new(tls))
            .await
            .expect("HTTP/2");
        tokio::spawn(connection);
        Self(requests)
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let mut requests = self.0.clone();
        requests.ready().await.expect("a connection");
        let request = Request::get(format!("https://localhost{path}"));
        let request = request.body(Empty::new()).expect("a request");
        let answer = requests.send_request(request).await.expect("an answer");
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.expect("a body");
        let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        (status, text)
    }
}

/// Returns the number of the segment that is open.
fn open_segment(playlist: &str) -> u64 {
    let mut lines = playlist.lines();
    let first = lines.find_map(|it| it.strip_prefix("#EXT-X-MEDIA-SEQUENCE:"));
    let first: u64 = first.and_then(|it| it.parse().ok()).expect(playlist);
    first + playlist.matches("#EXTINF").count() as u64
}

#[test]
fn requests_that_wait_for_parts_leave_room_on_their_connection() {
    // Whatever a busy machine does, nothing else ends a segment.
    let running = Running::with(1, |config| {
        secured(config);
        config.hls.segment_s = 10;
    });
    let mut camera = Camera::start(&running);
    camera.send(30);
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(async {
        let client = Client::connect(&running).await;
        let index = format!("/{STREAM}/hls/index.m3u8");
        let (status, index) = client.get(&index).await;
        assert_eq!(status, 200, "{index}");
        let uri = index.lines().find(|it| it.contains(".m3u8"));
        let path = format!("/{STREAM}/hls/{}", uri.expect("a playlist"));
        camera.send(30);
        let (status, playlist) = client.get(&path).await;
        assert_eq!(status, 200, "{playlist}");

        // More requests than the connection may have, for a segment whose frames do not come yet.
        let next = format!("{path}?_HLS_msn={}", open_segment(&playlist));
        let all: Vec<_> = (0..3 * REQUESTS_MAX).map(|_| client.get(&next)).collect();
        let mut waiting: FuturesUnordered<_> = all.into_iter().collect();
        for _ in WAITS_MAX..3 * REQUESTS_MAX {
            let answer = tokio::time::timeout(PATIENCE, waiting.next()).await;
            let (status, text) = answer.expect("in time").expect("one of them");
            assert_eq!(status, 503, "{text}");
            assert!(text.contains("of this connection"), "{text}");
        }
        // Other routes are answered, and so are other connections that wait.
        let other = client.get("/api/v1/server");
        let other = tokio::time::timeout(PATIENCE, other).await;
        assert_eq!(other.expect("in time").0, 200);
        let second = Client::connect(&running).await;
        let of_second = second.get(&next);
        camera.send(400);
        assert_eq!(of_second.await.0, 200);
        let answers: Vec<_> = waiting.collect().await;
        assert_eq!(answers.len(), WAITS_MAX);
        for (status, text) in &answers {
            assert_eq!((*status, text), (200, &answers[0].1));
        }
    });
}
