//! Limits and deadlines of HTTP connections, and bodies of clients without rights.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use glassline_config::{Config, DataAccess, Secret};

use crate::peer::SDP;
use crate::running::Running;

/// Long, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time that the server gives a client to send a request's header.
const HEADER: Duration = Duration::from_secs(10);

/// Places for connections of one address in these tests.
const PLACES: usize = 40;

/// Requests whose header is not complete, more than there are places for.
struct HalfOpen(Vec<TcpStream>);

impl HalfOpen {
    fn open(running: &Running, count: usize) -> Self {
        let connections = (0..count).map(|_| {
            let mut stream = running.connect_http(Ipv4Addr::LOCALHOST);
            let text = b"POST /cam/whep HTTP/1.1\r\nHost: localhost\r\nX-";
            stream.write_all(text).expect("a connection");
            stream.set_nonblocking(true).expect("a socket");
            stream
        });
        Self(connections.collect())
    }

    /// Returns how many of the connections the server has not closed.
    fn open_count(&mut self) -> usize {
        let is_open = |stream: &mut TcpStream| {
            let mut buffer = [0; 1024];
            loop {
                match stream.read(&mut buffer) {
                    Ok(0) => return false,
                    // The answer that the request took too long.
                    Ok(_) => {}
                    Err(error) => return error.kind() == ErrorKind::WouldBlock,
                }
            }
        };
        self.0.retain_mut(is_open);
        self.0.len()
    }
}

fn limited(config: &mut Config) {
    config.http.connections = 2 * PLACES;
    config.http.connections_per_address = PLACES;
}

#[test]
fn half_open_requests_make_room_for_others_and_end_at_the_deadline() {
    let running = Running::with(1, limited);
    let began = Instant::now();
    let mut half_open = HalfOpen::open(&running, 3 * PLACES);
    while half_open.open_count() > PLACES {
        assert!(began.elapsed() < PATIENCE, "there are only so many places");
        std::thread::sleep(Duration::from_millis(10));
    }
    let held = half_open.open_count();
    assert!(
        held > 0 || began.elapsed() >= HEADER,
        "nobody needed these places"
    );
    // A client behind the same address, and one elsewhere.
    assert_eq!(running.get("/api/v1/server").status, 200);
    let other = Ipv4Addr::new(127, 0, 0, 2);
    let answer = running.request_from(other, "GET", "/api/v1/server", &[], "");
    assert_eq!(answer.status, 200);
    assert_eq!(running.admin("/healthz").status, 200);
    while half_open.open_count() > 0 {
        assert!(
            began.elapsed() < PATIENCE,
            "half-open requests stay for ever"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    let closed = running.metric("http_connections_closed_total");
    let of = |reason: &str| {
        let labels = format!("reason=\"{reason}\",listener=\"http\"");
        closed
            .iter()
            .find(|(it, _)| it.contains(&labels))
            .map(|(_, count)| *count)
    };
    // A slow machine reaches the deadline of some before all have come.
    let (evicted, header) = (of("evicted").unwrap_or(0), of("header").unwrap_or(0));
    assert!(evicted > 0 && header > 0, "{closed:?}");
}

#[test]
fn a_flood_of_connections_leaves_one_that_was_granted_a_request_alone() {
    let running = Running::with(1, limited);
    let mut page = running.connect_http(Ipv4Addr::LOCALHOST);
    let request = b"GET /api/v1/clock HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut ask = || {
        page.write_all(request).expect("it is open");
        let mut answer = [0; 4096];
        let count = page.read(&mut answer).expect("an answer");
        assert!(
            answer[..count].starts_with(b"HTTP/1.1 200"),
            "it was closed"
        );
    };
    ask();
    let flood = HalfOpen::open(&running, 4 * PLACES);
    ask();
    drop(flood);
}

#[test]
fn requests_without_rights_are_answered_before_their_body_is_read() {
    let running = Running::with(1, |config| {
        config.auth.publish_token = Secret::new("correct-horse").ok();
        config.auth.read_token = Secret::new("battery-staple").ok();
        config.webrtc.data.viewers = DataAccess::Write;
    });
    let answer = |method: &str, path: &str, kind: &str, length: usize| {
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\nv=0"
        );
        let answer = running.raw(&text);
        answer.unwrap_or_else(|| panic!("{method} {path} waits for the body"))
    };
    let (sdp, fragment) = ("application/sdp", "application/trickle-ice-sdpfrag");
    for (status, method, path, kind) in [
        (401, "POST", "/cam/whep", sdp),
        (401, "POST", "/cam/whip", sdp),
        (401, "POST", "/doSignaling", "application/json"),
        (401, "POST", "/call/room", sdp),
        (
            404,
            "POST",
            "/cam/whep/nobody/report?token=battery-staple",
            "application/json",
        ),
        (
            404,
            "PATCH",
            "/cam/whep/nobody?token=battery-staple",
            fragment,
        ),
        (404, "PATCH", "/call/room/nobody", fragment),
        (404, "POST", "/call/room/nobody/hear/anybody", sdp),
        (404, "PATCH", "/call/room/nobody/hear/anybody/leg", fragment),
        (404, "POST", "/-/nothing/here?token=battery-staple", sdp),
    ] {
        assert_eq!(
            answer(method, path, kind, 200_000).status,
            status,
            "{method} {path}"
        );
    }
    // A body that is too large is refused by what its header announces.
    let path = "/call/room?token=correct-horse";
    answer("POST", path, sdp, 300_000).problem(413);
}

#[test]
fn a_stop_does_not_wait_for_half_open_requests() {
    let running = Running::start(1);
    let mut half_open = HalfOpen::open(&running, 100);
    assert_eq!(half_open.open_count(), 100);
    let began = Instant::now();
    running.stop(2 * PATIENCE);
    assert!(
        began.elapsed() < PATIENCE,
        "the whole time of grace was needed"
    );
    assert_eq!(half_open.open_count(), 0);
}

#[test]
fn connections_are_counted_while_they_are_open() {
    let running = Running::start(1);
    let open = || running.metric("http_connections")[..].to_vec();
    let of = |listener: &str| {
        let label = format!("listener=\"{listener}\"");
        let all = open();
        all.iter()
            .find(|(it, _)| *it == label)
            .map(|(_, count)| *count)
    };
    let wait_for = |listener, count| {
        let began = Instant::now();
        while of(listener) != Some(count) {
            assert!(
                began.elapsed() < PATIENCE,
                "{count} expected at {listener}: {:?}",
                open()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    // The connection that asks; the server may take a moment to see the end of the one before.
    wait_for("admin", 1);
    wait_for("http", 0);
    let held: Vec<_> = (0..5)
        .map(|_| running.connect_http(Ipv4Addr::LOCALHOST))
        .collect();
    wait_for("http", 5);
    drop(held);
    wait_for("http", 0);
}

#[test]
fn an_offer_may_arrive_in_parts() {
    let running = Running::start(1);
    let mut stream = running.connect_http(Ipv4Addr::LOCALHOST);
    let (name, kind) = SDP;
    let head = format!("POST /nobody/whep HTTP/1.1\r\nHost: localhost\r\n{name}: {kind}\r\n");
    for part in [
        &head,
        "Content-Length: 5\r\n",
        "Connection: close\r\n\r\n",
        "v=0",
        "\r\n",
    ] {
        stream.write_all(part.as_bytes()).expect("it waits");
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}
