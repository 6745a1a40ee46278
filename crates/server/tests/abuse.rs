//! Input that no well-behaved client sends.

use crate::peer::{Peer, SDP, SOON, socket};
use crate::running::Running;
use crate::source::{Film, Source};

#[test]
fn malformed_requests_get_an_answer_each() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let post = |body: &str| running.request("POST", "/cam/whep", &[SDP], body);
    assert_eq!(post("v=0\r\nnonsense\r\n").problem(400)["line"], 2);
    post("").problem(400);
    running
        .request("POST", "/cam/whep", &[], "v=0\r\n")
        .problem(415);
    running
        .request("POST", "/nobody/whep", &[SDP], "v=0\r\n")
        .problem(404);
    running.request("PUT", "/cam/whep", &[SDP], "").problem(405);
    running
        .request("POST", "/doSignaling", &[], "{")
        .problem(400);
    // Targets that are no paths (RFC 9112 §3.2.3 and §3.2.4).
    for target in [
        "GET cam",
        "GET cam:80",
        "OPTIONS *",
        "CONNECT cam:80",
        "GET http://cam",
    ] {
        let text = format!("{target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert!(
            running.raw(&text).is_some(),
            "{target}: the connection broke"
        );
    }
    assert_eq!(running.sessions(), (0, 0));
}

/// Noise at the media port is counted, and viewers do not notice.
#[test]
fn stray_datagrams_are_counted_and_change_nothing() {
    let running = Running::start(2);
    let _source = Source::start(&running.stream(), Film::default());
    let mut peer = Peer::joined(&running);
    let stranger = socket();
    let (ours, theirs) = peer.credentials();
    let mut forged = crate::check::binding_request(
        &glassline_webrtc::IceCredentials {
            pwd: "not the password of this session".to_owned(),
            ..theirs
        },
        &ours,
        true,
    );
    let to = peer.session.peer().expect("connected").socket;
    for first in 0..=255u8 {
        let mut noise = vec![first; 60];
        stranger.send_to(&noise, to).expect("sent");
        noise.truncate(usize::from(first) % 20);
        stranger.send_to(&noise, to).expect("sent");
    }
    stranger.send_to(&forged, to).expect("sent");
    forged[0] = 0xff;
    stranger.send_to(&forged, to).expect("sent");
    let of = |reason: &str| -> u64 {
        let reason = format!("reason=\"{reason}\"");
        let dropped = running.metric("dropped_datagrams_total");
        let dropped = dropped.iter();
        let dropped = dropped.filter(|(labels, _)| labels.contains(&reason));
        dropped.map(|(_, count)| count).sum()
    };
    let counted = peer.run_until(SOON, |_| of("refused") == 1 && of("stray") >= 500);
    assert!(counted, "{} {}", of("refused"), of("stray"));
    assert_eq!(peer.session.peer(), Some(to.into()));
    let before = peer.received.len();
    let goes_on = peer.run_until(SOON, |peer| peer.received.len() > before);
    assert!(goes_on, "media stopped");
    assert_eq!(of("refused"), 1);
    assert_eq!(running.sessions(), (1, 0));
}
