//! Connections that fail, each for another reason, and what the client and the operator learn.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use glassline_client::viewers::{Endpoint, Join, Options, Pool, RtspTransport};
use glassline_config::AdvertisedAddress;
use serde_json::{Value, json};

use crate::peer::{Peer, SDP, SOON};
use crate::quic::{Camera, track_configs};
use crate::running::{Response, Running, STREAM};
use crate::source::{Film, Source, tracks};
use crate::sources::eventually;
use crate::whip::Publisher;

/// An address of a network for documentation, which nobody has (RFC 5737).
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 99));

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// Returns the list of failed connections of the API for operators.
pub(crate) fn failures(running: &Running) -> Vec<Value> {
    let list = running.admin("/api/v1/failures").json();
    list["failures"].as_array().expect("a list").clone()
}

/// Returns the reason with the remedy that the session's own address tells, which must be of this
/// stage.
#[track_caller]
pub(crate) fn told(response: &Response, stage: &str) -> (String, String) {
    let problem = response.problem(410);
    assert_eq!(problem["stage"], stage, "{problem}");
    let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
    (text("detail"), text("remedy"))
}

/// Gives the session up, as the player page does.
pub(crate) fn give_up(peer: &Peer<'_>, view: &Value) -> Response {
    let path = format!("{}/failure", peer.location);
    peer.running
        .request("POST", &path, &[JSON], &view.to_string())
}

#[test]
fn checks_that_never_arrive_are_blamed_on_the_advertised_address() {
    let running = Running::with(2, |config| {
        config.media.advertise = vec![AdvertisedAddress::Ip(NOBODY)];
    });
    let _source = Source::start(&running.stream(), Film::default());
    let peer = Peer::answered(&running);
    let media = running.listener("media").port();
    let pairs = json!([{"address": NOBODY, "port": media, "sent": 12, "answered": 0}]);
    let answer = give_up(&peer, &json!({"gathered": 2, "pairs": pairs}));
    let (reason, remedy) = told(&answer, "ice");
    let sent = format!("the client sent 12 connectivity checks to {NOBODY}:{media} by UDP and TCP");
    assert!(reason.starts_with(&sent), "{reason}");
    assert!(remedy.contains("media.advertise"), "{remedy}");
    assert_eq!(running.sessions(), (0, 0), "the session has ended");
    // The session's own address keeps telling, and the address of another stream does not.
    assert_eq!(told(&running.get(&peer.location), "ice").0, reason);
    running
        .get(&peer.location.replace(STREAM, "other"))
        .problem(404);
    give_up(&peer, &json!({})).problem(410);

    let [failure] = &failures(&running)[..] else {
        panic!("{:?}", failures(&running))
    };
    for (member, value) in [
        ("stream", json!(STREAM)),
        ("protocol", json!("webrtc")),
        ("role", json!("viewer")),
        ("stage", json!("ice")),
        ("source", json!("127.0.0.1")),
        ("reason", json!(reason)),
        ("remedy", json!(remedy)),
        ("count", json!(1)),
    ] {
        assert_eq!(failure[member], value, "{member}");
    }
    let session = failure["session"].as_str().expect("a session");
    assert_eq!(
        session.chars().count(),
        7,
        "{session} is not the right to the session"
    );
    let label = "protocol=\"webrtc\",stage=\"ice\"} ".trim_end_matches("} ");
    let counted = running.metric("connection_failures_total");
    assert_eq!(counted, [(label.to_owned(), 1)]);
    assert_eq!(
        running.get("/api/v1/failures").status,
        404,
        "for operators only"
    );
}

#[test]
fn a_client_that_waits_too_long_learns_the_reason_by_itself() {
    let running = Running::with(1, |config| config.limits.handshake_s = 2);
    let _source = Source::start(&running.stream(), Film::default());
    // One sends nothing, one sends checks and does not answer the server's, and one does both but
    // never begins DTLS.
    let silent = Peer::answered(&running);
    let deaf = Peer::answered(&running);
    deaf.check_from(&deaf.socket, true);
    let mut mute = Peer::answered(&running);
    mute.dtls_left = 0;
    let end = Instant::now() + SOON;
    while running.sessions() != (0, 0) {
        assert!(Instant::now() < end, "{:?}", running.sessions());
        mute.run_for(Duration::from_millis(50));
    }
    let (reason, remedy) = told(&running.get(&silent.location), "ice");
    assert!(
        reason.starts_with("no connectivity check arrived within "),
        "{reason}"
    );
    assert!(remedy.contains("this port alone is blocked"), "{remedy}");
    let (reason, _) = told(&running.get(&deaf.location), "ice");
    assert!(reason.contains("do not reach the client"), "{reason}");
    let (reason, _) = told(&running.get(&mute.location), "handshake");
    assert!(
        reason.contains("the client sent no ClientHello within"),
        "{reason}"
    );
    assert_eq!(failures(&running).len(), 3);
    assert_eq!(
        running.total("handshakes_failed_total"),
        2,
        "of sessions with checks"
    );
}

#[test]
fn a_handshake_that_breaks_off_names_the_flight_without_an_answer() {
    let running = Running::with(1, |config| config.limits.handshake_s = 3);
    let _source = Source::start(&running.stream(), Film::default());
    let mut peer = Peer::answered(&running);
    peer.dtls_left = 1;
    let end = Instant::now() + SOON;
    while running.sessions() != (0, 0) {
        assert!(Instant::now() < end, "{:?}", running.sessions());
        peer.run_for(Duration::from_millis(50));
    }
    let (reason, remedy) = told(&running.get(&peer.location), "handshake");
    assert!(
        reason.starts_with("DTLS: no answer to our ServerHello within 3 s"),
        "{reason}"
    );
    assert!(remedy.contains("MTU"), "{remedy}");
}

/// A client that does not like the server's certificate says so, and leaves.
#[test]
fn a_client_that_refuses_the_certificate_is_named_with_its_alert() {
    let running = Running::with(1, |config| config.limits.handshake_s = 3);
    let _source = Source::start(&running.stream(), Film::default());
    let mut peer = Peer::answered(&running);
    peer.dtls_left = 1;
    peer.run_for(Duration::from_millis(300));
    // RFC 6347 §4.1: a record of an alert, version 1.2, in the epoch without keys; RFC 5246 §7.2:
    // fatal, bad_certificate.
    let alert = [21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 2, 42];
    let server = peer.session.peer().expect("checks passed").socket;
    let end = Instant::now() + SOON;
    while running.sessions() != (0, 0) {
        assert!(Instant::now() < end, "{:?}", running.sessions());
        let sent = peer.socket.send_to(&alert, server);
        sent.expect("loopback takes it");
        peer.run_for(Duration::from_millis(50));
    }
    let (reason, remedy) = told(&running.get(&peer.location), "handshake");
    assert!(
        reason.contains("ended the handshake with the alert 42 (bad_certificate)"),
        "{reason}"
    );
    assert!(remedy.contains("certificates with ECDSA keys"), "{remedy}");
    let failure = &failures(&running)[0];
    assert_eq!(failure["reason"], json!(reason), "{failure}");
}

#[test]
fn a_refused_offer_is_among_the_failures() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    // An offer of a browser that has H.265 alone.
    let h265 = |offer: &str| {
        let lines = offer.lines().filter(|line| !line.contains("a=fmtp"));
        let renamed = lines.map(|line| match line.split_once(' ') {
            Some((rtpmap, codec))
                if rtpmap.starts_with("a=rtpmap") && codec.ends_with("/90000") =>
            {
                let is_rtx = codec.starts_with("rtx");
                format!("{rtpmap} {}\r\n", if is_rtx { codec } else { "H265/90000" })
            }
            _ => format!("{line}\r\n"),
        });
        renamed.collect()
    };
    let refused = Peer::offering(&running, h265)
        .map(|_| ())
        .expect_err("no H.264");
    refused.problem(422);
    let nobody = running.request("POST", "/nobody/whep", &[SDP], "v=0\r\n");
    nobody.problem(404);
    let evil = [SDP, ("Origin", "http://evil.example")];
    running.request("POST", "/cam/whip", &evil, "").problem(403);
    let all = failures(&running);
    let brief = |it: &Value| {
        let text = |name: &str| it[name].as_str().expect(name).to_owned();
        (text("stream"), text("role"), text("stage"))
    };
    let brief: Vec<_> = all.iter().map(brief).collect();
    let expected = [
        ("cam", "publisher", "rights"),
        ("nobody", "viewer", "stream"),
        ("cam", "viewer", "offer"),
    ];
    let expected = expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()));
    assert_eq!(brief, expected);
    let reason = all[2]["reason"].as_str().expect("a reason");
    assert!(reason.contains("the offer has H265"), "{reason}");
    let remedy = all[2]["remedy"].as_str().expect("a remedy");
    assert!(remedy.contains("H.264 without B-frames"), "{remedy}");
    let of_nobody = running.admin("/api/v1/failures?stream=nobody").json();
    assert_eq!(of_nobody["failures"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_an_rtsp_client_does_not_get_is_among_the_failures() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let ask = |method: &str, path: &str, headers: &str| {
        let url = format!("rtsp://{}/{path}", running.rtsp());
        running.raw_rtsp(&format!(
            "{method} {url} RTSP/1.0\r\nCSeq: 1\r\n{headers}\r\n"
        ))
    };
    let nobody = ask("DESCRIBE", "nobody", "");
    assert!(nobody.starts_with("RTSP/1.0 404"), "{nobody}");
    let transport = "Transport: MP2T/H2221/UDP;unicast\r\n";
    let refused = ask("SETUP", "cam/trackID=0", transport);
    assert!(refused.starts_with("RTSP/1.0 461"), "{refused}");
    // What a working client may try, too, is no failure.
    assert!(ask("DESCRIBE", STREAM, "").starts_with("RTSP/1.0 200"));
    assert!(ask("GET_PARAMETER", STREAM, "Session: none\r\n").starts_with("RTSP/1.0 4"));
    let all = failures(&running);
    let stages: Vec<_> = all
        .iter()
        .map(|it| (&it["protocol"], &it["stage"]))
        .collect();
    let (rtsp, offer, stream) = (json!("rtsp"), json!("offer"), json!("stream"));
    assert_eq!(stages, [(&rtsp, &offer), (&rtsp, &stream)]);
    assert_eq!(all[1]["stream"], "nobody");
    assert_eq!(
        all[1]["reason"],
        "DESCRIBE is answered 404: there is no such stream or file"
    );
    let remedy = all[0]["remedy"].as_str().expect("a remedy");
    assert!(remedy.contains("-rtsp_transport tcp"), "{remedy}");
}

/// The URL of a session that was made with a stream key does not name the stream.
#[test]
fn a_publisher_by_stream_key_learns_why_its_session_failed() {
    let running = Running::start(1);
    let key = [("Authorization", "Bearer studio")];
    let publisher = Publisher::post(&running, "/whip", &key).expect("answered");
    let location = publisher.peer.location.clone();
    assert!(location.starts_with("/whip/"), "{location}");
    let media = running.listener("media").port();
    let pairs = json!([{"address": NOBODY, "port": media, "sent": 12, "answered": 0}]);
    let answer = give_up(&publisher.peer, &json!({"gathered": 2, "pairs": pairs}));
    let (reason, _) = told(&answer, "ice");
    assert!(reason.contains("no connectivity check"), "{reason}");
    assert_eq!(told(&running.get(&location), "ice").0, reason);
    give_up(&publisher.peer, &json!({})).problem(410);
    running.get("/whip/another").problem(404);
    assert_eq!(failures(&running)[0]["stream"], "studio");
}

#[test]
fn strangers_neither_flood_the_list_nor_write_into_it() {
    let running = Running::start(1);
    let innocent = Ipv4Addr::new(127, 0, 0, 2);
    running.request_from(innocent, "POST", "/camera/whep", &[SDP], "v=0\r\n");
    for number in 0..100 {
        // A name with a terminal's control sequence, a line break and a reversal of direction.
        let path = format!("/{number}%1B%5B2J%0Ainnocent%E2%80%AE/whep");
        running
            .request("POST", &path, &[SDP], "v=0\r\n")
            .problem(400);
    }
    for _ in 0..5 {
        running
            .request("POST", "/same/whep", &[SDP], "v=0\r\n")
            .problem(404);
    }
    let all = failures(&running);
    assert_eq!(all.len(), 33, "32 of one source, and one of another");
    assert_eq!(all[0]["stream"], "same");
    assert_eq!(all[0]["count"], 5);
    assert!(all.iter().any(|it| it["stream"] == "camera"), "pushed out");
    for failure in &all {
        for member in ["stream", "reason"] {
            let text = failure[member].as_str().expect(member);
            let is_harmless = |it: char| !glassline_runtime::is_deceptive(it);
            assert!(text.chars().all(is_harmless), "{text:?}");
        }
    }
    // Neither does a report of a session's client: it has no place for text.
    let _source = Source::start(&running.stream(), Film::default());
    let peer = Peer::answered(&running);
    let view =
        json!({"gathered": 1, "text": "\u{1b}", "pairs": [{"address": "\u{1b}[2J", "sent": 3}]});
    let (reason, _) = told(&give_up(&peer, &view), "ice");
    assert!(reason.starts_with("the client sent 3 "), "{reason}");
    let peer = Peer::answered(&running);
    give_up(&peer, &json!({"pairs": "all"})).problem(400);
    assert_eq!(running.sessions(), (1, 1), "the session goes on");
}

#[test]
fn an_evicted_session_learns_the_limit() {
    let running = Running::with(1, |config| {
        config.limits.half_open_per_address = 1;
        config.limits.handshake_s = 300;
    });
    let _source = Source::start(&running.stream(), Film::default());
    let first = Peer::answered(&running);
    let end = Instant::now() + SOON;
    // The second takes the place once the first is a second old.
    while Peer::offering(&running, str::to_owned).is_err() {
        assert!(Instant::now() < end, "no place");
        std::thread::sleep(Duration::from_millis(100));
    }
    let (reason, remedy) = told(&running.get(&first.location), "server");
    assert!(reason.contains("needed the place of this one"), "{reason}");
    assert!(remedy.contains("limits.half_open_per_address"), "{remedy}");
}

#[test]
fn a_viewer_that_never_gets_a_frame_is_told_of_the_source() {
    let running = Running::start(1);
    let stream = running.stream();
    let _publisher = stream
        .publish(tracks(), Instant::now())
        .expect("a free stream");
    let mut peer = Peer::answered(&running);
    assert!(
        peer.run_until(SOON, Peer::is_connected),
        "{:?}",
        peer.events
    );
    peer.run_for(Duration::from_secs(6));
    assert_eq!(peer.delete().status, 200);
    let (reason, _) = told(&running.get(&peer.location), "media");
    assert!(
        reason.starts_with("connected, but the source gave no keyframe"),
        "{reason}"
    );
}

#[test]
fn viewers_that_leave_and_a_server_that_stops_are_no_failures() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let joined = Peer::joined(&running);
    assert_eq!(joined.delete().status, 200);
    let mut told_too_late = Peer::joined(&running);
    told_too_late.run_for(Duration::from_millis(100));
    assert!(failures(&running).is_empty());
    // The server has the handshake's end, and the client has not.
    let (reason, _) = told(&give_up(&told_too_late, &json!({})), "handshake");
    assert!(
        reason.contains("the handshake is done at the server"),
        "{reason}"
    );
}

/// Nothing comes back from the client any more: neither checks nor reports.
#[test]
fn a_viewer_whose_network_disappears_learns_why_when_it_is_back() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let mut lost = Peer::joined(&running);
    lost.await_media();
    let mut other = Peer::joined(&running);
    let end = Instant::now() + SOON;
    while running.sessions().0 == 2 {
        assert!(Instant::now() < end, "{:?}", running.sessions());
        other.run_for(Duration::from_millis(500));
    }
    let answer = running.get(&lost.location);
    assert_eq!(answer.problem(410)["title"], "The connection was lost");
    let (reason, remedy) = told(&answer, "connected");
    let address = lost.socket.local_addr().expect("bound");
    // How long depends on how fast this machine is.
    let begins = "connected";
    let ends =
        format!("no sign of life (connectivity check or media) came from the client at {address}");
    assert!(
        reason.starts_with(begins) && reason.ends_with(&ends),
        "{reason}"
    );
    assert!(remedy.contains("joins again"), "{remedy}");
    let all = failures(&running);
    let [failure] = &all[..] else {
        panic!("{all:?}")
    };
    let kind = ["role", "stage", "source"].map(|name| failure[name].as_str().expect(name));
    assert_eq!(kind, ["viewer", "connected", "127.0.0.1"]);
    assert!(other.is_connected(), "the other one stays");
}

#[test]
fn a_session_that_an_operator_ends_is_listed_and_told_so() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let mut peer = Peer::joined(&running);
    peer.await_media();
    let name = peer.location.rsplit('/').next().expect("a name");
    let path = format!("/api/v1/viewers/webrtc/{name}?stream={STREAM}");
    assert_eq!(running.admin_request("DELETE", &path, &[]).status, 204);
    let problem = running.get(&peer.location).problem(410);
    assert_eq!(problem["title"], "Ended by an operator", "{problem}");
    assert_eq!(problem["ended"], "dismissed", "{problem}");
    let failure = &failures(&running)[0];
    let text = |name: &str| failure[name].as_str().unwrap_or_default();
    assert_eq!(text("reason"), "an operator ended the session");
    assert_eq!((text("role"), text("stage")), ("viewer", "connected"));
    assert!(text("remedy").contains("/api/v1/audit"), "{failure}");
    let counted = running.metric("connection_failures_total");
    assert!(
        counted.is_empty(),
        "the operator's wish is no failure: {counted:?}"
    );
}

#[test]
fn rtsp_players_and_moq_publishers_that_an_operator_ends_are_listed() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let pool = Pool::start(Options::default()).expect("threads");
    let url = format!("rtsp://{}/{STREAM}", running.rtsp());
    pool.join(Join::new(Endpoint::Rtsp {
        url: url.parse().expect("a URL"),
        transport: RtspTransport::Tcp,
    }));
    let camera = Camera::start(&running, "yard", "", track_configs());
    let player = || {
        let list = running.admin("/api/v1/rtsp/clients").json();
        let playing = list["clients"].as_array()?.first()?.clone();
        (playing["state"] == "playing").then(|| playing["address"].clone())
    };
    let publisher = || {
        let list = running.admin("/api/v1/quic/sessions").json();
        let session = list["sessions"].as_array()?.first()?.clone();
        (session["publishes"] == json!(["yard"])).then(|| session["id"].to_string())
    };
    eventually("both are there", || {
        player().is_some() && publisher().is_some()
    });
    let address = player().expect("it plays");
    let named = [
        format!("rtsp/{}", address.as_str().expect("an address")),
        format!("moq/{}", publisher().expect("it publishes")),
    ];
    for name in named {
        let path = format!("/api/v1/viewers/{name}");
        assert_eq!(running.admin_request("DELETE", &path, &[]).status, 204);
    }
    drop(camera.ended());
    eventually("both are listed", || failures(&running).len() == 2);
    let all = failures(&running);
    for (protocol, role, stream) in [("rtsp", "viewer", STREAM), ("quic", "publisher", "yard")] {
        let of = all.iter().find(|it| it["protocol"] == protocol);
        let failure = of.unwrap_or_else(|| panic!("{protocol}: {all:?}"));
        let text = |name: &str| failure[name].as_str().unwrap_or_default();
        assert_eq!(text("reason"), "an operator ended the session");
        assert_eq!((text("role"), text("stream")), (role, stream), "{failure}");
        assert_eq!(text("stage"), "connected");
    }
}
