//! Connections by RTSP, RTSPS and QUIC that end before they serve anybody, and what the operator
//! learns of each.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use glassline_quic::moq::Role;
use serde_json::{Value, json};

use crate::failures::failures;
use crate::peer::SOON;
use crate::quic;
use crate::rtsps;
use crate::running::Running;

/// Sends `bytes` to the RTSP port, reads the answer if one is expected, and closes the connection.
fn send(running: &Running, bytes: &[u8], is_answered: bool) {
    let mut stream = TcpStream::connect(running.rtsp()).expect("it listens");
    stream.write_all(bytes).expect("sent");
    if is_answered {
        let mut answer = [0; 4096];
        let count = stream.read(&mut answer).expect("an answer");
        assert!(count > 0, "closed without an answer");
    }
}

/// Waits for `count` entries in the list of failures, and returns them, the first one first.
fn await_failures(running: &Running, count: usize) -> Vec<Value> {
    let end = Instant::now() + SOON;
    loop {
        let mut all = failures(running);
        if all.len() >= count {
            assert_eq!(all.len(), count, "{all:#?}");
            all.reverse();
            return all;
        }
        assert!(Instant::now() < end, "{all:#?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[track_caller]
fn assert_is(failure: &Value, stage: &str, reason: &str, remedy: &str) {
    assert_eq!(failure["stage"], stage, "{failure}");
    let text = |name: &str| failure[name].as_str().unwrap_or_default();
    assert!(text("reason").contains(reason), "{failure}");
    assert!(text("remedy").contains(remedy), "{failure}");
}

#[test]
fn rtsp_connections_that_break_before_a_request_are_among_the_failures() {
    let running = Running::start(1);
    // This is how a monitor looks whether the port is open.
    send(&running, b"", false);
    send(
        &running,
        b"DESCRIBE rtsp://localhost/cam RTSP/1.0\r\nCSe",
        false,
    );
    let all = await_failures(&running, 1);
    assert_is(&all[0], "offer", "ended within a request", "");
    assert_eq!(
        (&all[0]["role"], &all[0]["protocol"]),
        (&json!("client"), &json!("rtsp"))
    );
    // The first bytes of a TLS handshake.
    let hello = [&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[0x5a; 505]].concat();
    send(&running, &hello, true);
    let all = await_failures(&running, 2);
    assert_is(&all[1], "handshake", "speaks TLS", "rtsp.tls.address");
    send(
        &running,
        b"GET /cam HTTP/1.1\r\nHost: localhost\r\n\r\n",
        true,
    );
    let all = await_failures(&running, 3);
    assert_is(&all[2], "offer", "HTTP on the RTSP port", "");
}

#[test]
fn rtsp_logins_that_fail_are_among_the_failures() {
    let running = Running::with(1, |config| {
        config.auth.read_token = Some("look-1234567".parse().expect("a token"));
    });
    let describe =
        |query: &str| format!("DESCRIBE rtsp://localhost/cam{query} RTSP/1.0\r\nCSeq: 1\r\n\r\n");
    send(&running, describe("").as_bytes(), true);
    let all = await_failures(&running, 1);
    let remedy = "rtsp://USER:PASSWORD@";
    assert_is(&all[0], "rights", "asked for user and password", remedy);
    assert_eq!(all[0]["stream"], "cam");
    for guess in 0..30 {
        let wrong = describe(&format!("?token=guess-{guess}"));
        send(&running, wrong.as_bytes(), true);
    }
    let all = await_failures(&running, 3);
    assert_is(
        &all[1],
        "rights",
        "401: user, password or token is wrong",
        "correct the credentials",
    );
    assert_is(
        &all[2],
        "rights",
        "503: too many wrong logins",
        "again soon",
    );
}

#[test]
fn rtsps_handshakes_that_fail_are_among_the_failures() {
    let running = rtsps::running(|_| {});
    let mut plain = TcpStream::connect(running.rtsps()).expect("it listens");
    plain
        .write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n")
        .expect("sent");
    let all = await_failures(&running, 1);
    assert_is(
        &all[0],
        "handshake",
        "the TLS handshake failed",
        "rtsp.address",
    );
    // A whole record with a part of a handshake's message.
    let mut leaves = TcpStream::connect(running.rtsps()).expect("it listens");
    leaves
        .write_all(&[22, 3, 1, 0, 4, 1, 0, 1, 0xfc])
        .expect("sent");
    drop(leaves);
    let all = await_failures(&running, 2);
    assert_is(
        &all[1],
        "handshake",
        "left during the TLS handshake",
        "certificate",
    );
}

#[test]
fn a_publisher_over_quic_that_may_not_have_its_stream_is_among_the_failures() {
    let running = Running::start(1);
    let tracks = crate::source::tracks();
    let _source = running
        .stream()
        .publish(tracks, Instant::now())
        .expect("free");
    quic::Camera::start(&running, "cam", "", quic::track_configs()).ended();
    let all = await_failures(&running, 1);
    assert_is(&all[0], "stream", "already has a source", "another name");
    assert_eq!(
        (&all[0]["role"], &all[0]["protocol"]),
        (&json!("publisher"), &json!("quic"))
    );
    assert_eq!(all[0]["source"], json!(Ipv4Addr::LOCALHOST));
}

#[test]
fn a_reader_over_quic_of_a_stream_that_is_not_there_is_among_the_failures() {
    let running = Running::start(1);
    let runtime = quic::runtime();
    let open = || runtime.block_on(quic::open(&running, "nobody", Role::Subscriber));
    let hasty = open().expect("reading is open");
    let end = Instant::now() + SOON;
    while running.total("quic_accepted_total") == 0 {
        assert!(Instant::now() < end, "it is granted");
        std::thread::sleep(Duration::from_millis(10));
    }
    runtime.block_on(hasty.close());
    let session = open().expect("reading is open");
    runtime.block_on(async {
        tokio::time::sleep(Duration::from_millis(5_500)).await;
        session.close().await;
    });
    let all = await_failures(&running, 1);
    let reason = "within 5 s the client subscribed to nothing";
    assert_is(&all[0], "stream", reason, "/api/v1/streams");
    assert_eq!(all[0]["role"], "viewer");
}
