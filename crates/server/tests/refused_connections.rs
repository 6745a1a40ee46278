//! Connections by WHEP, WHIP and calls that are refused or come to nothing, kind by kind, and what
//! the list of failures says of each.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use glassline_config::DataAccess;
use glassline_hub::StreamName;
use glassline_media::{Codec, Track};
use glassline_webrtc::Kinds;
use serde_json::{Value, json};

use crate::failures::{failures, give_up, told};
use crate::peer::{Peer, PeerOffer, SDP, SOON, socket};
use crate::rooms::{join, joined, open_leg, others};
use crate::running::{Response, Running};
use crate::source::{Film, Source, tracks};
use crate::whip::Publisher;

/// Asserts that the latest failure is of this role and stage, and that its reason contains `reason`.
#[track_caller]
fn latest(running: &Running, role: &str, stage: &str, reason: &str) {
    let all = failures(running);
    let failure = all.first().unwrap_or(&Value::Null);
    assert_eq!(
        (&failure["role"], &failure["stage"]),
        (&json!(role), &json!(stage)),
        "{failure}"
    );
    let found = failure["reason"].as_str().unwrap_or_default();
    assert!(found.contains(reason), "{found}");
}

#[test]
fn every_limit_of_calls_is_named_in_the_list() {
    let running = Running::with(1, |config| {
        config.limits.rooms = 1;
        config.limits.room_participants = 1;
    });
    let first = joined(&running, "team");
    join(&running, "team", &[])
        .err()
        .expect("full")
        .problem(503);
    latest(
        &running,
        "participant",
        "server",
        "limits.room_participants",
    );
    join(&running, "other", &[])
        .err()
        .expect("one room")
        .problem(503);
    latest(&running, "participant", "server", "limits.rooms");
    join(&running, "a~b", &[])
        .err()
        .expect("no name")
        .problem(400);
    latest(&running, "participant", "offer", "use letters");
    open_leg(&first, "abababababab")
        .err()
        .expect("nobody")
        .problem(404);
    latest(&running, "viewer", "stream", "it may have left");
    let tone = (vec![Track::audio(Codec::Pcmu, 1)], Kinds::NONE);
    let tone = Peer::asking(&running, "/call/team", &[], socket(), tone, str::to_owned);
    tone.err().expect("not Opus").problem(422);
    latest(&running, "participant", "offer", "a room takes Opus");
}

#[test]
fn offers_that_cannot_be_answered_are_named_in_the_list() {
    let running = Running::with(1, |config| config.limits.viewers = 1);
    let _source = Source::start(&running.stream(), Film::default());
    let post = |path: &str, kind: &str, body: &str| -> Response {
        running.request("POST", path, &[("Content-Type", kind)], body)
    };
    post("/cam/whep", SDP.1, "v=1").problem(400);
    latest(&running, "viewer", "offer", "Bad request (400)");
    post("/cam/whep", "text/plain", "v=0\r\n").problem(415);
    latest(&running, "viewer", "offer", "application/sdp");
    post("/cam/whip", SDP.1, &"x".repeat(300 << 10)).problem(413);
    latest(&running, "publisher", "offer", "(413)");
    post("/cam/talk", SDP.1, "v=0\r\n");
    latest(&running, "talker", "offer", "");
    let _only = Peer::joined(&running);
    Peer::offering(&running, str::to_owned)
        .err()
        .expect("one place")
        .problem(503);
    latest(&running, "viewer", "server", "limits.viewers");
}

/// `glassline doctor` tells its user what fails: its tries are no failed connections of viewers.
#[test]
fn what_doctor_tries_in_vain_is_no_failed_connection() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let tried = |agent: &str| {
        let agent = ("User-Agent", agent);
        running.request("POST", "/nobody/whep", &[SDP, agent], "v=1");
        let watching = PeerOffer::to_watch();
        let path = "/cam/whep";
        let peer = Peer::asking(&running, path, &[agent], socket(), watching, str::to_owned);
        give_up(&peer.expect("answered"), &json!({"gathered": 2}));
        failures(&running).len()
    };
    assert_eq!(tried("glassline-doctor/1.2"), 0);
    assert_eq!(tried("a browser"), 2);
}

/// An address that guesses learns to wait, whatever it guesses next, and the operator learns where.
#[test]
fn wrong_logins_and_their_limit_are_named_in_the_list() {
    let running = Running::with(1, |config| {
        config.auth.read_token = Some("look-1234567".parse().expect("a token"));
        config.auth.publish_token = Some("show-1234567".parse().expect("a token"));
    });
    let _source = Source::start(&running.stream(), Film::default());
    let ask = |last: u8, path: &str, token: &str| {
        let token = format!("Bearer {token}");
        let headers = [SDP, ("Authorization", token.as_str())];
        let from = Ipv4Addr::new(127, 0, 0, last);
        running
            .request_from(from, "POST", path, &headers, "v=0\r\n")
            .status
    };
    for (last, path, role, key) in [
        (2, "/cam/whep", "viewer", "auth.read_token"),
        (3, "/cam/whip", "publisher", "auth.publish_token"),
    ] {
        assert_eq!(ask(last, path, "guess"), 401);
        latest(&running, role, "rights", "(401)");
        let remedy = failures(&running)[0]["remedy"].to_string();
        assert!(remedy.contains(key), "{remedy}");
        let limited = (0..60).any(|guess| ask(last, path, &format!("guess-{guess}")) == 429);
        assert!(limited, "{path}: it may guess for ever");
        latest(&running, role, "rights", "Too many wrong logins (429)");
        let failure = &failures(&running)[0];
        assert_eq!(failure["source"], json!(format!("127.0.0.{last}")));
        let remedy = failure["remedy"].as_str().unwrap_or_default();
        assert!(remedy.contains("20 wrong logins"), "{remedy}");
    }
    assert_eq!(ask(4, "/cam/whep", "look-1234567"), 400, "another address");
}

#[test]
fn a_limit_of_handshakes_is_named_with_its_key() {
    let running = Running::with(1, |config| config.limits.half_open_per_address = 1);
    let _source = Source::start(&running.stream(), Film::default());
    let _first = Peer::answered(&running);
    let second = Peer::offering(&running, str::to_owned);
    second.err().expect("one at a time").problem(429);
    let key = "raise `limits.half_open_per_address`";
    latest(&running, "viewer", "server", key);
}

/// The candidates of a client tell why no check of it arrives.
#[test]
fn candidates_that_cannot_be_used_are_the_reason() {
    let running = Running::with(1, |config| config.media.tcp = false);
    let _source = Source::start(&running.stream(), Film::default());
    let failing = |candidate: Option<&str>| {
        let peer = Peer::offering(&running, |offer| {
            let others = offer
                .lines()
                .filter(|line| !line.starts_with("a=candidate"));
            let add = |line: &str| match candidate.filter(|_| line.starts_with("a=mid:")) {
                Some(candidate) => format!("{line}\r\na=candidate:{candidate}\r\n"),
                None => format!("{line}\r\n"),
            };
            others.map(add).collect()
        });
        let peer = peer.expect("answered");
        told(&give_up(&peer, &json!({})), "ice")
    };
    let (reason, remedy) = failing(None);
    assert!(
        reason.ends_with("the client named no candidate of its own"),
        "{reason}"
    );
    assert!(remedy.contains("a privacy setting"), "{remedy}");
    let (reason, remedy) = failing(Some("1 1 tcp 1 192.0.2.7 9 typ host tcptype active"));
    assert!(reason.contains("candidates of TCP alone"), "{reason}");
    assert!(remedy.contains("media.tcp"), "{remedy}");
    let (reason, remedy) = failing(Some("1 1 udp 1 2001:db8::7 5000 typ host"));
    assert!(
        reason.contains("candidates of IPv6 alone, and this server offers IPv4"),
        "{reason}"
    );
    assert!(remedy.contains("media.address listen on IPv6"), "{remedy}");
    // A name of multicast DNS may be of an address that works.
    let (reason, _) = failing(Some("1 1 udp 1 3f1b.local 5000 typ host"));
    assert!(reason.contains("no connectivity check arrived"), "{reason}");
    assert!(!reason.contains("candidate"), "{reason}");
}

/// Runs all peers until they have waited for longer than a client is given to leave unnoted.
fn run_beyond_patience(peers: &mut [&mut Peer<'_>], mut each: impl FnMut(&mut [&mut Peer<'_>])) {
    let end = Instant::now() + Duration::from_millis(5_300);
    while Instant::now() < end {
        for peer in peers.iter_mut() {
            peer.run_for(Duration::from_millis(20));
        }
        each(peers);
    }
}

#[test]
fn data_channels_that_never_open_are_a_failure() {
    let running = Running::with(1, |config| config.webrtc.data.viewers = DataAccess::Read);
    let _source = Source::start(&running.stream(), Film::default());
    let mut viewer = Peer::with_data(&running);
    let mut publisher = Peer::data_publisher(&running).expect("answered");
    let mut working = Peer::with_data(&running);
    for peer in [&mut viewer, &mut publisher] {
        // It ends SCTP before it begins, so that it sends nothing and answers nothing.
        peer.session.channels_mut().expect("agreed").disconnect();
    }
    run_beyond_patience(&mut [&mut viewer, &mut publisher, &mut working], |_| {});
    viewer.await_media();
    for peer in [&viewer, &publisher, &working] {
        assert!(peer.is_connected(), "{:?}", peer.events);
        assert_eq!(peer.delete().status, 200);
    }
    for peer in [&viewer, &publisher] {
        let (reason, remedy) = told(&running.get(&peer.location), "media");
        let silent = "never opened: no packet of the client arrived within ";
        assert!(reason.contains(silent), "{reason}");
        assert!(remedy.contains("m=application"), "{remedy}");
    }
    running.get(&working.location).problem(404);
    assert_eq!(failures(&running).len(), 2);
}

#[test]
fn data_channels_that_do_not_open_are_told_while_the_session_goes_on() {
    let running = Running::with(1, |config| config.webrtc.data.viewers = DataAccess::Read);
    let _source = Source::start(&running.stream(), Film::default());
    let mut viewer = Peer::with_data(&running);
    viewer.session.channels_mut().expect("agreed").disconnect();
    let end = Instant::now() + SOON;
    while failures(&running).is_empty() {
        assert!(Instant::now() < end, "nobody tells: {:?}", viewer.events);
        viewer.run_for(Duration::from_millis(250));
    }
    assert_eq!(running.sessions(), (1, 0), "it goes on");
    let silent = "never opened: no packet of the client arrived within 10 s";
    latest(&running, "viewer", "media", silent);
    viewer.await_media();
    assert_eq!(viewer.delete().status, 200);
    let all = failures(&running);
    assert_eq!((all.len(), &all[0]["count"]), (1, &json!(1)), "told once");
    told(&running.get(&viewer.location), "media");
}

#[test]
fn publishers_whose_media_never_comes_are_told_what_arrived() {
    let running = Running::start(1);
    let post = |name: &str| {
        let path = format!("/{name}/whip");
        let offer = PeerOffer::from((vec![Track::audio(Codec::Opus, 2)], Kinds::NONE));
        Peer::asking(&running, &path, &[], socket(), offer, str::to_owned).expect("answered")
    };
    let (mut mute, mut other, mut blind) = (post("mute"), post("other"), post("blind"));
    run_beyond_patience(&mut [&mut mute, &mut other, &mut blind], |peers| {
        let Some(server) = peers[1].session.peer() else {
            return;
        };
        // A header of RTP with a payload type that nobody offered, and a stray SSRC.
        let stray = [
            0x80, 35, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        let sent = peers[1].socket.send_to(&stray, server.socket);
        sent.expect("loopback takes it");
    });
    assert_eq!(mute.delete().status, 200);
    assert_eq!(other.delete().status, 200);
    let (reason, remedy) = told(&running.get(&mute.location), "media");
    assert!(
        reason.contains("no media packet arrived within"),
        "{reason}"
    );
    assert!(remedy.contains("encoder has begun"), "{remedy}");
    let (reason, _) = told(&running.get(&other.location), "media");
    assert!(reason.contains("has a payload type or an SSRC"), "{reason}");
    // One that gives up although the handshake is done at the server did not see its end.
    let (reason, _) = told(&give_up(&blind, &json!({})), "handshake");
    assert!(
        reason.contains("the handshake is done at the server"),
        "{reason}"
    );
}

/// Somebody else is live under the name before the first keyframe.
#[test]
fn a_publisher_that_comes_too_late_for_its_name_is_told_so() {
    let running = Running::start(1);
    let mut publisher = Publisher::post(&running, "/late/whip", &[]).expect("answered");
    let name = StreamName::parse("late").expect("a name");
    let stream = running.hub().create(name).expect("room for a stream");
    let _first = stream.publish(tracks(), Instant::now()).expect("free");
    let end = Instant::now() + SOON;
    while !publisher.peer.session.is_closed() {
        assert!(Instant::now() < end, "it goes on");
        publisher.send();
        publisher.peer.run_for(Duration::from_millis(20));
    }
    let (reason, remedy) = told(&running.get(&publisher.peer.location), "media");
    let said = "the stream could not be published: ";
    assert!(
        reason.starts_with(said) && reason.contains("late"),
        "{reason}"
    );
    assert!(remedy.contains("another name"), "{remedy}");
}

#[test]
fn an_ice_restart_that_is_refused_is_named_in_the_list() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let peer = Peer::joined(&running);
    let restart = "a=ice-ufrag:abcd\r\na=ice-pwd:abcdefghijklmnopqrstuvwx\r\n";
    peer.patch(&[("If-Match", "\"other\"")], restart)
        .problem(412);
    latest(&running, "viewer", "ice", "PATCH: ");
    latest(&running, "viewer", "ice", "(412)");
    let plain = [("Content-Type", "text/plain")];
    running
        .request("PATCH", &peer.location, &plain, restart)
        .problem(415);
    latest(&running, "viewer", "ice", "(415)");
    let nobody = running.request("PATCH", "/cam/whip/nobody", &plain, restart);
    nobody.problem(404);
    latest(&running, "publisher", "ice", "(404)");
    // A candidate that is taken is no failure.
    let count = failures(&running).len();
    assert!(peer.patch(&[], "a=end-of-candidates\r\n").status < 300);
    assert_eq!(failures(&running).len(), count);
}

#[test]
fn a_connection_without_a_place_for_its_address_is_named_in_the_list() {
    let running = Running::with(1, |config| config.http.connections_per_address = 1);
    let participant = joined(&running, "team");
    let end = Instant::now() + SOON;
    let send = |request: &str| -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(running.listener("http"))?;
        stream.set_read_timeout(Some(SOON))?;
        stream.write_all(request.as_bytes())?;
        Ok(stream)
    };
    // A request for a version waits until the room has another.
    let version = others(&participant, None)["version"].clone();
    let wait = format!(
        "GET {}?since={version} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        participant.location
    );
    let is_refused = || -> std::io::Result<bool> {
        let _waiting = send(&wait)?;
        std::thread::sleep(Duration::from_millis(50));
        let mut second = send("GET /api/v1/clock HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        Ok(second.read(&mut [0; 64])? == 0)
    };
    // A connection whose request has not been read yet makes room, so that several tries may be
    // needed. The reset may come at any step.
    while !is_refused().unwrap_or(true) {
        assert!(Instant::now() < end, "it waits in the only place");
    }
    latest(
        &running,
        "client",
        "server",
        "all 1 connections of this address are in use",
    );
    let failure = &failures(&running)[0];
    assert_eq!(failure["protocol"], "http", "{failure}");
    let remedy = failure["remedy"].as_str().unwrap_or_default();
    assert!(remedy.contains("http.connections_per_address"), "{remedy}");
}
