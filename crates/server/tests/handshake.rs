//! Viewers that do not connect: wrong certificate, silence, too many at once, gone early.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use glassline_webrtc::Event;
use serde_json::json;

use crate::failures::failures;
use crate::peer::{Peer, SDP, SOON};
use crate::running::{Response, Running, STREAM};
use crate::source::{Film, Source};

#[test]
fn a_wrong_fingerprint_ends_the_session_and_is_counted() {
    let running = Running::start(2);
    let _source = Source::start(&running.stream(), Film::default());
    let lie = |offer: &str| {
        let at = offer.find("a=fingerprint:sha-256 ").expect("a fingerprint") + 22;
        let digest = &offer[at..at + 95];
        let other = if digest.starts_with("00") { "01" } else { "00" };
        offer.replace(digest, &format!("{other}{}", &digest[2..]))
    };
    let mut peer = Peer::offering(&running, lie).expect("answered");
    let end = Instant::now() + SOON;
    while running.sessions() != (0, 0) {
        assert!(Instant::now() < end, "{:?}", running.sessions());
        peer.run_for(Duration::from_millis(50));
    }
    assert_eq!(running.total("handshakes_failed_total"), 1);
    assert_eq!(running.total("joins_total"), 0);
    assert!(peer.received.is_empty(), "an impostor was sent media");
    let reason = peer.delete().problem(410)["detail"].to_string();
    assert!(
        reason.contains("does not match the fingerprint"),
        "{reason}"
    );
    let failure = &failures(&running)[0];
    assert_eq!(
        (&failure["stage"], &failure["count"]),
        (&json!("handshake"), &json!(1)),
        "{failure}"
    );
    let remedy = failure["remedy"].as_str().unwrap_or_default();
    assert!(remedy.contains("intercepts the connection"), "{failure}");
}

fn offer_from(running: &Running, from: Ipv4Addr, offer: &str) -> Response {
    running.request_from(from, "POST", &format!("/{STREAM}/whep"), &[SDP], offer)
}

#[test]
fn half_open_sessions_are_capped_and_their_places_are_freed() {
    // The caps hold for a second, so a machine that takes longer for a few offers tries again.
    let is_held = (0..20).any(|_| half_open_sessions_are_capped());
    assert!(is_held, "four offers take more than a second each time");
}

/// Returns false if a session was older than a second before all offers were answered: it then may
/// have made room for another one.
fn half_open_sessions_are_capped() -> bool {
    let running = Running::with(2, |config| {
        config.limits.half_open_per_address = 2;
        config.limits.half_open = 3;
        config.limits.handshake_s = 2;
    });
    let _source = Source::start(&running.stream(), Film::default());
    let mut text = String::new();
    let began = Instant::now();
    let mut silent = Peer::offering(&running, |offer| {
        text = offer.to_owned();
        text.clone()
    })
    .expect("answered");
    let (here, there) = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2));
    let [second, refused, third, full] =
        [here, here, there, there].map(|from| offer_from(&running, from, &text));
    let sessions = running.sessions();
    if began.elapsed() > Duration::from_millis(900) {
        return false;
    }
    assert_eq!((second.status, third.status), (201, 201));
    assert!(refused.header("retry-after").is_some());
    let detail = refused.problem(429)["detail"].to_string();
    assert!(detail.contains("limits.half_open_per_address"), "{detail}");
    let detail = full.problem(503)["detail"].to_string();
    assert!(detail.contains("limits.half_open`"), "{detail}");
    assert_eq!(sessions, (3, 3));

    // One of them comes, but never begins its DTLS handshake.
    silent.check_from(&silent.socket, true);
    let answered = Instant::now();
    running.await_sessions(0, SOON);
    assert!(
        answered.elapsed() > Duration::from_millis(1000),
        "too early"
    );
    silent.delete().problem(410);
    silent.run_for(Duration::from_millis(50));
    assert!(!silent.is_connected());

    // Their permits are free, and a viewer that finishes its handshake frees its own.
    for _ in 0..4 {
        let mut peer = Peer::joined(&running);
        assert!(
            !peer
                .events
                .iter()
                .any(|event| matches!(event, Event::Closed(_)))
        );
        peer.drain();
    }
    assert_eq!(running.sessions(), (4, 0));
    true
}

#[test]
fn caps_are_raised_by_configuration() {
    let running = Running::with(1, |config| {
        config.limits.half_open_per_address = 150;
        config.limits.half_open = 150;
        // Longer than a slow machine takes for the offers.
        config.limits.handshake_s = 300;
    });
    let _source = Source::start(&running.stream(), Film::default());
    let mut text = String::new();
    let _first = Peer::offering(&running, |offer| {
        text = offer.to_owned();
        text.clone()
    });
    for _ in 1..150 {
        assert_eq!(offer_from(&running, Ipv4Addr::LOCALHOST, &text).status, 201);
    }
    // On a slow machine the first is older than a second by now, and makes room.
    let another = offer_from(&running, Ipv4Addr::LOCALHOST, &text).status;
    assert!([429, 201].contains(&another), "{another}");
    assert_eq!(running.sessions(), (150, 150));
}

/// A handshake that is slow but within the configured time is waited for.
#[test]
fn a_longer_deadline_is_kept_too() {
    let running = Running::with(1, |config| config.limits.handshake_s = 14);
    let _source = Source::start(&running.stream(), Film::default());
    let peer = Peer::answered(&running);
    peer.check_from(&peer.socket, true);
    std::thread::sleep(Duration::from_millis(11_500));
    assert_eq!(running.sessions(), (1, 1));
}

#[test]
fn viewers_leave_at_any_time_but_only_once_and_by_their_own_name() {
    let running = Running::start(2);
    let _source = Source::start(&running.stream(), Film::default());
    // Before anybody came.
    let waiting = Peer::answered(&running);
    // After the first check, before the handshake.
    let mut checked = Peer::answered(&running);
    checked.check_from(&checked.socket, false);
    checked
        .socket
        .set_read_timeout(Some(SOON))
        .expect("a timeout");
    checked.socket.recv_from(&mut [0; 512]).expect("an answer");
    // In the middle of DTLS.
    let mut hello = Peer::answered(&running);
    hello.run_until(SOON, |peer| peer.session.peer().is_some());
    // With media.
    let joined = Peer::joined(&running);

    for peer in [&waiting, &checked, &hello, &joined] {
        let other = peer.location.replace(STREAM, "other");
        running.request("DELETE", &other, &[], "").problem(404);
        assert_eq!(peer.delete().status, 200);
        // On a slow machine the client seems to have waited in vain before it left.
        let ended = if peer.is_connected() {
            [404, 404]
        } else {
            [404, 410]
        };
        for gone in [peer.delete(), peer.patch(&[], "")] {
            assert!(ended.contains(&gone.status), "{gone:?}");
        }
    }
    running.await_sessions(0, SOON);
    let end = Instant::now() + SOON;
    while running.stream().viewers() > 0 {
        assert!(Instant::now() < end, "a viewer is still served");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The places of those who left early serve others.
    checked.run_for(Duration::from_millis(100));
    assert!(!checked.is_connected());
    Peer::joined(&running);
}

#[test]
fn a_viewer_that_says_goodbye_by_dtls_is_forgotten() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let mut peer = Peer::joined(&running);
    peer.session.close(Instant::now());
    peer.drain();
    running.await_sessions(0, SOON);
    peer.delete().problem(404);
}
