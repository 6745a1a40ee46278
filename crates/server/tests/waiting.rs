//! Requests that wait for the server, and streams of events: they leave room for everybody else.

use std::borrow::Cow;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use glassline_access::auth::Name;
use glassline_config::{Config, NamedToken, Role, Secret};
use glassline_hub::Prospect;
use glassline_ingest::SourceSpec;
use glassline_media::{Codec, MediaTime, Stamps, Track, TrackIndex, UnitBuilder};

use crate::running::Running;

/// Long, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time that the server waits for a source.
const SOURCE_PATIENCE: Duration = Duration::from_secs(10);

/// Places for connections of one address in these tests; a quarter of them may wait.
const PLACES: usize = 40;

const VIEWER: &str = "viewer-0123456789";
const ADMIN: &str = "admin-0123456789";

/// A request on a connection that stays open, and what was read of its answer.
struct Request {
    stream: TcpStream,
    answer: Vec<u8>,
    is_closed: bool,
}

impl Request {
    fn send(mut stream: TcpStream, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut text = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n");
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        stream
            .write_all((text + "\r\n").as_bytes())
            .expect("a connection");
        stream.set_nonblocking(true).expect("a socket");
        Self {
            stream,
            answer: Vec::new(),
            is_closed: false,
        }
    }

    /// Reads what has come by now.
    fn read(&mut self) -> Cow<'_, str> {
        let mut buffer = [0; 64 << 10];
        while !self.is_closed {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.is_closed = true,
                Ok(count) => self.answer.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.is_closed = true,
            }
        }
        String::from_utf8_lossy(&self.answer)
    }

    fn has_ended(&mut self) -> bool {
        // The last chunk, or the end of the connection.
        self.read().ends_with("\r\n0\r\n\r\n") || self.is_closed
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

fn limited(config: &mut Config) {
    config.http.connections = 2 * PLACES;
    config.http.connections_per_address = PLACES;
}

/// Asks for an image of a source that comes because somebody asks, and does not come.
fn wake(running: &Running, address: u8) -> Request {
    let stream = running.connect_http(Ipv4Addr::new(127, 0, 0, address));
    Request::send(stream, "/cam/snapshot.jpg?wake", &[])
}

#[test]
fn requests_beyond_the_share_of_those_that_wait_are_answered_at_once() {
    let running = Running::with(1, limited);
    running.stream().set_prospect(Prospect::OnDemand);
    let mut asked: Vec<_> = (0..PLACES).map(|_| wake(&running, 2)).collect();
    let refused = |asked: &mut [Request]| {
        let is_refused = |it: &mut Request| {
            let answer = it.read();
            answer.starts_with("HTTP/1.1 503 ") && answer.contains("retry-after: 1")
        };
        asked.iter_mut().map(is_refused).filter(|it| *it).count()
    };
    until("a quarter of the places waits", || {
        refused(&mut asked) >= PLACES - PLACES / 4
    });
    // Others are answered, and may wait themselves.
    let other = Ipv4Addr::new(127, 0, 0, 3);
    let answer = running.request_from(other, "GET", "/api/v1/server", &[], "");
    assert_eq!(answer.status, 200);
    assert_eq!(running.get("/api/v1/server").status, 200);
}

#[test]
fn a_flood_of_requests_that_wait_keeps_no_newcomer_out() {
    let running = Running::with(1, limited);
    running.stream().set_prospect(Prospect::OnDemand);
    let addresses = (2..6).flat_map(|address| std::iter::repeat_n(address, PLACES));
    let flood: Vec<_> = addresses.map(|address| wake(&running, address)).collect();
    for address in 10..20 {
        let newcomer = Ipv4Addr::new(127, 0, 0, address);
        let answer = running.request_from(newcomer, "GET", "/api/v1/server", &[], "");
        assert_eq!(answer.status, 200, "{newcomer}");
    }
    // One that waits itself takes the place of one of the flood, until the source comes.
    let mut waits = wake(&running, 30);
    assert_eq!(running.get("/api/v1/server").status, 200);
    let now = Instant::now();
    let publisher = running
        .stream()
        .publish(vec![Track::audio(Codec::Opus, 2)], now);
    let mut builder = UnitBuilder::default();
    builder.push(b"an Opus packet");
    let unit = builder.build(TrackIndex(0), MediaTime::ZERO, true, Stamps::arrived(now));
    let pushed = publisher.expect("free").push(unit.expect("a packet"), now);
    pushed.expect("room");
    until("an answer", || !waits.read().is_empty() || waits.is_closed);
    let answer = waits.read();
    assert!(answer.starts_with("HTTP/1.1 404 "), "no video: {answer}");
    drop(flood);
}

#[test]
fn an_rtsp_client_that_leaves_while_it_waits_for_a_source_leaves_nothing_behind() {
    let running = Running::start(1);
    running.stream().set_prospect(Prospect::OnDemand);
    let mut client = TcpStream::connect(running.rtsp()).expect("it listens");
    let request = format!(
        "DESCRIBE rtsp://{}/cam RTSP/1.0\r\nCSeq: 1\r\n\r\n",
        running.rtsp()
    );
    client.write_all(request.as_bytes()).expect("it reads");
    until("the source is needed", || running.stream().is_demanded());
    let left = Instant::now();
    drop(client);
    until("nobody needs the source", || {
        !running.stream().is_demanded()
    });
    assert!(left.elapsed() < SOURCE_PATIENCE / 2, "{:?}", left.elapsed());
}

#[test]
fn clients_that_ask_for_images_and_hang_up_delay_nobody() {
    let running = Running::with_sources(vec![SourceSpec::parse("cam=demo").expect("a source")]);
    let ask = |address: u8, path: &str| {
        let stream = running.connect_http(Ipv4Addr::new(127, 0, 0, address));
        Request::send(stream, path, &[])
    };
    let is_image = |asked: &mut Request| asked.read().starts_with("HTTP/1.1 200 ");
    until("the first keyframe", || {
        let mut asked = ask(1, "/cam/snapshot.jpg?width=320");
        until("an answer", || !asked.read().is_empty() || asked.is_closed);
        is_image(&mut asked)
    });
    for width in 400..800 {
        let address = [2, 3, 4, 5][width % 4];
        drop(ask(address, &format!("/cam/snapshot.jpg?width={width}")));
    }
    let mut asked = ask(9, "/cam/snapshot.jpg?height=480");
    until("an image for another address", || is_image(&mut asked));
}

fn guarded(config: &mut Config) {
    let token = |name: &str, token: &str, role| NamedToken {
        name: Name::parse(name).expect("a name"),
        token: Secret::new(token).expect("a token"),
        role,
    };
    config.auth.tokens = vec![
        token("screens", VIEWER, Role::Viewer),
        token("deploy", ADMIN, Role::Admin),
    ];
}

/// Asks for a stream of events, from another address than the other requests of a test.
fn listen(running: &Running, path: &str, token: &str) -> Request {
    let from = Ipv4Addr::new(127, 0, 0, 9);
    let stream = running.connect(from.into(), running.listener("admin"));
    let authorization = format!("Bearer {token}");
    let headers = [
        ("Authorization", authorization.as_str()),
        ("Accept", "text/event-stream"),
    ];
    Request::send(stream, path, &headers)
}

#[test]
fn streams_of_events_of_one_operator_leave_the_port_to_others() {
    let running = Running::with(1, guarded);
    running.stream();
    let boss = listen(&running, "/api/v1/overview", ADMIN);
    let mut boss = [boss];
    let paths = ["/api/v1/overview", "/api/v1/streams/cam/stages"];
    let mut many: Vec<_> = (0..120)
        .map(|number| listen(&running, paths[number % 2], VIEWER))
        .collect();
    let newest = many.len() - 1;
    until("the newest is served", || {
        many[newest].read().contains("event: ")
    });
    until("the oldest has ended", || many[0].has_ended());
    assert!(!many[newest].has_ended());
    // Another operator of the same address goes on, and a second one is served.
    until("the other operator is served", || {
        boss[0].read().contains("event: overview")
    });
    assert!(!boss[0].has_ended(), "{}", boss[0].read());
    let mut second = listen(&running, paths[1], ADMIN);
    until("another stream is served", || {
        second.read().contains("event: stages")
    });
    for path in ["/healthz", "/readyz"] {
        let answer = running.admin(path);
        assert!(
            [200, 503].contains(&answer.status),
            "{path}: {}",
            answer.body
        );
    }
    let authorization = format!("Bearer {ADMIN}");
    let headers = [
        ("Authorization", authorization.as_str()),
        ("Content-Length", "0"),
    ];
    let revoked = running.admin_request("DELETE", "/api/v1/tokens/nobody", &headers);
    assert_eq!(revoked.status, 404, "{}", revoked.body);
}
