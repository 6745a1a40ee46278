//! Sessions and sources that restart while media flows.

use std::time::{Duration, Instant};

use glassline_media::Kind;
use glassline_webrtc::IceCredentials;
use glassline_webrtc::sdp::Fragment;

use crate::peer::{Peer, SOON};
use crate::running::{Response, Running};
use crate::source::{Film, Source};

fn fresh(name: &str) -> IceCredentials {
    IceCredentials {
        ufrag: format!("{name}{:08x}", rand::random::<u32>()),
        pwd: format!("{:032x}", rand::random::<u128>()),
    }
}

fn fragment(credentials: &IceCredentials) -> String {
    format!(
        "a=ice-ufrag:{}\r\na=ice-pwd:{}\r\nm=video 9 UDP/TLS/RTP/SAVPF 102\r\na=mid:0\r\n",
        credentials.ufrag, credentials.pwd
    )
}

/// Makes the peer follow the server's new credentials.
fn follow(peer: &mut Peer<'_>, ours: IceCredentials, response: &Response) {
    assert_eq!(response.status, 200, "{}", response.body);
    let answer = Fragment::parse(&response.body).expect("a fragment");
    let theirs = answer.credentials().expect("new credentials");
    assert_ne!(theirs, peer.credentials().1);
    assert!(answer.candidates().count() > 0, "{}", response.body);
    let etag = response.header("etag").expect("a new ETag").to_owned();
    assert_ne!(etag, peer.etag);
    peer.etag = etag;
    let now = Instant::now();
    peer.session.restart_ice(ours, theirs, now);
    let candidate = peer.server_candidate();
    peer.session.add_remote_candidate(&candidate, now);
}

/// Returns the longest time without a packet of audio since `from`.
fn longest_gap(peer: &Peer<'_>, from: Instant) -> Duration {
    let times: Vec<_> = peer
        .of(Kind::Audio)
        .map(|it| it.at)
        .filter(|at| *at >= from)
        .collect();
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    gaps.max().unwrap_or(Duration::MAX)
}

#[test]
fn ice_restarts_by_patch_and_only_with_the_right_etag() {
    let running = Running::start(2);
    let _source = Source::start(&running.stream(), Film::default());
    let mut peer = Peer::joined(&running);
    let body = fragment(&fresh("a"));
    let missing = peer.patch(&[], &body).problem(428);
    assert!(
        missing["detail"]
            .as_str()
            .expect("text")
            .contains("If-Match")
    );
    let stale = peer.patch(&[("If-Match", "\"stale\"")], &body).problem(412);
    assert!(stale["detail"].as_str().expect("text").contains(&peer.etag));

    let began = Instant::now();
    let first_etag = peer.etag.clone();
    for expected in ["*".to_owned(), String::new()] {
        let ours = fresh("b");
        let tag = if expected.is_empty() {
            peer.etag.clone()
        } else {
            expected
        };
        let response = peer.patch(&[("If-Match", &tag)], &fragment(&ours));
        follow(&mut peer, ours, &response);
        peer.run_for(Duration::from_millis(1200));
    }
    let old = peer.patch(&[("If-Match", &first_etag)], &fragment(&fresh("c")));
    old.problem(412);

    let gap = longest_gap(&peer, began);
    assert!(gap < Duration::from_secs(2), "media paused for {gap:?}");
    // Only the new credentials can have brought media to a new address.
    peer.change_port();
    assert!(
        peer.nominate(Duration::from_secs(4)),
        "new credentials do nothing"
    );
    assert_eq!(running.sessions(), (1, 0));
}

#[test]
fn candidates_trickle_without_a_tag_and_garbage_is_refused_by_line() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let waiting = Peer::answered(&running);
    let joined = Peer::joined(&running);
    for peer in [&waiting, &joined] {
        let (ours, _) = peer.credentials();
        let candidate = "a=candidate:1 1 udp 2130706431 192.0.2.7 50000 typ host\r\n";
        let trickled = peer.patch(
            &[],
            &(fragment(&ours) + candidate + "a=end-of-candidates\r\n"),
        );
        assert_eq!(trickled.status, 204, "{}", trickled.body);
        let garbage = peer.patch(&[], "a=ice-ufrag:abcd\r\nwhat is this\r\n");
        assert_eq!(garbage.problem(400)["line"], 2);
        let other = peer.running.request(
            "PATCH",
            &peer.location,
            &[("Content-Type", "text/plain")],
            "a=b",
        );
        other.problem(415);
    }
    let nobody = running.request(
        "PATCH",
        "/cam/whep/0123",
        &[("Content-Type", "application/trickle-ice-sdpfrag")],
        &fragment(&fresh("d")),
    );
    nobody.problem(404);
}

/// A restart that the server could not carry out must not change what it says.
#[test]
fn a_session_restarts_before_anybody_came_for_it() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let mut peer = Peer::answered(&running);
    let ours = fresh("e");
    let response = peer.patch(&[("If-Match", "*")], &fragment(&ours));
    follow(&mut peer, ours, &response);
    peer.await_media();
}

#[test]
fn viewers_stay_while_the_source_is_restarted() {
    let running = Running::start(2);
    let stream = running.stream();
    let source = Source::start(&stream, Film::default());
    let mut peer = Peer::joined(&running);
    peer.run_for(Duration::from_secs(1));
    drop(source);
    for pause in [0, 700] {
        peer.run_for(Duration::from_millis(pause));
        let received = peer.received.len();
        let source = Source::start(&stream, Film::default());
        let again = |peer: &Peer<'_>| {
            let new = &peer.received[received..];
            new.iter()
                .filter(|it| it.kind == Kind::Video && it.marker)
                .count()
                > 20
                && new.iter().filter(|it| it.kind == Kind::Audio).count() > 20
        };
        assert!(peer.run_until(SOON, again), "the new source is not seen");
        drop(source);
    }
    assert_eq!(stream.totals().sources, 3);
    for kind in [Kind::Video, Kind::Audio] {
        let received = peer.in_order(kind);
        for pair in received.windows(2) {
            assert_eq!(pair[1].sequence, pair[0].sequence + 1, "{kind:?}: a gap");
            let step = pair[1].timestamp.wrapping_sub(pair[0].timestamp);
            let same_frame = kind == Kind::Video && !pair[0].marker;
            assert_eq!(step == 0, same_frame, "{kind:?}: step of {step}");
            assert!(step < 90_000 * 3, "{kind:?}: step of {step}");
        }
    }
    assert!(peer.is_connected());
}
