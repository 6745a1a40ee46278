//! Panics of requests, connections and listeners of HTTP.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};

use super::{await_that, fail, fail_at};
use crate::running::Running;

/// A connection that is kept open from one request to the next.
struct KeptConnection(BufReader<TcpStream>);

impl KeptConnection {
    fn open(running: &Running) -> Self {
        let mut connection = Self(BufReader::new(running.connect_http(Ipv4Addr::LOCALHOST)));
        assert_eq!(connection.get("/api/v1/server").0, 200);
        connection
    }

    /// Sends a request, and returns the status, the header and the body of the response.
    fn get(&mut self, path: &str) -> (u16, String, String) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let sent = self.0.get_mut().write_all(request.as_bytes());
        sent.expect("the connection is open");
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = self.0.read_line(&mut head).expect("a response");
            assert_ne!(read, 0, "the connection is closed: {head}");
        }
        let head = head.to_ascii_lowercase();
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        let length = field("content-length: ").expect("a length");
        let mut body = vec![0; length.parse().expect("a number")];
        self.0.read_exact(&mut body).expect("the body");
        let status = head.split(' ').nth(1).expect("a status");
        let status = status.parse().expect("a number");
        (status, head, String::from_utf8(body).expect("text"))
    }
}

#[test]
fn a_request_that_panics_costs_that_request() {
    let running = Running::start(1);
    let mut unlucky = KeptConnection::open(&running);
    let mut other = KeptConnection::open(&running);
    for panics in 1..=20 {
        fail_at(&running, "http-request");
        let (status, head, body) = unlucky.get("/api/v1/server");
        assert_eq!(status, 500, "{body}");
        assert!(
            head.contains("content-type: application/problem+json"),
            "{head}"
        );
        assert!(body.contains("the server made a mistake"), "{body}");
        assert_eq!(
            unlucky.get("/api/v1/server").0,
            200,
            "its connection goes on"
        );
        assert_eq!(other.get("/api/v1/server").0, 200);
        assert_eq!(running.of_part("panics_total", "http"), panics);
    }
    assert_eq!(
        running.admin("/healthz").status,
        200,
        "requests end no process"
    );
}

#[test]
fn metrics_that_panic_are_collected_the_next_time() {
    let running = Running::start(1);
    fail_at(&running, "metrics");
    running.admin("/metrics").problem(500);
    assert_eq!(running.admin("/metrics").status, 200);
    assert_eq!(running.of_part("panics_total", "http"), 1);
}

#[test]
fn a_connection_whose_task_panics_goes_alone() {
    let running = Running::start(1);
    let mut kept = KeptConnection::open(&running);
    let open = |running: &Running| {
        let open = running.metric("http_connections");
        open.into_iter()
            .find(|(labels, _)| labels.contains("\"http\""))
            .expect("a listener")
            .1
    };
    await_that(&running, "only one is open", |running| open(running) == 1);
    fail_at(&running, "http-connection");
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert!(running.raw(request).is_none(), "it is closed");
    await_that(&running, "the panic is counted", |running| {
        running.of_part("panics_total", "http") == 1
    });
    assert_eq!(kept.get("/api/v1/server").0, 200);
    await_that(&running, "its place is free", |running| open(running) == 1);
    assert_eq!(running.get("/api/v1/server").status, 200);
}

#[test]
fn a_listener_that_panics_accepts_again_and_its_connections_go_on() {
    let running = Running::start(1);
    let mut kept = KeptConnection::open(&running);
    for (restarts, listener) in (1..).zip(["http", "admin", "http"]) {
        fail(&running, listener, "panic");
        await_that(&running, "the listener accepts again", |running| {
            running.of_part("part_restarts_total", "http") == restarts
        });
        assert_eq!(running.of_part("panics_total", "http"), restarts);
        assert_eq!(kept.get("/api/v1/server").0, 200, "{listener}");
        assert_eq!(running.get("/api/v1/server").status, 200, "{listener}");
    }
    assert_eq!(running.admin("/healthz").status, 200);
}

#[test]
fn a_listener_that_panics_again_and_again_ends_the_process() {
    let running = Running::start(1);
    for panics in 1..=5 {
        fail(&running, "http", "panic");
        await_that(&running, "the panic comes", |running| {
            running.of_part("panics_total", "http") == panics
        });
    }
    assert_eq!(running.failed(), "http panicked five times within a minute");
    assert_eq!(running.admin("/healthz").status, 503);
}

#[test]
fn health_names_every_thread_and_the_task_that_hangs() {
    let running = Running::with_workers(2);
    let threads = |running: &Running| {
        let health = running.admin_json("/healthz").json();
        let threads = health["threads"].as_array().expect("a list").clone();
        let name = |it: &serde_json::Value| it["thread"].as_str().expect("a name").to_owned();
        threads
            .iter()
            .map(|it| (name(it), it["stuck"] == true))
            .collect::<Vec<_>>()
    };
    // Threads are listed from their first turn on, and not all begin in the same instant.
    for name in ["shard-0", "rtsp-0", "quic", "http", "admin", "tokio"] {
        await_that(&running, &format!("{name} is listed"), |running| {
            threads(running).iter().any(|(it, _)| it == name)
        });
    }
    fail(&running, "http", "hang&ms=9000");
    await_that(&running, "the hanging listener is noticed", |running| {
        running.admin("/healthz").status == 503
    });
    let text = running.admin("/healthz").body;
    assert!(text.contains(" has made no progress"), "{text}");
    let stuck = threads(&running).into_iter().filter(|(_, stuck)| *stuck);
    let stuck: Vec<_> = stuck.map(|(name, _)| name).collect();
    assert!(stuck.iter().any(|it| it == "http"), "{stuck:?}");
    // The task that tokio's worker was to run next waits behind the one that hangs. No other does.
    assert!(stuck.len() <= 2, "{stuck:?}");
    let is_thread = |name: &String| ["shard-0", "rtsp-0"].contains(&name.as_str());
    assert!(!stuck.iter().any(is_thread), "{stuck:?}");
    await_that(&running, "the listener recovers", |running| {
        running.admin("/healthz").status == 200
    });
    assert_eq!(running.get("/api/v1/server").status, 200);
}
