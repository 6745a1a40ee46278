//! A client at one end of a pair of sockets, the server at the other.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use axum::response::IntoResponse;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use glassline_cluster_member::Draining;

use super::*;

/// Long, for a busy machine; nothing waits for it that works.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longer than any test takes.
const NEVER: Duration = Duration::from_secs(600);

const NO_DEADLINES: Deadlines = Deadlines {
    header: NEVER,
    idle: NEVER,
    write: NEVER,
    linger: NEVER,
};

const SOON: Duration = Duration::from_millis(150);

/// Size of the response that no socket buffer takes as a whole, in bytes.
const LARGE: usize = 32 << 20;

struct Served {
    client: UnixStream,
    activity: Arc<Activity>,
    stop: watch::Sender<bool>,
    drain: watch::Sender<Option<Draining>>,
    task: JoinHandle<Closed>,
}

/// Answers `/never` not at all, `/late` after a while, `/body` with the length of the body, `/large` with more than a client's buffers take, `/closed` with
/// 401 and everything else with 200.
async fn answer(request: axum::extract::Request) -> Response {
    match request.uri().path() {
        "/late" => {
            tokio::time::sleep(SOON * 4).await;
            "late".into_response()
        }
        "/large" => vec![7; LARGE].into_response(),
        "/never" => std::future::pending().await,
        "/body" => {
            let body = axum::body::to_bytes(request.into_body(), 1 << 20).await;
            body.map_or(0, |body| body.len())
                .to_string()
                .into_response()
        }
        "/closed" => StatusCode::UNAUTHORIZED.into_response(),
        _ => "here".into_response(),
    }
}

fn serve_with(deadlines: Deadlines) -> Served {
    serve_sent(deadlines, "")
}

/// Serves a connection on which the client has sent `text` before the deadlines begin.
fn serve_sent(deadlines: Deadlines, text: &str) -> Served {
    serve_version(Version::Http1, deadlines, text.as_bytes())
}

fn serve_version(version: Version, deadlines: Deadlines, text: &[u8]) -> Served {
    let (client, server) = UnixStream::pair().expect("a pair");
    (&client).write_all(text).expect("it is short");
    client.set_read_timeout(Some(PATIENCE)).expect("a socket");
    client.set_write_timeout(Some(PATIENCE)).expect("a socket");
    server.set_nonblocking(true).expect("a socket");
    let server = tokio::net::UnixStream::from_std(server).expect("a runtime");
    let activity = Arc::new(Activity::new(Instant::now()));
    let (stop, stopped) = watch::channel(false);
    let (drain, drains) = watch::channel(None);
    let ending = Ending {
        stopped,
        drain: Some(drains),
    };
    let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let addresses = ConnectionAddresses {
        peer: nowhere,
        local: nowhere,
    };
    let serving = serve(
        server,
        Router::new().fallback(answer).into(),
        Reached::new(version, addresses, Scheme::Http),
        Arc::clone(&activity),
        deadlines,
        ending,
    );
    Served {
        client,
        activity,
        stop,
        drain,
        task: tokio::spawn(serving),
    }
}

impl Served {
    /// Lets the server drain.
    fn drain(&self) {
        let now = Instant::now();
        let (since, until) = (now, now + NEVER);
        self.drain.send_replace(Some(Draining { since, until }));
    }

    fn send(&mut self, text: &str) {
        self.client.write_all(text.as_bytes()).expect("it takes it");
    }

    /// Reads one response with a body of known length, and returns its head.
    fn response(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.client.read_exact(&mut byte).expect("a response");
            head.extend(byte);
        }
        let head = String::from_utf8(head).expect("text").to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length = length.expect("a length").parse().expect("a number");
        self.client
            .read_exact(&mut vec![0; length])
            .expect("a body");
        head
    }

    /// Reads to the end.
    fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        self.client.read_to_end(&mut rest).expect("an orderly end");
        String::from_utf8(rest).expect("text")
    }

    /// Reads to the end, which is a reset if the server closed the connection while more arrived.
    fn rest_or_reset(&mut self) -> String {
        let mut rest = Vec::new();
        if let Err(error) = self.client.read_to_end(&mut rest) {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        String::from_utf8(rest).expect("text")
    }

    async fn closed(self) -> Closed {
        let ended = tokio::time::timeout(PATIENCE, self.task).await;
        ended.expect("it ends").expect("no panic")
    }
}

mod http2;

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_client_is_closed_at_the_header_deadline() {
    let mut served = serve_with(Deadlines {
        header: SOON,
        ..NO_DEADLINES
    });
    assert_eq!(served.rest(), "");
    assert_eq!(served.closed().await, Closed::Header);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_trickles_is_refused_at_the_deadline() {
    let mut served = serve_with(Deadlines {
        header: SOON,
        ..NO_DEADLINES
    });
    served.send("GET / HTTP/1.1\r\nHost: a\r\nX-");
    let began = Instant::now();
    while served.client.write_all(b"a").is_ok() {
        assert!(
            began.elapsed() < PATIENCE,
            "every byte extends the deadline"
        );
        std::thread::sleep(SOON / 10);
    }
    let rest = served.rest_or_reset();
    assert!(rest.starts_with("HTTP/1.1 408 "), "{rest}");
    assert_eq!(served.closed().await, Closed::Header);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_request_has_the_same_header_deadline() {
    let deadlines = Deadlines {
        header: SOON * 4,
        ..NO_DEADLINES
    };
    let mut served = serve_sent(deadlines, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(served.response().starts_with("http/1.1 200 "));
    served.send("GET /");
    assert!(served.rest().starts_with("HTTP/1.1 408 "));
    assert_eq!(served.closed().await, Closed::Header);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_client_is_closed_between_two_requests() {
    let mut served = serve_with(Deadlines {
        idle: SOON,
        ..NO_DEADLINES
    });
    served.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(served.response().starts_with("http/1.1 200 "));
    assert_eq!(served.rest(), "");
    assert_eq!(served.closed().await, Closed::Idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_may_take_longer_than_any_deadline() {
    let deadlines = Deadlines {
        header: SOON,
        idle: SOON,
        write: SOON,
        linger: SOON,
    };
    let mut served = serve_sent(deadlines, "GET /late HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(served.response().starts_with("http/1.1 200 "));
    assert_eq!(served.closed().await, Closed::Idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_closed() {
    let mut served = serve_with(Deadlines {
        write: SOON,
        ..NO_DEADLINES
    });
    served.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(served.closed().await, Closed::Stalled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_slowly_gets_all_of_it() {
    let mut served = serve_with(Deadlines {
        write: SOON * 20,
        ..NO_DEADLINES
    });
    served.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    for _ in 0..8 {
        served
            .client
            .read_exact(&mut vec![0; LARGE / 16])
            .expect("a part");
        tokio::time::sleep(SOON / 2).await;
    }
    served
        .client
        .read_exact(&mut vec![0; LARGE / 2])
        .expect("the rest");
    drop(served.client);
    assert_eq!(served.task.await.expect("no panic"), Closed::Ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_arrives_although_the_body_is_not_read() {
    let mut served = serve_with(NO_DEADLINES);
    let body = 600 << 10;
    served.send(&format!(
        "POST /closed HTTP/1.1\r\nHost: a\r\nContent-Length: {body}\r\n\r\n"
    ));
    served
        .client
        .write_all(&vec![7; body])
        .expect("it is discarded");
    let head = served.response();
    assert!(head.starts_with("http/1.1 401 "), "{head}");
    assert_eq!(served.rest(), "", "an orderly end");
    drop(served.client);
    assert_eq!(served.task.await.expect("no panic"), Closed::Ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_body_does_not_hold_the_connection() {
    let mut served = serve_with(Deadlines {
        linger: SOON,
        ..NO_DEADLINES
    });
    served.send("POST /closed HTTP/1.1\r\nHost: a\r\nContent-Length: 600000\r\n\r\n");
    assert!(served.response().starts_with("http/1.1 401 "));
    assert_eq!(served.closed().await, Closed::Ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_rights_makes_room() {
    let mut served = serve_with(NO_DEADLINES);
    served.send("GET /closed HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(served.response().starts_with("http/1.1 401 "));
    assert_eq!(
        served.activity.rank(),
        super::super::eviction_rank::EvictionRank::HalfOpen
    );
    served.activity.evict();
    assert_eq!(served.rest(), "");
    assert_eq!(served.closed().await, Closed::Evicted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_answers_requests_in_progress_and_closes_the_rest() {
    let mut half_open = serve_with(NO_DEADLINES);
    half_open.send("GET / HTTP/1.1\r\n");
    while !half_open.activity.has_partial_header() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    half_open.stop.send_replace(true);
    assert_eq!(half_open.rest(), "");
    assert_eq!(half_open.closed().await, Closed::Ended);

    let mut busy = serve_with(NO_DEADLINES);
    busy.send("GET /late HTTP/1.1\r\nHost: a\r\n\r\n");
    while !busy.activity.has_request() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    busy.stop.send_replace(true);
    let head = busy.response();
    assert!(head.contains("connection: close"), "{head}");
    assert_eq!(busy.rest(), "");
    drop(busy.client);
    assert_eq!(busy.task.await.expect("no panic"), Closed::Ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_of_any_size_is_not_kept() {
    let mut served = serve_with(NO_DEADLINES);
    served.send("GET / HTTP/1.1\r\nHost: a\r\nX-Long: ");
    // The server may end the connection before all of it is sent.
    let _ = served.client.write_all(&vec![b'a'; HEADER_BYTES_MAX]);
    assert!(served.response().starts_with("http/1.1 431 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_not_kept_while_the_server_drains() {
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut between_two = serve_with(NO_DEADLINES);
    between_two.send(get);
    assert!(between_two.response().starts_with("http/1.1 200 "));
    between_two.drain();
    assert_eq!(between_two.rest(), "");
    // Whoever comes now is answered, and told to connect again.
    let newcomer = serve_with(NO_DEADLINES);
    newcomer.drain();
    let busy = serve_sent(NO_DEADLINES, "GET /late HTTP/1.1\r\nHost: a\r\n\r\n");
    while !busy.activity.has_request() {
        tokio::task::yield_now().await;
    }
    busy.drain();
    for (mut served, request) in [(newcomer, get), (busy, "")] {
        served.send(request);
        let head = served.response();
        assert!(head.starts_with("http/1.1 200 "), "{head}");
        assert_eq!(served.rest(), "");
        drop(served.client);
        assert_eq!(served.task.await.expect("no panic"), Closed::Ended);
    }
}
